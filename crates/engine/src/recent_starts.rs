//! Runs that may be too new to be stopped for others, so that the next one that may be stopped is found without looking at every job.

use crate::restart::MinRun;
use crate::{Restart, State};
use rota_core::{JobId, Phase, Span, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Running jobs by the moment from which they may be stopped. It is made when a shortest run is set, and made anew when that changes:
/// what is in it follows from the jobs alone, so that it is no part of an image.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecentStarts {
    /// The setting that the list was made for; none if there is no list.
    made_for: Option<Restart>,
    /// When a job may be stopped, when it was started, and the job.
    ripe: BinaryHeap<Reverse<(Time, Time, JobId)>>,
}

impl RecentStarts {
    /// A job was started, and may be stopped from a moment on.
    pub(crate) fn push(&mut self, job: JobId, since: Time, ripe_at: Time) {
        if self.made_for.is_some() {
            // Nobody may ask for long while no job waits.
            while self.ripe.peek().is_some_and(|Reverse((at, ..))| *at <= since) {
                self.ripe.pop();
            }
            self.ripe.push(Reverse((ripe_at, since, job)));
        }
    }

    /// The list is to be made anew before it is asked.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}

impl State {
    /// When the next running job has run for as long as it must before it may be stopped for one that waits.
    pub(crate) fn next_ripe(&mut self, now: Time) -> Option<Time> {
        let is_set = match self.restart.min_run {
            MinRun::For(span) => span > Span::ZERO,
            MinRun::Restarts(_) => self.restart.cost > Span::ZERO || self.restart_costs.dearest().is_some(),
        };
        if !is_set || self.waiting == 0 || self.running == 0 {
            return None;
        }
        if self.recent_starts.made_for != Some(self.restart) {
            let running = self.jobs.iter().enumerate().filter(|(_, state)| state.phase == Phase::Running);
            let ripe = running.map(|(row, state)| {
                let job = JobId::from_index(row);
                Reverse((state.since + self.min_run_of(job), state.since, job))
            });
            self.recent_starts = RecentStarts { made_for: Some(self.restart), ripe: ripe.collect() };
        }
        while let Some(&Reverse((ripe_at, since, job))) = self.recent_starts.ripe.peek() {
            let state = &self.jobs[job.index()];
            let is_there = state.phase == Phase::Running && state.since == since;
            let may_be_stopped = self.bound.job(job).preemptible && !state.is_spared();
            if ripe_at > now && is_there && may_be_stopped {
                return Some(ripe_at);
            }
            self.recent_starts.ripe.pop();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rota_core::bind::BadJobs;
    use rota_core::{Bound, Cluster, End, Event, EventKind, GpuId, GpuList, Job, ThroughputTable, Workload};
    use std::sync::Arc;

    const JOBS: u32 = 40;

    fn state(min_run: Span) -> State {
        let mut workload = Workload::new("jobs");
        for row in 0..JOBS {
            workload.push(Job { preemptible: row % 3 != 0, ..Job::new(Time::ZERO, Span::from_whole_seconds(60)) });
        }
        workload.finish();
        let cluster = Cluster::from_spec("gpu:40", 40).unwrap();
        let bound = Bound::new(workload, cluster, &ThroughputTable::default(), BadJobs::Refuse).unwrap();
        State::new(Arc::new(bound), Restart { min_run: MinRun::For(min_run), ..Restart::default() })
    }

    /// The same by looking at every job.
    fn slow_next_ripe(state: &State, now: Time) -> Option<Time> {
        let min_run = state.restart.min_run();
        if min_run == Span::ZERO || state.waiting == 0 {
            return None;
        }
        let running = state.jobs.iter().enumerate().filter(|(row, job)| {
            job.phase == Phase::Running && !job.is_spared() && state.bound.job(JobId::from_index(*row)).preemptible
        });
        running.map(|(_, job)| job.since + min_run).filter(|at| *at > now).min()
    }

    #[test]
    fn the_next_job_that_may_be_stopped_is_the_one_that_a_look_at_every_job_finds() {
        let mut state = state(Span(50));
        let mut draws = 7_u64;
        let mut draw = |below: u64| {
            draws = draws.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (draws >> 33) % below
        };
        for job in (0..JOBS).map(JobId) {
            state.apply(&Event::at(Time::ZERO, EventKind::Submitted { job }));
        }
        let mut seen = 0;
        for now in (0..4000).map(Time) {
            let job = JobId(draw(u64::from(JOBS)) as u32);
            let kind = match state.jobs[job.index()].phase {
                Phase::Waiting => EventKind::started(job, GpuList::from_slice(&[GpuId(job.0)])),
                _ => EventKind::ended(job, if draw(2) == 0 { End::Preempted } else { End::Evicted }),
            };
            state.apply(&Event::at(now, kind));
            if draw(100) == 0 {
                state.restart.min_run = MinRun::For(Span(draw(80)));
            }
            if draw(3) > 0 {
                let expected = slow_next_ripe(&state, now);
                seen += usize::from(expected.is_some());
                assert_eq!(state.next_ripe(now), expected, "at {now}");
            }
        }
        assert!(seen > 1000, "only {seen} moments had such a job");
    }
}
