//! Options that choose jobs: numbers, ranges, groups, and what jobs have in common.

use super::daemon::StateArgs;
use clap::Args;
use rota_daemon::api::JobState;
use std::path::PathBuf;

/// Jobs as they are named on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobWord {
    /// One job, by its number.
    Job(u64),
    /// All jobs from one number to another.
    Range(u64, u64),
    /// All jobs of a group.
    Group(u64),
}

/// The widest range of numbers.
const RANGE_MAX: u64 = 10_000;

/// Reads `17`, `3-9` or `group:7`.
pub fn job_word(text: &str) -> Result<JobWord, String> {
    let wrong = || format!("`{text}` is not a job; write a number (17), a range (3-9) or a group (group:7)");
    if let Some(number) = text.strip_prefix("group:") {
        return number.parse().map(JobWord::Group).map_err(|_| wrong());
    }
    let Some((first, last)) = text.split_once('-') else { return text.parse().map(JobWord::Job).map_err(|_| wrong()) };
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if first <= last && last - first < RANGE_MAX => Ok(JobWord::Range(first, last)),
        (Ok(first), Ok(last)) if first <= last => Err(format!("`{text}` is more than {RANGE_MAX} jobs")),
        _ => Err(wrong()),
    }
}

/// Which jobs are meant.
#[derive(Args, Clone, Debug)]
pub struct SelectArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// Jobs: numbers (17), ranges (3-9) or groups (group:7)
    #[arg(value_name = "JOB", value_parser = job_word)]
    pub what: Vec<JobWord>,
    /// Jobs with this name, or of a group with this name; `*` stands for any letters
    #[arg(short = 'n', long, value_name = "NAME")]
    pub name: Option<String>,
    /// Jobs of this user; `all` for every user's [default with --name or --state: your own]
    #[arg(short = 'u', long, value_name = "USER")]
    pub user: Option<String>,
}

impl SelectArgs {
    /// The states of jobs that were named with `--state`, beside the daemon's directory.
    pub fn states(&self) -> Vec<JobState> {
        self.state.state.iter().filter_map(|value| job_state(value)).collect()
    }

    /// The daemon that is meant.
    pub fn daemon(&self) -> StateArgs {
        StateArgs { state: self.state.state.iter().filter(|value| job_state(value).is_none()).cloned().collect() }
    }

    /// Whether jobs are chosen by what they have in common.
    pub fn is_filter(&self) -> bool {
        self.name.is_some() || self.user.is_some() || !self.states().is_empty()
    }
}

/// A value of `--state` that is a state of jobs. A directory of that name is written `./waiting`.
fn job_state(value: &std::path::Path) -> Option<JobState> {
    value.to_str().and_then(JobState::from_word)
}

/// The end of the help of a command that changes jobs; `by_state` shows a choice by state that makes sense with it.
pub fn verb_examples(verb: &str, by_state: &str, meaning: &str) -> String {
    let lines = [
        ("17", "one job"),
        ("3-9 group:12", "a range, and every job of a group"),
        ("--name 'bert*'", "your jobs with such a name"),
        (by_state, meaning),
    ];
    let lines = lines.map(|(words, meaning)| format!("  {:<40}{meaning}\n", format!("rota {verb} {words}"))).concat();
    format!(
        "Examples:\n{lines}\n`--state` takes a state of jobs (waiting, held, running, failed, …) or the daemon's directory, and may be \
         given twice.\nMore than one job is shown before it is touched. In scripts, --name, --state and --user need --yes."
    )
}

/// Commands that change jobs.
#[derive(Args, Clone, Debug)]
pub struct JobsArgs {
    #[command(flatten)]
    pub select: SelectArgs,
    /// Do not ask before several jobs are touched
    #[arg(short = 'y', long)]
    pub yes: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl StateArgs {
    /// The directory that was named, on the command line or in `ROTA_STATE`.
    pub fn named(&self) -> Option<PathBuf> {
        let variable = || std::env::var_os("ROTA_STATE").filter(|value| !value.is_empty()).map(PathBuf::from);
        self.state.last().cloned().or_else(variable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_named_by_number_range_or_group() {
        assert_eq!(job_word("17"), Ok(JobWord::Job(17)));
        assert_eq!(job_word("3-9"), Ok(JobWord::Range(3, 9)));
        assert_eq!(job_word("group:7"), Ok(JobWord::Group(7)));
        for wrong in ["", "x", "9-3", "group:", "group:x", "1-2-3", "1-999999"] {
            assert!(job_word(wrong).is_err(), "{wrong}");
        }
    }
}
