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
        for group in jobs.iter().filter_map(|job| job.group) {
            *listed.entry(group).or_default() += 1;
        }
        // A group that is one row has the GPUs of all its jobs.
        let mut held: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
        for job in jobs.iter().filter(|job| job.state.has_gpus()) {
            let gpus = job.gpu_indices.iter().flatten();
            job.group.into_iter().for_each(|group| held.entry(group).or_default().extend(gpus.clone()));
        }
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
            job.gpu_indices = held.remove(&number).map(|gpus| gpus.into_iter().collect()).or(job.gpu_indices);
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

#[cfg(test)]
mod tests {
    use super::super::app::News;
    use super::super::fixtures::{app, gpu, hit, job, room, shown, sight};
    use super::super::input::Effect;
    use super::*;
    use crossterm::event::KeyCode::{Char, Down, Enter, Esc};

    #[test]
    fn left_alone_it_stays_on_the_top_active_row() {
        let mut app = room();
        assert_eq!(app.selected, Some(17));
        let later = |first: JobState, second: JobState| {
            let over = (30..60).map(|id| job(id, JobState::Done, "old"));
            let jobs = over.chain([job(17, first, "train-llama"), job(18, second, "evaluate")]).collect();
            News::Seen(Box::new(sight(vec![gpu(0)], jobs)))
        };
        app.take(later(JobState::Done, JobState::Running));
        assert_eq!(app.selected, Some(18));
        assert!(shown(&mut app, 80, 24).iter().any(|row| row.contains("evaluate") && row.contains("running")));
        // A job that the user chose and that ends does not take the list along to its end.
        app.take(later(JobState::Running, JobState::Running));
        hit(&mut app, &[Down]);
        assert_eq!(app.selected, Some(18));
        app.take(later(JobState::Running, JobState::Done));
        assert_eq!(app.selected, Some(17));
    }

    fn member(id: u64, state: JobState) -> Job {
        Job { group: Some(7), ..job(id, state, &format!("bert[{id}]")) }
    }

    #[test]
    fn a_group_is_one_row_that_unfolds_and_is_acted_upon_as_a_whole() {
        let jobs = vec![member(7, JobState::Waiting), member(8, JobState::Running), member(9, JobState::Waiting)];
        let other = Job { gpu_indices: Some(vec![2]), ..member(10, JobState::Running) };
        let both = app(vec![gpu(0)], jobs.iter().cloned().chain([other]).collect());
        assert_eq!(both.jobs[0].gpu_indices, Some(vec![0, 2]), "the GPUs of all its jobs");
        let mut app = app(vec![gpu(0)], jobs);
        assert_eq!((app.jobs.len(), app.jobs[0].name.as_deref()), (1, Some("bert (3 jobs)")));
        assert_eq!(hit(&mut app, &[Char('c'), Char('y')]), Effect::ActOnGroup(super::super::app::Verb::Cancel, 7));
        hit(&mut app, &[Char('x')]);
        assert_eq!(app.jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [8, 7, 9]);
        assert_eq!(hit(&mut app, &[Char('c'), Char('y')]), Effect::Act(super::super::app::Verb::Cancel, 8));
        hit(&mut app, &[Char('x')]);
        assert_eq!(app.jobs.len(), 1);
    }

    #[test]
    fn jobs_are_found_sorted_and_given_another_priority() {
        let mut app = room();
        hit(&mut app, &[Char('/'), Char('E'), Char('v'), Enter]);
        assert_eq!(app.jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [18]);
        assert_eq!(hit(&mut app, &[Char('+')]), Effect::Prioritise(18, 1));
        hit(&mut app, &[Esc]);
        assert_eq!(app.jobs.len(), 4);
        assert_eq!(hit(&mut app, &[Char('-')]), Effect::None, "it runs");
        let mut jobs = vec![job(1, JobState::Waiting, "b"), job(2, JobState::Waiting, "a"), job(3, JobState::Waiting, "c")];
        jobs[2].priority = 5;
        let mut app = super::super::fixtures::app(Vec::new(), jobs);
        let order = |app: &super::super::app::App| app.jobs.iter().map(|job| job.id).collect::<Vec<_>>();
        hit(&mut app, &[Char('s'), Char('s')]);
        assert_eq!((app.arrangement.sort, order(&app)), (Sort::Priority, vec![3, 1, 2]));
        hit(&mut app, &[Char('s')]);
        assert_eq!(order(&app), [2, 1, 3]);
    }
}
