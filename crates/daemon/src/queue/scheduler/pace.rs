//! The pace of decisions: how soon one may follow another, and how long jobs take to stop and to start again.

use crate::config::ROUND_RESTARTS_MIN;
use crate::machine::platform::Platform;
use crate::queue::world::LiveWorld;
use crate::store::journal::QueueEvent;
use crate::store::record::JobRecord;
use rota_core::event::EventKind;
use rota_core::{Plan, RestartCost, Span, Time};
use rota_engine::State;
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
    /// The half of a round in which speeds were last measured, counted from the queue's first moment.
    pub measured_half: Option<u64>,
    /// The dearest restart, as far as it was looked at.
    warned_of: Option<RestartCost>,
    /// Measurements and changes of speeds that the board shows.
    pub shown_speeds: u64,
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

    /// A job that was asked to stop is gone. Says how long it took.
    fn gone(&mut self, job: u64, now: Time) -> Option<Span> {
        Some(now.since(self.asked_at.remove(&job)?))
    }
}

/// What a restart costs by what was known and what was seen, half each; none if that is no news.
fn measured_cost(known: Option<RestartCost>, stop: Span, start: Option<Span>) -> Option<RestartCost> {
    let half = |known: Span, seen: Span| Span(known.0 / 2 + seen.0 / 2);
    let Some(known) = known else { return Some(RestartCost { stop, start: start.unwrap_or_default() }) };
    // A run that told no step says nothing of starts; the first that does counts whole.
    let start = match start {
        None => known.start,
        Some(seen) if known.start == Span::ZERO => seen,
        Some(seen) => half(known.start, seen),
    };
    let cost = RestartCost { stop: half(known.stop, stop), start };
    let (before, now) = (known.whole().seconds(), cost.whole().seconds());
    ((now - before).abs() > COST_CHANGE * before).then_some(cost)
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

    /// A job that was asked to make room is gone. Says what a restart costs jobs of its type, if that is news and nobody has set it.
    pub(crate) fn restart_of(&mut self, record: &JobRecord, state: &State) -> Option<QueueEvent> {
        let stop = self.pace.gone(record.id, self.platform.now())?;
        if self.config.jobs.restart_seconds.is_some() {
            return None;
        }
        let start = self.leases.as_ref().and_then(|leases| leases.start_took(record.id));
        let job_type = record.spec.ask.job_type.as_deref().unwrap_or("");
        let known = state.bound.names.find(job_type).and_then(|kind| state.restart_costs.of(kind));
        let cost = measured_cost(known, stop, start)?;
        Some(EventKind::RestartMeasured { job_type: job_type.into(), cost: cost.whole(), start: cost.start })
    }

    /// Rounds that are hardly longer than a restart are an administrator's business.
    pub(crate) fn warn_of_short_rounds(&mut self, state: &State) {
        let Some((kind, cost)) = state.restart_costs.dearest() else { return };
        if self.pace.warned_of.replace(cost) == Some(cost) {
            return;
        }
        let cost = cost.whole().seconds();
        let mut view = self.board.write();
        match self.config.round().map(Span::seconds) {
            Some(round) if round < ROUND_RESTARTS_MIN * cost => {
                let job_type = state.bound.names.text(kind);
                let of_type = if job_type.is_empty() { String::new() } else { format!(" of `{job_type}`") };
                let text = format!(
                    "rounds of {round} s are shorter than ten restarts{of_type}, which were measured to take {cost:.1} s each; \
                     set round_seconds to {:.0} or more",
                    (ROUND_RESTARTS_MIN * cost).ceil()
                );
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
