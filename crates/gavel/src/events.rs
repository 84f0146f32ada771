//! Gavel's rounds as events: jobs that are submitted, started, stopped and finished.
//!
//! A job that is given the workers it had in the round before simply goes on. Events of one round are held back until it is
//! over and told in the order of time; at one moment, ends come first, then arrivals, then stops, then starts.

use crate::setting::Setting;
use rota_core::{End, Event, EventKind, GpuList, JobId, Time};
use std::collections::BTreeMap;

/// The moment of so many seconds, to the nanosecond.
pub(crate) fn moment(seconds: f64) -> Time {
    Time((seconds * 1e9).round() as u64)
}

/// Collects events and hands them to the observer in order.
pub(crate) struct Teller<'a> {
    observe: &'a mut dyn FnMut(&Event),
    held: Vec<(Time, u8, EventKind)>,
    /// The GPUs of each job that is on some.
    on: BTreeMap<u32, GpuList>,
    told: u64,
}

impl<'a> Teller<'a> {
    pub fn new(observe: &'a mut dyn FnMut(&Event)) -> Self {
        Self { observe, held: Vec::new(), on: BTreeMap::new(), told: 0 }
    }

    pub fn submitted(&mut self, job: u32, seconds: f64) {
        self.held.push((moment(seconds), 1, EventKind::Submitted { job: JobId(job) }));
    }

    pub fn finished(&mut self, job: u32, seconds: f64) {
        self.on.remove(&job);
        self.held.push((moment(seconds), 0, EventKind::ended(JobId(job), End::Finished)));
    }

    pub fn failed(&mut self, job: u32, seconds: f64) {
        self.on.remove(&job);
        self.held.push((moment(seconds), 0, EventKind::ended(JobId(job), End::Crashed)));
    }

    /// The jobs that run from this moment on, with their types and workers; all others are stopped.
    pub fn round<'r>(&mut self, seconds: f64, setting: &Setting, runs: impl Iterator<Item = (u32, usize, &'r [u32])>) {
        let now = moment(seconds);
        let mut before = std::mem::take(&mut self.on);
        for (job, kind, workers) in runs {
            let mut gpus = workers.iter().map(|&worker| setting.types[kind].gpus[worker as usize]).collect::<GpuList>();
            gpus.sort_unstable();
            let was = before.remove(&job);
            if was.as_ref() != Some(&gpus) {
                if was.is_some() {
                    self.held.push((now, 2, EventKind::ended(JobId(job), End::Preempted)));
                }
                self.held.push((now, 3, EventKind::started(JobId(job), gpus.clone())));
            }
            self.on.insert(job, gpus);
        }
        for job in before.into_keys() {
            self.held.push((now, 2, EventKind::ended(JobId(job), End::Preempted)));
        }
        self.flush();
    }

    /// Tells what was held back.
    pub fn flush(&mut self) {
        self.held.sort_by_key(|&(time, rank, _)| (time, rank));
        for (time_ns, _, kind) in self.held.drain(..) {
            (self.observe)(&Event { time_ns, kind });
            self.told += 1;
        }
    }

    /// Events told so far.
    pub fn told(&self) -> u64 {
        self.told
    }
}
