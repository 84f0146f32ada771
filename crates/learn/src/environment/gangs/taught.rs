//! What the jobs of an episode have taught about run times so far, by kind and by user.
//!
//! A chooser is told of it when an eighth more jobs have ended than when it was told last, or [`ENDS_MAX`] more: each telling goes over all
//! kinds of jobs that are seen. Running jobs count for the steps that they have got to by then.

use super::jobs::Jobs;
use crate::features::Taught;
use crate::policy::{LIKELY, RECENT_WEIGHT};
use rota_core::Time;
use rota_policy::history::{History, steps};

/// The fewest and the most jobs that end between two tellings.
const ENDS_MIN: u64 = 8;
const ENDS_MAX: u64 = 128;
/// Chances with which a job ends within the times that are told.
const CHANCES: [f64; 2] = [0.5, LIKELY];

/// What was found for a kind, and at which telling.
#[derive(Clone, Copy)]
struct Kept {
    telling: u64,
    taught: Taught,
}

/// How far a running job has got.
#[derive(Clone, Copy, Default)]
struct Progress {
    started: Time,
    /// Steps that were counted as reached.
    reached: u8,
}

/// What was learned in an episode.
pub struct Lessons {
    history: History,
    kinds: Vec<Option<Kept>>,
    /// Mean run time in seconds of each user's recent jobs.
    recent: Vec<Option<f64>>,
    progress: Vec<Progress>,
    telling: u64,
    /// How many jobs had ended at the last telling.
    told_at: u64,
}

/// What a job's row is told.
pub struct Lesson {
    /// What earlier jobs of its kind taught.
    pub taught: Taught,
    /// Mean run time in seconds of its user's recent jobs.
    pub user_recent_seconds: Option<f64>,
}

impl Lessons {
    /// Nothing is learned yet.
    pub fn new(jobs: &Jobs) -> Self {
        Self {
            history: jobs.blank.clone(),
            kinds: vec![None; jobs.kinds.len()],
            recent: vec![None; jobs.users],
            progress: vec![Progress::default(); jobs.all.len()],
            telling: 0,
            told_at: 0,
        }
    }

    /// A job begins to run.
    pub fn start(&mut self, job: usize, now: Time, jobs: &Jobs) {
        self.progress[job] = Progress { started: now, reached: 0 };
        self.reach(job, now, jobs);
    }

    /// Counts the steps that a job has got to. Gives the last of them.
    fn reach(&mut self, job: usize, now: Time, jobs: &Jobs) -> usize {
        let Progress { started, reached } = self.progress[job];
        let step = steps::step_of(now.since(started).seconds());
        let lineage = &jobs.kinds[jobs.all[job].kind as usize];
        for step in usize::from(reached)..=step {
            self.history.reach(lineage, step);
        }
        self.progress[job].reached = reached.max(step as u8 + 1);
        step
    }

    /// A job has ended.
    pub fn end(&mut self, job: usize, now: Time, jobs: &Jobs) {
        let step = self.reach(job, now, jobs);
        let kind = jobs.all[job].kind as usize;
        self.history.end(&jobs.kinds[kind], step);
        let seconds = now.since(self.progress[job].started).seconds();
        let mean = self.recent[jobs.all[job].user as usize].get_or_insert(seconds);
        *mean += RECENT_WEIGHT * (seconds - *mean);
    }

    /// Whether enough jobs have ended for another telling.
    pub fn are_due(&self) -> bool {
        let ended = self.history.ended();
        ended - self.told_at >= (self.told_at / 8).clamp(ENDS_MIN, ENDS_MAX)
    }

    /// Counts how far running jobs have got, and makes what was told before out of date.
    pub fn catch_up(&mut self, running: impl Iterator<Item = usize>, now: Time, jobs: &Jobs) {
        for job in running {
            self.reach(job, now, jobs);
        }
        self.telling += 1;
        self.told_at = self.history.ended();
    }

    /// What is known about a waiting job.
    pub fn of(&mut self, job: usize, jobs: &Jobs) -> Lesson {
        let super::GangJob { kind, user, .. } = jobs.all[job];
        let (kept, telling) = (&mut self.kinds[kind as usize], self.telling);
        let taught = match kept {
            Some(kept) if kept.telling == telling => kept.taught,
            _ => {
                let outlook = self.history.outlook(&jobs.kinds[kind as usize], CHANCES);
                let longest = steps::end_seconds(steps::STEPS);
                let [median, likely] = outlook.within_seconds.map(|seconds| seconds.unwrap_or(longest));
                let taught = Taught {
                    index: outlook.index,
                    median_seconds: median,
                    likely_seconds: likely,
                    mean_seconds: outlook.mean_seconds,
                };
                *kept = Some(Kept { telling, taught });
                taught
            }
        };
        Lesson { taught, user_recent_seconds: self.recent[user as usize] }
    }
}
