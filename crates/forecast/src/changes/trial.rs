//! One trial: a copy of the queue with a change, on its way forward.

use super::ChangeOptions;
use crate::starts::Fork;
use crate::world::ArrivingWorld;
use rota_core::event::EventKind;
use rota_core::{Event, JobId, Span, Time};
use rota_engine::Session;
use std::collections::HashMap;

/// One trial: the fork with a change, on its way forward.
pub(super) struct Trial {
    pub session: Session<ArrivingWorld>,
    pub row: JobId,
    pub start: Option<Time>,
    pub end: Option<Time>,
    /// The first starts of other jobs, by row.
    pub starts: HashMap<JobId, Time>,
    /// Other jobs that were stopped and have not started again, with when they were stopped.
    pub stopped: HashMap<JobId, Time>,
    /// How long other jobs have waited after they were stopped.
    pub waited_again: HashMap<JobId, Span>,
    pub next: Option<Time>,
    /// Whether nothing happens any more.
    pub is_over: bool,
    pub decisions: u64,
    pub decisions_max: u64,
    /// Nothing later is looked at.
    pub horizon: Time,
}

impl Trial {
    pub fn new(fork: &Fork, session: Session<ArrivingWorld>, row: JobId, decisions_max: u64) -> Self {
        Self {
            session,
            row,
            start: None,
            end: None,
            starts: HashMap::new(),
            stopped: HashMap::new(),
            waited_again: HashMap::new(),
            next: None,
            is_over: false,
            decisions: 0,
            decisions_max,
            horizon: fork.horizon(),
        }
    }

    /// Runs the trial forward as long as `goes_on` is true for the next moment.
    pub fn go(&mut self, options: &ChangeOptions<'_>, mut goes_on: impl FnMut(&Self, Time) -> bool) {
        loop {
            if self.next.is_none() {
                let mut told = Vec::new();
                let moment = self.session.advance(&mut |event| told.push(event.clone()));
                self.note(&told);
                let Some(moment) = moment else {
                    self.is_over = true;
                    return;
                };
                self.next = Some(moment.now);
            }
            let Some(now) = self.next.filter(|now| goes_on(self, *now)) else { return };
            if self.decisions >= self.decisions_max || now >= self.horizon || !(options.has_time)() {
                return;
            }
            let target = self.session.ask();
            let mut told = Vec::new();
            self.session.hand_in(&target, &mut |event| told.push(event.clone()));
            self.note(&told);
            self.decisions += 1;
            self.next = None;
        }
    }

    fn note(&mut self, told: &[Event]) {
        for event in told {
            match &event.kind {
                EventKind::Started { job, .. } if *job == self.row => {
                    self.start.get_or_insert(event.time_ns);
                }
                EventKind::Started { job, .. } => match self.stopped.remove(job) {
                    Some(since) => {
                        let waited = self.waited_again.entry(*job).or_default();
                        *waited = Span(waited.0 + event.time_ns.since(since).0);
                    }
                    None => {
                        self.starts.entry(*job).or_insert(event.time_ns);
                    }
                },
                EventKind::Ended { job, end, .. } if *job == self.row => {
                    self.end = Some(event.time_ns).filter(|_| end.is_over()).or(self.end);
                }
                EventKind::Ended { job, end, .. } if !end.is_over() => {
                    self.stopped.insert(*job, event.time_ns);
                }
                _ => {}
            }
        }
    }

    /// How long a job has waited until now after it was stopped.
    pub fn waited_again(&self, job: JobId) -> Span {
        let since = self.stopped.get(&job).map_or(Span::ZERO, |since| self.now().since(*since));
        Span(self.waited_again.get(&job).copied().unwrap_or_default().0 + since.0)
    }

    /// Whether a job that was stopped when the job started has not started again. Others may take turns for ever.
    pub fn has_displaced(&self) -> bool {
        self.start.is_some_and(|start| self.stopped.values().any(|since| *since == start))
    }

    /// The moment up to which the trial was run.
    pub fn now(&self) -> Time {
        self.next.unwrap_or_else(|| rota_engine::World::now(&self.session.world))
    }

    /// Whether the job got a row: a request that no GPU could ever meet gets none.
    pub fn has_row(&self) -> bool {
        self.session.engine.state.jobs.len() > self.row.index()
    }
}
