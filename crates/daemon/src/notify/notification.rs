//! A notification: one thing that happened to a job, for programs as JSON and for people as a line.

use crate::api::{self, NotifyEvent};
use serde::Serialize;

/// Letters of a name that are shown; names are written by users and read in other people's mail.
const NAME_LETTERS_MAX: usize = 120;

/// One thing that happened, for one target.
#[derive(Clone, Debug, Serialize)]
pub struct Notification {
    /// The notification's identity. It is the same when the notification is sent again, so that a receiver can drop the copy.
    pub id: String,
    /// What happened to the job.
    pub event: NotifyEvent,
    /// The moment it happened, RFC 3339.
    pub at: String,
    /// The name of the machine.
    pub host: String,
    /// The job as it is now; null in a test.
    pub job: Option<api::Job>,
    #[serde(skip)]
    pub(super) seq: u64,
    #[serde(skip)]
    pub(super) wall_ns: i64,
}

impl Notification {
    /// Which job, and what happened to it.
    pub fn headline(&self) -> String {
        let Some(job) = &self.job else { return "a test: messages arrive".to_owned() };
        let name = job.name.as_deref().map_or_else(String::new, |name| format!(" ({})", plain(name)));
        format!("job {}{name} {}", job.id, self.event.word())
    }

    /// The same with whatever helps to judge it, in one line.
    pub fn line(&self) -> String {
        let Some(job) = &self.job else { return format!("{} from {}", self.headline(), plain(&self.host)) };
        let gpus = job.gpu_indices.as_ref().filter(|gpus| !gpus.is_empty());
        let gpus = gpus.map_or_else(String::new, |gpus| {
            let list = gpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            format!(" on GPU {list}")
        });
        let rest = match self.event {
            NotifyEvent::Started => gpus,
            NotifyEvent::Finished => format!("{}{gpus}", length(job)),
            _ => format!("{}{gpus}: {}", length(job), plain(job.reason.as_deref().unwrap_or("no reason is known"))),
        };
        format!("{}{rest}, {} on {}", self.headline(), plain(&job.user), plain(&self.host))
    }

    /// The same with everything a person may want to know, in lines.
    pub fn paragraph(&self) -> String {
        let mut lines = vec![self.line()];
        if let Some(job) = &self.job {
            let command = job.command.iter().map(|word| plain(&word.lossy())).collect::<Vec<_>>().join(" ");
            lines.push(format!("  command   {command}"));
            lines.push(format!("  submitted {}", job.submitted_at));
            lines.extend(job.started_at.iter().map(|at| format!("  started   {at}")));
            lines.extend(job.finished_at.iter().map(|at| format!("  ended     {at}")));
            lines.extend(job.log_path.iter().map(|path| format!("  log       {}", plain(path))));
        }
        lines.join("\n")
    }
}

/// The job's run time, where that is known.
fn length(job: &api::Job) -> String {
    let moment = |text: &Option<String>| text.as_ref().and_then(|text| text.parse::<jiff::Timestamp>().ok());
    let (Some(start), Some(end)) = (moment(&job.started_at), moment(&job.finished_at)) else { return String::new() };
    let seconds = (end.as_second() - start.as_second()).max(0);
    match seconds {
        0..120 => format!(" after {seconds} s"),
        120..7200 => format!(" after {} min", seconds / 60),
        _ => format!(" after {} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Text of a user's without anything that could pass for something else: no line ends, no controls, nothing that turns the writing round.
pub fn plain(text: &str) -> String {
    let is_plain = |letter: char| {
        !letter.is_control()
            && !matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    let mut shown: String =
        text.chars().take(NAME_LETTERS_MAX).map(|letter| if is_plain(letter) { letter } else { ' ' }).collect();
    if text.chars().nth(NAME_LETTERS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_pass_for_something_else() {
        assert_eq!(plain("a\r\nBcc: b\u{202e}c\u{1b}[31m"), "a  Bcc: b c [31m");
        assert_eq!(plain(&"x".repeat(1000)).chars().count(), NAME_LETTERS_MAX + 1);
    }
}
