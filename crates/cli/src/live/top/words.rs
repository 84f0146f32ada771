//! Words, numbers and widths as the dashboard shows them.

use jiff::Timestamp;
use ratatui::text::Span;
use rota_daemon::api::Job;

/// Whether a character would act on the terminal, or on the order of the text around it, in place of being shown.
fn is_hazard(letter: char) -> bool {
    let turns_text =
        matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
    letter.is_control() || turns_text
}

/// The text with everything replaced that is not for showing. Names, reasons and logs are written by anybody.
pub fn plain(text: &str) -> String {
    text.chars().map(|letter| if is_hazard(letter) { '\u{fffd}' } else { letter }).collect()
}

/// Columns that a text takes.
pub fn width(text: &str) -> usize {
    Span::raw(text).width()
}

fn letter_width(letter: char) -> usize {
    width(letter.encode_utf8(&mut [0; 4]))
}

/// The beginning of a text that fits, with a sign that there is more.
pub fn fit(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let mut cut = String::new();
    let mut taken = 0;
    for letter in text.chars() {
        taken += letter_width(letter);
        if taken + 1 > most {
            break;
        }
        cut.push(letter);
    }
    if most > 0 {
        cut.push('…');
    }
    cut
}

/// The text in exactly so many columns.
pub fn pad(text: &str, columns: usize) -> String {
    let fitted = fit(text, columns);
    let missing = columns.saturating_sub(width(&fitted));
    fitted + &" ".repeat(missing)
}

/// The text in exactly so many columns, at their right end.
pub fn pad_left(text: &str, columns: usize) -> String {
    let fitted = fit(text, columns);
    " ".repeat(columns.saturating_sub(width(&fitted))) + &fitted
}

/// The text in rows of at most so many columns, broken between words where that does not waste half a row.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(1);
    let mut rows = Vec::new();
    let mut row = String::new();
    let mut taken = 0;
    for letter in text.chars() {
        let wide = letter_width(letter);
        if taken + wide > columns && !row.is_empty() {
            if letter == ' ' {
                rows.push(std::mem::take(&mut row));
                taken = 0;
                continue;
            }
            let gap = row.rfind(' ').filter(|at| width(&row[..*at]) > columns / 2);
            let rest = gap.map_or_else(String::new, |at| row.split_off(at).trim_start().to_owned());
            rows.push(std::mem::replace(&mut row, rest));
            taken = width(&row);
        }
        row.push(letter);
        taken += wide;
    }
    rows.push(row);
    rows
}

/// Memory, shortly: `512M`, `3.2G`, `24G`.
pub fn memory(mib: u64) -> String {
    let gib = mib as f64 / 1024.0;
    match mib {
        0 => "0".to_owned(),
        1..1000 => format!("{mib}M"),
        1000..10_189 if !mib.is_multiple_of(1024) => format!("{gib:.1}G"),
        _ => format!("{gib:.0}G"),
    }
}

/// A length of time, shortly.
pub fn short_time(seconds: i64) -> String {
    match seconds.max(0) {
        seconds @ 0..120 => format!("{seconds}s"),
        seconds @ 120..7200 => format!("{}m", seconds / 60),
        seconds @ 7200..172_800 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// How long ago a moment was, shortly.
pub fn age(now: Timestamp, rfc3339: &str) -> String {
    rfc3339.parse::<Timestamp>().map_or_else(|_| "?".to_owned(), |then| short_time(now.as_second() - then.as_second()))
}

/// How long a job is in the state it is in: over, running, or in the queue.
pub fn job_age(now: Timestamp, job: &Job) -> String {
    let since = job.finished_at.as_ref().or(job.started_at.as_ref()).unwrap_or(&job.submitted_at);
    age(now, since)
}

/// A job's name, or its command where it has none.
pub fn job_name(job: &Job) -> String {
    plain(&job.name.clone().unwrap_or_else(|| crate::live::text::command_line(&job.command)))
}

/// The GPUs a job has, or how many it wants.
pub fn job_gpus(job: &Job) -> String {
    match job.gpu_indices.as_deref() {
        Some(indices) if !indices.is_empty() => indices.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
        _ => format!("({})", job.gpus_requested),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_by_columns_and_not_by_letters() {
        assert_eq!(fit("training", 8), "training");
        assert_eq!(fit("training", 5), "trai…");
        assert_eq!(fit("訓練中", 5), "訓練…");
        assert_eq!(fit("訓練中", 4), "訓…");
        assert_eq!((fit("x", 0), fit("xy", 1)), (String::new(), "…".to_owned()));
        assert_eq!(pad("訓練中", 4), "訓… ");
        assert_eq!(pad_left("7", 3), "  7");
    }

    #[test]
    fn rows_break_between_words_or_else_anywhere() {
        assert_eq!(wrap("needs 4 GPUs at once", 12), ["needs 4 GPUs", "at once"]);
        assert_eq!(wrap("/a/very/long/path", 8), ["/a/very/", "long/pat", "h"]);
        assert_eq!(wrap("", 5), [""]);
        assert_eq!(wrap("訓練", 1), ["訓", "練"]);
    }

    #[test]
    fn memory_is_short() {
        let short = [512, 1024, 3277, 10_188, 24_576, 81_920].map(memory);
        assert_eq!(short, ["512M", "1G", "3.2G", "9.9G", "24G", "80G"]);
    }

    #[test]
    fn nothing_that_acts_on_a_terminal_stays_in_a_text() {
        assert_eq!(plain("a\u{1b}[31mb\u{9b}c\u{202e}d\n"), "a\u{fffd}[31mb\u{fffd}c\u{fffd}d\u{fffd}");
    }
}
