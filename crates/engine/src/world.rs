//! The seam between deciding and doing: a world says what happens, and carries plans out. There are two, simulated and live.

use crate::{Engine, Occasion, State};
use rota_core::event::EventKind;
use rota_core::{Event, FailReason, Plan, Time};

/// A moment at which a decision is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// When.
    pub now: Time,
    /// Why.
    pub occasion: Occasion,
}

/// Where plans are carried out.
pub trait World {
    /// Goes on to the next moment at which something happens (at the latest `wake`) and adds what happened then to `events`.
    /// `None` means that nothing will ever happen again.
    fn poll(&mut self, state: &mut State, wake: Option<Time>, events: &mut Vec<Event>) -> Option<Moment>;

    /// Carries out a plan and adds what came of it to `events`.
    fn apply(&mut self, plan: &Plan, now: Time, events: &mut Vec<Event>);
}

/// What a whole run amounted to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// The last moment at which something happened.
    pub end: Time,
    /// Events recorded.
    pub events: u64,
    /// Decisions made.
    pub decisions: u64,
    /// Seconds spent deciding, in all.
    pub decision_seconds: f64,
    /// Seconds spent on the longest decision.
    pub decision_seconds_max: f64,
}

/// Runs a world to its end. `observe` sees every event; `seconds` is the caller's clock, used for nothing but the tally.
pub fn drive(engine: &mut Engine, world: &mut impl World, observe: &mut dyn FnMut(&Event), seconds: &dyn Fn() -> f64) -> Tally {
    let mut tally = Tally::default();
    let mut events = Vec::new();
    while let Some(moment) = {
        let wake = engine.review_at();
        world.poll(&mut engine.state, wake, &mut events)
    } {
        tally.end = moment.now;
        record(engine, &mut events, &mut tally, observe);
        fail_doomed(engine, moment.now, &mut events, &mut tally, observe);
        let mut occasion = moment.occasion;
        loop {
            let before = seconds();
            let plan = engine.cycle(moment.now, occasion);
            let spent = seconds() - before;
            tally.decisions += 1;
            tally.decision_seconds += spent;
            tally.decision_seconds_max = tally.decision_seconds_max.max(spent);
            if plan.is_empty() {
                break;
            }
            world.apply(&plan, moment.now, &mut events);
            record(engine, &mut events, &mut tally, observe);
            if occasion == Occasion::FollowUp || !engine.wants_follow_up() {
                break;
            }
            occasion = Occasion::FollowUp;
        }
    }
    tally
}

fn record(engine: &mut Engine, events: &mut Vec<Event>, tally: &mut Tally, observe: &mut dyn FnMut(&Event)) {
    for event in events.drain(..) {
        engine.record(&event);
        observe(&event);
        tally.events += 1;
    }
}

/// Fails jobs whose dependencies failed, and theirs in turn.
fn fail_doomed(engine: &mut Engine, now: Time, events: &mut Vec<Event>, tally: &mut Tally, observe: &mut dyn FnMut(&Event)) {
    loop {
        let mut doomed = engine.state.take_doomed();
        doomed.sort_unstable();
        doomed.dedup();
        doomed.retain(|job| !engine.state.jobs[job.index()].phase.is_over());
        if doomed.is_empty() {
            return;
        }
        let failed = |job| Event { time_ns: now, kind: EventKind::Failed { job, reason: FailReason::Dependency } };
        events.extend(doomed.into_iter().map(failed));
        record(engine, events, tally, observe);
    }
}
