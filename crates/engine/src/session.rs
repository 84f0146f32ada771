//! The scheduling loop as a value: it advances to the next decision, takes a target, and goes on. Simulator, daemon, learning
//! environments and forecasts all run this one loop, from an empty state or from a live one.
//!
//! A session can be forked at any decision (clone it), saved and replayed. What must hold: the world is told every plan, and whatever
//! the world says happened is recorded before the next decision.

use crate::{Engine, State, is_decision};
use rota_core::event::Occasion;
use rota_core::{End, Event, EventKind, JobId, Plan, Snapshot, StopCause, Target, Time};
use serde::{Deserialize, Serialize};

/// A moment at which a decision is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The time of the decision.
    pub now: Time,
    /// Why a decision is due.
    pub occasion: Occasion,
}

/// What a world says when it is asked to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Something happened. More may happen before a decision is due.
    Happened,
    /// A decision is due at this moment, after what happened.
    Decide(Time),
    /// Nothing will ever happen again.
    Over,
}

/// What a world is to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The moment at which a decision is due even if nothing happens.
    pub until: Option<Time>,
    /// Whether something happened already that no decision has seen.
    pub has_news: bool,
}

/// Where plans are carried out. There are two: simulated and live.
pub trait World {
    /// The time in this world.
    fn now(&self) -> Time;

    /// Goes on until something happens, at the latest until a decision is due, and adds what happened to `events`.
    fn poll(&mut self, state: &State, wait: Wait, events: &mut Vec<Event>) -> Step;

    /// Carries out a plan (which may be empty) and adds what came of it to `events`. `decision` is the one it comes from; none if the
    /// plan gives jobs the GPUs they were promised.
    fn apply(&mut self, plan: &Plan, decision: Option<Moment>, state: &State, events: &mut Vec<Event>);

    /// The end of a running job was found to be at this moment. Real jobs end when they end.
    fn pace(&mut self, _job: JobId, _end: Time) {}

    /// These jobs can never start, because jobs they wait for failed. The world reports them as ended.
    fn doom(&mut self, jobs: &[JobId], _state: &State, events: &mut Vec<Event>) {
        let now = self.now();
        events.extend(jobs.iter().map(|&job| Event::at(now, EventKind::ended(job, End::Dependency))));
    }
}

/// What a whole run amounted to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// The last moment at which something happened.
    pub end: Time,
    /// How many events were recorded.
    pub events: u64,
    /// How many decisions were made.
    pub decisions: u64,
    /// Seconds spent deciding, in all.
    pub decision_seconds: f64,
    /// Seconds spent on the longest decision.
    pub decision_seconds_max: f64,
}

/// What a session has not come to yet: it is written down with the engine's image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// The time of the last plan, if what came of it must be seen at once.
    follow_up: Option<Time>,
    /// Whether something happened that no decision has seen.
    has_news: bool,
    /// When the last decision was made.
    decided_at: Time,
    /// When the present round ends.
    tick: Option<Time>,
}

/// An engine and the world it decides for.
#[derive(Clone)]
pub struct Session<W> {
    /// State, policy and placement: what decides.
    pub engine: Engine,
    /// The world that plans are carried out in.
    pub world: W,
    /// What it amounted to so far.
    pub tally: Tally,
    events: Vec<Event>,
    /// The decision that is due.
    moment: Option<Moment>,
    pending: Pending,
}

impl<W: World> Session<W> {
    /// A session at its beginning.
    pub fn new(engine: Engine, world: W) -> Self {
        let pending = Pending { decided_at: world.now(), ..Pending::default() };
        Self::resumed(engine, world, pending)
    }

    /// A session that goes on where another was.
    pub fn resumed(engine: Engine, world: W, pending: Pending) -> Self {
        Self { engine, world, tally: Tally::default(), events: Vec::new(), moment: None, pending }
    }

    /// Another engine decides from now on, which knows everything that has happened; a decision is due.
    pub fn take_engine(&mut self, engine: Engine) {
        self.engine = engine;
        self.moment = None;
        self.pending = Pending { decided_at: self.world.now(), has_news: true, ..Pending::default() };
    }

    /// What it has not come to yet.
    pub fn pending(&self) -> Pending {
        self.pending
    }

    /// The same decisions in another world: a forecast runs the engine of the live queue in a simulated world.
    pub fn fork_into<V: World>(&self, world: V) -> Session<V> {
        Session::resumed(self.engine.clone(), world, self.pending)
    }

    /// Goes on to the next decision; `None` when nothing will ever happen again. `observe` sees every event.
    pub fn advance(&mut self, observe: &mut dyn FnMut(&Event)) -> Option<Moment> {
        // A session that was restored may have promises whose jobs had left when it was cut off.
        if !self.engine.state.handovers.is_empty() {
            self.settle(observe);
        }
        // While jobs of the plan are still leaving, what comes of it is not there to be seen.
        let is_done = self.engine.state.handovers.is_empty() && self.engine.state.stopping == 0;
        if let Some(planned) = self.pending.follow_up.filter(|_| is_done && !self.pending.has_news) {
            return Some(self.look(planned, Occasion::FollowUp));
        }
        loop {
            self.find_tick();
            let (engine, world) = (&mut self.engine, &mut self.world);
            engine.state.each_paced(|job, end| world.pace(job, end));
            // A review that came due while something happened that is no reason to decide is due all the same.
            let decided_at = self.pending.decided_at;
            let review = engine.review_at().filter(|at| *at > decided_at && !engine.state.is_drained);
            let tick = self.pending.tick.filter(|_| !engine.state.is_drained);
            let wait = Wait { until: review.into_iter().chain(tick).min(), has_news: self.pending.has_news };
            let step = world.poll(&engine.state, wait, &mut self.events);
            self.tally.end = self.world.now();
            let happened = !self.events.is_empty();
            self.settle(observe);
            match step {
                Step::Over => return None,
                Step::Happened => {}
                // Nobody is started while the queue is drained, so nobody is stopped either.
                Step::Decide(_) if self.engine.state.is_drained => self.pending.has_news = false,
                Step::Decide(now) => {
                    let is_due = wait.until.is_some_and(|until| until <= now) || self.pending.follow_up == Some(now);
                    // All that happened was that jobs left as they were asked to.
                    if happened && !self.pending.has_news && !is_due {
                        continue;
                    }
                    let occasion = match tick {
                        Some(tick) if tick <= now => Occasion::Tick,
                        _ if self.pending.follow_up == Some(now) => Occasion::FollowUp,
                        _ => Occasion::Event,
                    };
                    return Some(self.look(now, occasion));
                }
            }
        }
    }

    /// Finds the end of the present round, as it is before anything happens that the next decision will see.
    fn find_tick(&mut self) {
        if !self.pending.has_news {
            let review = self.engine.review_at().filter(|at| *at > self.pending.decided_at);
            self.pending.tick = self.engine.next_tick(self.pending.decided_at, review);
        }
    }

    /// What a decision goes by; `None` unless one is due.
    pub fn snapshot(&self) -> Option<Snapshot<'_>> {
        self.engine.snapshot()
    }

    /// What the policy wants now.
    pub fn ask(&mut self) -> Target {
        self.engine.ask()
    }

    /// Carries out a target: the policy's, or one of the caller's own. Gives the plan that was made of it.
    pub fn hand_in(&mut self, target: &Target, observe: &mut dyn FnMut(&Event)) -> Plan {
        let Some(moment) = self.moment.take() else { return Plan::default() };
        self.tally.decisions += 1;
        let plan = self.engine.plan(target);
        self.note_follow_up(moment, &plan);
        self.world.apply(&plan, Some(moment), &self.engine.state, &mut self.events);
        self.settle(observe);
        self.pending.has_news = false;
        plan
    }

    /// Makes a further decision due at the moment of the last one, for a caller that hands in one job at a time.
    pub fn look_again(&mut self) -> Moment {
        self.look(self.pending.decided_at, Occasion::FollowUp)
    }

    /// Runs to the end under the policy. `seconds` is the caller's clock, used for nothing but the tally.
    pub fn run(&mut self, observe: &mut dyn FnMut(&Event), seconds: &dyn Fn() -> f64) -> Tally {
        while self.advance(observe).is_some() {
            let before = seconds();
            let target = self.ask();
            self.hand_in(&target, observe);
            let spent = seconds() - before;
            self.tally.decision_seconds += spent;
            self.tally.decision_seconds_max = self.tally.decision_seconds_max.max(spent);
        }
        self.tally
    }

    /// Takes in an event of a journal, as if it happened now. A decision is made again, and its plan left to the events that follow.
    pub fn replay(&mut self, event: &Event) {
        if let EventKind::Decided { occasion } = event.kind {
            let moment = self.look(event.time_ns, occasion);
            let target = self.engine.ask();
            let plan = self.engine.plan(&target);
            self.moment = None;
            self.note_follow_up(moment, &plan);
            self.pending.has_news = false;
            return;
        }
        if self.is_news(event) {
            self.find_tick();
            self.pending.has_news = true;
        }
        let speed_changes = self.engine.state.speed_changes;
        self.engine.record(event);
        if self.engine.state.speed_changes != speed_changes && !self.pending.has_news {
            self.find_tick();
            self.pending.has_news = true;
        }
    }

    /// Whether an event is a reason to decide again. What comes of a plan is not, sooner or later, unless its policy wants to see it.
    fn is_news(&self, event: &Event) -> bool {
        match &event.kind {
            EventKind::Started { .. }
            | EventKind::Promised { .. }
            | EventKind::RestartMeasured { .. }
            // It is one when it changes speeds in force.
            | EventKind::SpeedMeasured { .. }
            | EventKind::Leased { .. }
            | EventKind::Committed { .. }
            | EventKind::Progress { .. }
            | EventKind::Extra { .. } => false,
            EventKind::Stopping { cause, .. } => *cause != StopCause::Preempt,
            EventKind::Ended { end: End::Preempted, .. } => self.pending.follow_up.is_some(),
            _ => true,
        }
    }

    fn look(&mut self, now: Time, occasion: Occasion) -> Moment {
        let moment = Moment { now, occasion };
        self.moment = Some(moment);
        (self.pending.follow_up, self.pending.decided_at) = (None, now);
        self.engine.look(moment);
        moment
    }

    /// A policy that stops running jobs times their turns from their start, so it must see what came of its plan at once.
    fn note_follow_up(&mut self, moment: Moment, plan: &Plan) {
        let wanted = self.engine.wants_follow_up && moment.occasion != Occasion::FollowUp && !plan.is_empty();
        self.pending.follow_up = wanted.then_some(moment.now);
    }

    /// Records what happened, and what follows from it without a decision: promised starts, and jobs that can never run.
    fn settle(&mut self, observe: &mut dyn FnMut(&Event)) {
        loop {
            // The list is lent and handed back, to be filled again without allocating.
            let mut events = std::mem::take(&mut self.events);
            for event in events.drain(..) {
                debug_assert!(!is_decision(&event), "decisions are the session's own");
                self.pending.has_news |= self.is_news(&event);
                let speed_changes = self.engine.state.speed_changes;
                self.engine.record(&event);
                self.pending.has_news |= self.engine.state.speed_changes != speed_changes;
                observe(&event);
                self.tally.events += 1;
            }
            self.events = events;
            let mut doomed = self.engine.state.take_doomed();
            if !doomed.is_empty() {
                doomed.sort_unstable();
                doomed.dedup();
                doomed.retain(|job| !self.engine.state.jobs[job.index()].phase.is_over());
                self.world.doom(&doomed, &self.engine.state, &mut self.events);
            } else if !self.engine.state.handovers.is_empty() {
                let starts = self.engine.state.ready_handovers();
                if !starts.is_empty() {
                    let plan = Plan { starts, ..Plan::default() };
                    self.world.apply(&plan, None, &self.engine.state, &mut self.events);
                }
            }
            if self.events.is_empty() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EngineOptions;
    use rota_core::bind::BadJobs;
    use rota_core::{Bound, Cluster, GpuId, GpuList, Job, JobList, Span, ThroughputTable, Workload};
    use std::sync::Arc;

    /// A world in which nothing happens by itself.
    struct Still(Vec<JobId>);

    impl World for Still {
        fn now(&self) -> Time {
            Time(10)
        }

        fn poll(&mut self, _: &State, _: Wait, _: &mut Vec<Event>) -> Step {
            Step::Over
        }

        fn apply(&mut self, plan: &Plan, _: Option<Moment>, _: &State, events: &mut Vec<Event>) {
            for start in &plan.starts {
                self.0.push(start.job);
                events.push(Event::at(self.now(), EventKind::started(start.job, start.gpus.clone())));
            }
        }
    }

    #[test]
    fn a_promise_that_came_due_before_a_restart_is_kept_after_it() {
        let mut workload = Workload::new("two jobs");
        for _ in 0..2 {
            workload.push(Job { preemptible: true, ..Job::new(Time::ZERO, Span::from_whole_seconds(60)) });
        }
        workload.finish();
        let cluster = Cluster::from_spec("gpu:1", 1).unwrap();
        let bound = Arc::new(Bound::new(workload, cluster, &ThroughputTable::default(), BadJobs::Refuse).unwrap());
        let options =
            EngineOptions { seed: 0, score: rota_core::Score::Consolidate, restart: crate::Restart::default(), round: None };
        let mut engine = Engine::new(bound, rota_policy::build("rr").unwrap(), &options);
        let (first, second, gpus) = (JobId(0), JobId(1), GpuList::from_slice(&[GpuId(0)]));
        let written = [
            EventKind::Submitted { job: first },
            EventKind::started(first, gpus.clone()),
            EventKind::Submitted { job: second },
            EventKind::Stopping { job: first, cause: StopCause::Preempt, note: () },
            EventKind::Promised { job: second, gpus, after: JobList::from_slice(&[first]) },
            // Here the daemon was killed, before it could start the second job.
            EventKind::ended(first, End::Preempted),
        ];
        for kind in written {
            engine.record(&Event::at(Time(5), kind));
        }
        let mut session = Session::new(engine, Still(Vec::new()));
        assert_eq!(session.advance(&mut |_| {}), None);
        assert_eq!(session.world.0, [second]);
    }
}
