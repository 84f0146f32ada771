//! Levels of attained service: which step of a ladder each job's GPU time has reached, and when running jobs reach the next.
//!
//! Policies that go by attained service (`las`, `gittins`) change a job's rank only at a step, so they ask to be woken at the next
//! one instead of ranking everybody all the time.

use rota_core::{JobId, JobView, Phase, Renumbering, Snapshot, Span, Time};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Where each job stands on the ladder.
#[derive(Clone, Serialize, Deserialize)]
pub struct Levels {
    /// GPU time at which the next level begins, ascending.
    pub steps: Vec<Span>,
    standings: Vec<Standing>,
    /// Moments at which running jobs reach their next level; one that no longer holds is dropped when it comes up.
    crossings: BinaryHeap<Reverse<(Time, JobId)>>,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Standing {
    level: usize,
    /// GPU time that no longer counts (see [`Levels::forgive`]).
    forgiven: Span,
    crossing: Option<Time>,
}

impl Levels {
    /// A ladder of `count` steps that grow by `factor` from the first, in GPU seconds.
    pub fn new(first: f64, factor: f64, count: usize) -> Self {
        let seconds = std::iter::successors(Some(first), |step| Some(step * factor)).take(count);
        let steps = seconds.filter_map(Span::from_seconds).collect();
        Self { steps, standings: Vec::new(), crossings: BinaryHeap::new() }
    }

    /// The level of a job; 0 at first.
    pub fn level(&self, job: JobId) -> usize {
        self.standings.get(job.index()).map_or(0, |standing| standing.level)
    }

    /// GPU time that counts for a job.
    pub fn counted(&self, view: &JobView<'_>) -> Span {
        view.service().minus(self.standings[view.id().index()].forgiven)
    }

    /// Takes in what changed; calls `moved` for each active job that is new, changed its phase or reached another level.
    pub fn follow(&mut self, snapshot: &Snapshot<'_>, mut moved: impl FnMut(&JobView<'_>, usize)) {
        self.standings.resize(snapshot.states.len(), Standing::default());
        for view in snapshot.changed_jobs() {
            self.settle(&view, snapshot.now);
            if view.state.phase.is_active() {
                moved(&view, self.level(view.id()));
            }
        }
        while let Some(&Reverse((at, job))) = self.crossings.peek()
            && at <= snapshot.now
        {
            self.crossings.pop();
            if self.standings[job.index()].crossing != Some(at) {
                continue;
            }
            let view = snapshot.view(job);
            self.settle(&view, snapshot.now);
            moved(&view, self.level(job));
        }
    }

    /// Starts a job's count again from now: it is at the bottom of the ladder once more.
    pub fn forgive(&mut self, view: &JobView<'_>, now: Time) {
        self.standings[view.id().index()].forgiven = view.service();
        self.settle(view, now);
    }

    /// When the next running job reaches its next level.
    pub fn next_crossing(&mut self) -> Option<Time> {
        while let Some(&Reverse((at, job))) = self.crossings.peek() {
            if self.standings[job.index()].crossing == Some(at) {
                return Some(at);
            }
            self.crossings.pop();
        }
        None
    }

    /// Jobs have other rows from now on.
    pub fn renumber(&mut self, rows: &Renumbering) {
        rows.keep(&mut self.standings);
        let kept = std::mem::take(&mut self.crossings).into_iter();
        self.crossings = kept.filter_map(|Reverse((at, job))| Some(Reverse((at, rows.new_of(job)?)))).collect();
    }

    fn settle(&mut self, view: &JobView<'_>, now: Time) {
        let job = view.id();
        self.standings[job.index()].crossing = None;
        let counted = self.counted(view);
        let level = self.steps.partition_point(|&step| step <= counted);
        self.standings[job.index()].level = level;
        if view.state.phase == Phase::Running
            && let Some(step) = self.steps.get(level)
        {
            let gpus = f64::from(view.job.gpus) * view.job.share.fraction();
            // One nanosecond more, so that rounding never wakes us just short of the step.
            let working_from = now.max(view.state.since + view.state.overhead);
            let at = working_from + step.minus(counted).at_speed(gpus) + Span(1);
            self.standings[job.index()].crossing = Some(at);
            self.crossings.push(Reverse((at, job)));
        }
    }
}
