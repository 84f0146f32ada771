//! What an episode has come to so far: the sums that rewards are made of, and what became of each job.

use crate::simulated::{Course, note};
use rota_core::{Bound, Event, EventKind, JobId, Time};
use std::str::FromStr;
use std::sync::Arc;

/// What a step is punished for. The rewards of an episode add up to the negative of the figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// Mean seconds that jobs wait.
    Wait,
    /// Mean seconds from submission to completion.
    Jct,
    /// Seconds from the first submission to the last end.
    Makespan,
    /// Watt-hours of GPUs that jobs hold.
    Energy,
    /// The mean bounded slowdown.
    Bsld,
}

impl Cost {
    /// The words that name one.
    pub const WORDS: [&'static str; 5] = ["wait", "jct", "makespan", "energy", "bsld"];
}

impl FromStr for Cost {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Wait, Self::Jct, Self::Makespan, Self::Energy, Self::Bsld];
        let found = Self::WORDS.iter().position(|word| *word == text).map(|place| all[place]);
        found.ok_or_else(|| format!("objective `{text}` is not one of {}", Self::WORDS.join(", ")))
    }
}

/// What an episode has come to so far.
pub(super) struct Ledger {
    /// The jobs and the cluster.
    pub bound: Arc<Bound>,
    /// What became of each job.
    pub courses: Vec<Course>,
    /// The moment up to which time has been charged.
    until: Time,
    submitted: usize,
    waiting: usize,
    running: usize,
    wait_seconds: f64,
    run_seconds: f64,
    makespan_seconds: f64,
    watt_seconds: f64,
    slowdowns: f64,
}

impl Ledger {
    /// The beginning of an episode.
    pub fn new(bound: Arc<Bound>) -> Self {
        Self {
            courses: vec![Course::default(); bound.jobs.len()],
            until: bound.jobs.iter().map(|job| job.arrival).min().unwrap_or(Time::ZERO),
            bound,
            submitted: 0,
            waiting: 0,
            running: 0,
            wait_seconds: 0.0,
            run_seconds: 0.0,
            makespan_seconds: 0.0,
            watt_seconds: 0.0,
            slowdowns: 0.0,
        }
    }

    /// Takes in an event.
    pub fn record(&mut self, event: &Event) {
        self.pass(event.time_ns);
        match &event.kind {
            EventKind::Submitted { .. } => self.submit(),
            EventKind::Started { .. } => {
                (self.waiting, self.running) = (self.waiting - 1, self.running + 1);
                note(&mut self.courses, event, &self.bound);
            }
            EventKind::Ended { job, .. } => {
                let before = self.courses[job.index()];
                note(&mut self.courses, event, &self.bound);
                self.charge(*job, &before, event.time_ns);
            }
            _ => {}
        }
    }

    /// Time goes on to this moment.
    pub fn pass(&mut self, now: Time) {
        let seconds = now.since(self.until).seconds();
        self.until = self.until.max(now);
        self.wait_seconds += seconds * self.waiting as f64;
        self.run_seconds += seconds * self.running as f64;
    }

    /// A job waits from now on.
    pub fn submit(&mut self) {
        self.submitted += 1;
        self.waiting += 1;
    }

    /// A job is started now, on GPUs that draw so many watts for it.
    pub fn start(&mut self, job: JobId, watts: f64) {
        (self.waiting, self.running) = (self.waiting - 1, self.running + 1);
        self.courses[job.index()].begin(self.until, watts);
    }

    /// A job is done now.
    pub fn finish(&mut self, job: JobId) {
        let before = self.courses[job.index()];
        self.courses[job.index()].leave(self.until, true);
        self.charge(job, &before, self.until);
    }

    /// Charges what the end of a run came to.
    fn charge(&mut self, job: JobId, before: &Course, now: Time) {
        let after = &self.courses[job.index()];
        self.watt_seconds += after.watt_seconds() - before.watt_seconds();
        if let Some(slowdown) = after.slowdown(self.bound.job(job).arrival) {
            self.slowdowns += slowdown;
        }
        if before.is_running() {
            self.running -= 1;
            let zero = self.bound.jobs.first().map_or(Time::ZERO, |job| job.arrival);
            self.makespan_seconds = now.since(zero).seconds();
        } else {
            self.waiting = self.waiting.saturating_sub(1);
        }
    }

    /// The figure so far.
    pub fn cost(&self, cost: Cost) -> f64 {
        let jobs = self.courses.len().max(1) as f64;
        match cost {
            Cost::Wait => self.wait_seconds / jobs,
            Cost::Jct => (self.wait_seconds + self.run_seconds) / jobs,
            Cost::Makespan => self.makespan_seconds,
            Cost::Energy => self.watt_seconds / 3600.0,
            Cost::Bsld => self.slowdowns / jobs,
        }
    }

    /// Whether something will happen although nothing is started.
    pub fn goes_on(&self) -> bool {
        self.running > 0 || self.submitted < self.courses.len()
    }
}
