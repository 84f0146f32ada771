//! The log that Gavel's iterator writes for each process of a run: how many steps it did, and whether the job is complete.
//!
//! A line is `[time] [EVENT] [STATUS] message`. The last `PROGRESS` lines count.

use std::path::Path;

/// As much of the end of a log as is read.
const LOG_BYTES_MAX: u64 = 64 << 10;

/// What the log of one process says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerLog {
    /// Steps done in the run.
    pub steps: Option<u64>,
    /// Whether the script said that all its epochs are done.
    pub is_complete: bool,
}

/// Reads what a log says; what cannot be read says nothing.
pub fn parse(text: &str) -> WorkerLog {
    let mut log = WorkerLog::default();
    for line in text.lines() {
        let mut parts = line.split(']').map(|part| part.trim().trim_start_matches('['));
        let (_, event, status) = (parts.next(), parts.next(), parts.next());
        let message = parts.next().unwrap_or("");
        match (event, status) {
            (Some("PROGRESS"), Some("STEPS")) => log.steps = message.parse().ok().or(log.steps),
            (Some("LEASE"), Some("COMPLETE")) => log.is_complete = true,
            _ => {}
        }
    }
    log
}

/// The logs of a run's processes, by their GPUs; those that are not there are left out.
pub fn read(checkpoint_dir: &Path, round: u32, workers: &[u32]) -> Vec<WorkerLog> {
    let folder = checkpoint_dir.join(".gavel").join(format!("round={round}"));
    workers.iter().filter_map(|worker| Some(parse(&end_of(&folder.join(format!("worker={worker}.log")))?))).collect()
}

fn end_of(path: &Path) -> Option<String> {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = std::fs::File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_BYTES_MAX))).ok()?;
    let mut bytes = Vec::new();
    file.take(LOG_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_of_progress_count() {
        let text = "[2026-11-17 05:00:00] [INIT] [COMPLETE] \n[t] [PROGRESS] [STEPS] 10\n[t] [PROGRESS] [DURATION] 1.5\n\
                    [t] [PROGRESS] [STEPS] 25\n[t] [PROGRESS] [STEPS] many\nnonsense\n";
        assert_eq!(parse(text), WorkerLog { steps: Some(25), is_complete: false });
        assert!(parse("[t] [LEASE] [COMPLETE] Completed").is_complete);
        assert_eq!(parse("]]][["), WorkerLog::default());
    }
}
