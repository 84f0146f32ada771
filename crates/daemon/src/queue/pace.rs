//! The pace of decisions: how soon one may follow another, and how long jobs take to stop and to start again.

use crate::config::ROUND_RESTARTS_MIN;
use crate::machine::platform::Platform;
use crate::queue::world::LiveWorld;
use crate::store::journal::QueueEvent;
use rota_core::event::EventKind;
use rota_core::{Plan, Span, Time};
use std::collections::{HashMap, HashSet};

/// No decision follows another sooner than this many times its own length, so that submits are not held up by a long queue.
const REST_FACTOR: u64 = 2;
/// But nobody waits longer than this for a decision.
const REST_MAX_NS: u64 = 50_000_000;
/// The restart cost is told again when it has changed by this part.
const COST_CHANGE: f64 = 0.1;

/// When to decide, and what restarts cost.
#[derive(Default)]
pub struct Pace {
    /// Whether a decision is due although the scheduler was told nothing.
    pub wants_decision: bool,
    /// Whether nothing may be decided before the GPUs were looked at: a stranger may be on any of them.
    pub awaits_look: bool,
    /// No decision before this moment.
    pub rest_until: Time,
    /// The round whose successor is planned, counted from the queue's first moment.
    pub planned_round: Option<u64>,
    /// Jobs that were leaving when the scheduler was made anew. Their GPUs are promised to no job, so their ends are reasons to decide.
    pub unpromised: HashSet<u64>,
    polled_at: Time,
    is_deciding: bool,
    /// When each job was asked to make room for others.
    asked_at: HashMap<u64, Time>,
    /// How long the last ones took to go, as a running mean.
    stop: Option<Span>,
    /// What was told last.
    told: Option<Span>,
}

impl Pace {
    /// A decision begins.
    pub fn begin_decision(&mut self, now: Time) {
        self.wants_decision = false;
        self.polled_at = now;
        self.is_deciding = true;
    }

    /// A job was asked to stop.
    pub fn stopping(&mut self, job: u64, now: Time) {
        self.asked_at.insert(job, now);
    }

    /// A job that was asked to stop is gone. Says what a restart costs, if that is news: half of what was known, half of what was seen.
    pub fn gone(&mut self, job: u64, now: Time, configured: Option<Span>) -> Option<QueueEvent> {
        let took = now.since(self.asked_at.remove(&job)?);
        let mean = self.stop.map_or(took, |known| Span(known.0 / 2 + took.0 / 2));
        self.stop = Some(mean);
        let cost = configured.unwrap_or(mean);
        let is_news = self.told.is_none_or(|told| (cost.seconds() - told.seconds()).abs() > COST_CHANGE * told.seconds());
        is_news.then(|| {
            self.told = Some(cost);
            EventKind::RestartMeasured { cost }
        })
    }
}

impl<P: Platform> LiveWorld<P> {
    /// Tells how long the scheduler took, once for each decision, and lets it rest for as long. Starting jobs does not count.
    pub(crate) fn note_decision(&mut self) {
        if std::mem::take(&mut self.pace.is_deciding) {
            let now = self.platform.now();
            let length = now.since(self.pace.polled_at);
            self.pace.rest_until = Time(now.0 + (length.0 * REST_FACTOR).min(REST_MAX_NS));
            let seconds = length.seconds();
            self.board.metrics.decided(seconds);
            let mut view = self.board.write();
            view.decisions += 1;
            view.decision_seconds_max = view.decision_seconds_max.max(seconds);
        }
    }

    /// Rounds that are hardly longer than a restart are an administrator's business.
    pub(crate) fn warn_of_short_rounds(&self, measured: Option<&QueueEvent>) {
        let Some(EventKind::RestartMeasured { cost }) = measured else { return };
        let mut view = self.board.write();
        match self.config.round().map(Span::seconds) {
            Some(round) if round < ROUND_RESTARTS_MIN * cost.seconds() => {
                let cost = cost.seconds();
                let text =
                    format!("rounds of {round} s are shorter than ten restarts, which were measured to take {cost:.1} s each");
                view.warnings.insert("round", text);
            }
            _ => _ = view.warnings.remove("round"),
        }
    }

    /// Puts the starts that waiting jobs can count on on the board.
    pub(crate) fn show_promises(&self, plan: &Plan) {
        let (now, wall_ns) = (self.platform.now(), self.platform.wall_ns());
        let promises = plan.promises.iter().filter_map(|promise| {
            let id = self.rows.id(promise.job)?;
            Some((id, wall_ns + promise.start.0.saturating_sub(now.0).cast_signed()))
        });
        self.board.write().promises = promises.collect();
    }
}
