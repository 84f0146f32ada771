//! Which rows the dashboard lists, and in which order: found by a text, sorted, and with the jobs of a group folded into one row.

use super::words::{job_name, plain};
use rota_daemon::api::{Group, Job, JobState};
use std::collections::{BTreeMap, BTreeSet};

/// What jobs are sorted by. Jobs that run always stand above jobs that wait, and those above jobs that are over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// The order of arrival.
    #[default]
    Arrival,
    /// The job's user.
    User,
    /// Higher priorities first.
    Priority,
    /// The job's name.
    Name,
}

impl Sort {
    /// The next way to sort.
    pub fn next(self) -> Self {
        match self {
            Self::Arrival => Self::User,
            Self::User => Self::Priority,
            Self::Priority => Self::Name,
            Self::Name => Self::Arrival,
        }
    }

    /// What it sorts by, in a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Arrival => "arrival",
            Self::User => "user",
            Self::Priority => "priority",
            Self::Name => "name",
        }
    }
}

/// A group that is shown as one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fold {
    /// The group's number.
    pub group: u64,
    /// Its members, listed or not.
    pub jobs: u64,
}

/// What the user asked to see.
#[derive(Clone, Debug, Default)]
pub struct Arrangement {
    /// Only jobs with this in their number, name, user or state.
    pub text: String,
    /// Whether the text is being typed.
    pub is_typing: bool,
    /// What jobs are sorted by.
    pub sort: Sort,
    /// Groups that are shown with a row for each job.
    pub unfolded: BTreeSet<u64>,
}

impl Arrangement {
    /// The rows for these jobs, and those among them that stand for a whole group.
    pub fn rows(&self, seen: &[Job], groups: &[Group]) -> (Vec<Job>, BTreeMap<u64, Fold>) {
        let text = self.text.to_lowercase();
        let mut jobs = seen.iter().filter(|job| says(job, &text)).cloned().collect::<Vec<_>>();
        match self.sort {
            Sort::Arrival => jobs.sort_by_key(activity),
            Sort::User => jobs.sort_by_key(|job| (activity(job), job.user.clone())),
            Sort::Priority => jobs.sort_by_key(|job| (activity(job), std::cmp::Reverse(job.priority))),
            Sort::Name => jobs.sort_by_key(|job| (activity(job), job_name(job))),
        }
        let mut listed: BTreeMap<u64, u64> = BTreeMap::new();
        jobs.iter().filter_map(|job| job.group).for_each(|group| *listed.entry(group).or_default() += 1);
        let mut folds = BTreeMap::new();
        let mut shown = BTreeSet::new();
        let mut rows = Vec::with_capacity(jobs.len());
        for mut job in jobs {
            let folded = job.group.filter(|group| listed[group] > 1 && !self.unfolded.contains(group));
            let Some(number) = folded else {
                rows.push(job);
                continue;
            };
            if !shown.insert(number) {
                continue;
            }
            let group = groups.iter().find(|group| group.id == number);
            let count = group.map_or(listed[&number], |group| group.counts.all());
            let name = group.map_or_else(|| group_name(&job), |group| group.name.clone());
            job.name = Some(format!("{name} ({count} jobs)"));
            job.reason = group.map(|group| group.counts.words()).or(job.reason);
            folds.insert(job.id, Fold { group: number, jobs: count });
            rows.push(job);
        }
        (rows, folds)
    }
}

/// The name of a job's group, as far as the job tells it.
fn group_name(job: &Job) -> String {
    let name = job_name(job);
    name.split('[').next().unwrap_or(&name).to_owned()
}

/// Jobs that do something stand above those that do not.
fn activity(job: &Job) -> u8 {
    match job.state {
        state if state.has_gpus() => 0,
        JobState::Waiting => 1,
        JobState::Held => 2,
        _ => 3,
    }
}

fn says(job: &Job, text: &str) -> bool {
    let has = |word: &str| word.to_lowercase().contains(text);
    text.is_empty() || has(&job.id.to_string()) || has(&job_name(job)) || has(&plain(&job.user)) || has(job.state.word())
}
