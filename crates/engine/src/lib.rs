//! The engine: state is a fold over events, and one scheduling cycle is a function of it.
//!
//! A world (simulated or live) tells the engine what happened with [`Engine::record`] and asks what to do with [`Engine::look`],
//! [`Engine::ask`] and [`Engine::plan`]. The engine never acts: the plan it returns changes nothing until the world reports, by events,
//! what it did of it. The loop that joins the two is a [`Session`]: it can be stepped, forked, saved and replayed.

pub mod explain;
mod handovers;
mod image;
mod recent_starts;
mod restart;
mod session;
mod speeds;
mod state;

pub use handovers::Handover;
pub use image::ImageError;
pub use restart::{MinRun, Restart};
pub use rota_core::event::Occasion;
pub use session::{Moment, Pending, Session, Step, Tally, Wait, World};
pub use state::State;

use rota_core::random::RandomStream;
use rota_core::{Backfill, Bound, Event, EventKind, JobId, Plan, Preempt, Score, Snapshot, Span, Target, Time, Wish};
use rota_place::Placer;
use rota_policy::history::History;
use rota_policy::{Configured, Context};
use std::sync::Arc;

/// What a decision goes by. A macro, because it borrows all of the state but the pool, which a plan is tried out on.
macro_rules! snapshot {
    ($state:expr, $look:expr, $round:expr, $durations:expr) => {
        Snapshot {
            now: $look.moment.now,
            round: $round,
            is_tick: $look.moment.occasion == Occasion::Tick,
            bound: &$state.bound,
            states: &$state.jobs,
            nodes_up: &$state.nodes_up,
            outside: &$state.outside,
            outside_changes: $state.outside_changes,
            gpu_busy: &$state.gpu_busy,
            restart_cost: $state.restart.cost,
            restart_costs: &$state.restart_costs,
            min_run: $state.restart.min_run(),
            min_run_restarts: $state.restart.min_run_restarts(),
            speed_changes: $state.speed_changes,
            durations: $durations,
            changed: &$look.changed,
            lengths: &[],
            repaced: &$look.repaced,
        }
    };
}

/// Rows of jobs that are over before they are dropped from the tables, at the least.
const ENDED_ROWS_MIN: usize = 100;
/// Policies that were in force before and whose memory is kept, in case they are set again.
const PARKED_MAX: usize = 4;

/// What a run needs to know beside the jobs.
#[derive(Clone, Copy, Debug)]
pub struct EngineOptions {
    /// Seed of every random stream.
    pub seed: u64,
    /// The GPUs that a job gets where the policy does not say.
    pub score: Score,
    /// What it costs a job to start again.
    pub restart: Restart,
    /// The length of a round, if time is cut into rounds, at whose ends alone policies that wait for them stop running jobs.
    pub round: Option<Span>,
}

/// What one decision goes by: everything that changed since the one before.
#[derive(Clone)]
struct Look {
    moment: Moment,
    changed: Vec<JobId>,
    repaced: Vec<JobId>,
}

/// State, policy and placement of one run.
#[derive(Clone)]
pub struct Engine {
    /// The state of every job.
    pub state: State,
    policy: Configured,
    /// Policies that were in force before, with what they remember.
    parked: Vec<Configured>,
    placer: Placer,
    context: Context,
    round: Option<Span>,
    review_at: Option<Time>,
    wants_follow_up: bool,
    look: Option<Look>,
}

impl Engine {
    /// An engine before anything happened.
    pub fn new(bound: Arc<Bound>, policy: Configured, options: &EngineOptions) -> Self {
        Self {
            state: State::new(bound, options.restart),
            policy,
            parked: Vec::new(),
            placer: Placer::new(options.score, options.seed),
            context: Context { stream: RandomStream::new(options.seed, "policy"), problems: Vec::new() },
            round: options.round,
            review_at: None,
            wants_follow_up: false,
            look: None,
        }
    }

    /// Takes in something that happened.
    pub fn record(&mut self, event: &Event) {
        self.state.apply(event);
    }

    /// The policy in force, as it was written.
    pub fn policy(&self) -> &str {
        &self.policy.spec
    }

    /// Another policy decides from now on. One that was in force before goes on with what it remembers.
    pub fn set_policy(&mut self, policy: Configured) {
        let known = self.parked.iter().position(|parked| parked.spec == policy.spec);
        let next = known.map_or(policy, |place| self.parked.remove(place));
        let before = std::mem::replace(&mut self.policy, next);
        self.parked.retain(|parked| parked.spec != before.spec);
        self.parked.push(before);
        if self.parked.len() > PARKED_MAX {
            self.parked.remove(0);
        }
        // Everybody is new to it, or may have changed since it last looked; ranks of another policy mean nothing to it.
        self.placer.forget();
        self.review_at = None;
        self.wants_follow_up = false;
        self.state.note_everybody();
    }

    /// How many classes of jobs the policy in force knows; `None` if it learns nothing of lengths.
    pub fn classes_learned(&mut self) -> Option<usize> {
        self.policy.policy.trackers().iter().map(|tracker| tracker.history().classes()).max()
    }

    /// What ended jobs taught the policy in force; `None` if it learns nothing of lengths.
    pub fn taught_by_ended(&mut self) -> Option<History> {
        self.policy.policy.trackers().first().map(|tracker| tracker.taught_by_ended())
    }

    /// The policy in force knows from now on what earlier jobs taught, and forgets what it knew of lengths.
    pub fn teach(&mut self, history: &History) {
        self.policy.policy.trackers().into_iter().for_each(|tracker| tracker.begin_with(history.clone()));
        // It follows no job yet.
        self.state.note_everybody();
    }

    /// From now on what is decided is a forecast: lengths of jobs were drawn.
    pub fn begin_forecast(&mut self) {
        self.policy.policy.begin_forecast();
    }

    /// When the policy wants to be asked again although nothing happens.
    pub fn review_at(&self) -> Option<Time> {
        self.review_at
    }

    /// When the present round ends, if anybody could gain by it: a job that waits, or a policy that may move those who run.
    fn next_tick(&self, now: Time, wake: Option<Time>) -> Option<Time> {
        let matters = self.state.running + self.state.stopping > 0 && (self.state.waiting > 0 || wake.is_some());
        self.round.filter(|_| matters).map(|round| Time((now.0 / round.0.max(1) + 1).saturating_mul(round.0.max(1))))
    }

    /// Takes in everything that changed since the last decision. A decision follows: [`Self::ask`] or a target of the caller's own, then
    /// [`Self::plan`].
    pub fn look(&mut self, moment: Moment) {
        self.look = Some(Look { moment, changed: self.state.take_changed(), repaced: self.state.take_repaced() });
    }

    /// What a decision goes by; `None` unless one is due.
    pub fn snapshot(&self) -> Option<Snapshot<'_>> {
        self.look.as_ref().map(|look| snapshot!(self.state, look, self.round_seen(), self.policy.durations))
    }

    /// The length of a round, for a policy that waits for its end.
    fn round_seen(&self) -> Option<Span> {
        self.round.filter(|_| self.policy.policy.waits_for_rounds())
    }

    /// What the policy wants.
    pub fn ask(&mut self) -> Target {
        let round = self.round_seen();
        let Some(look) = &self.look else { return Target { wish: Wish::Nothing, review_at: self.review_at } };
        let snapshot = snapshot!(self.state, look, round, self.policy.durations);
        self.policy.policy.decide(&snapshot, &mut self.context)
    }

    /// What the policy could not do, in words, since this was last asked.
    pub fn take_problems(&mut self) -> Vec<String> {
        std::mem::take(&mut self.context.problems)
    }

    /// The plan that carries a target out. Every plan is checked in debug builds.
    ///
    /// # Panics
    /// In debug builds, if the plan is unsound: a fault in placement, never in the input.
    pub fn plan(&mut self, target: &Target) -> Plan {
        let round = self.round_seen();
        let Some(look) = self.look.take() else { return Plan::default() };
        let now = look.moment.now;
        let (rule, preempt) = match &target.wish {
            Wish::Order { rule, .. } => (Some(rule), rule.preempt),
            Wish::Assignment { preempt, .. } => (None, *preempt),
            Wish::Nothing => (None, Preempt::Never),
        };
        self.wants_follow_up = preempt == Preempt::Always && round.is_none();
        // The pool is tried out and put back, while everything else is looked at.
        let state = &mut self.state;
        let snapshot = snapshot!(state, look, round, self.policy.durations);
        let plan = self.placer.plan(&snapshot, &mut state.pool, target);
        // Where everybody holds a promise, a promised start is a moment to decide at even if nothing else happens then.
        let everybody = rule.is_some_and(|rule| rule.backfill == Backfill::Conservative);
        let promised = plan.promises.iter().map(|promise| promise.start).filter(|_| everybody).min();
        #[cfg(debug_assertions)]
        if let Err(violation) = rota_core::check::check(&snapshot, &plan) {
            panic!("unsound plan at {now}: {violation}: {plan:?}");
        }
        let ripe = self.state.next_ripe(now);
        self.review_at = target.review_at.into_iter().chain(promised).chain(ripe).filter(|at| *at > now).min();
        self.state.recycle_changed(look.changed);
        plan
    }

    /// Drops the rows of jobs that are over, once they are more than those of all others. Says which row each job has from then on.
    pub fn compact(&mut self) -> Option<rota_core::Renumbering> {
        let ended = self.state.jobs.len() - self.state.unfinished;
        if ended < ENDED_ROWS_MIN.max(self.state.unfinished) || self.look.is_some() {
            return None;
        }
        let rows = self.state.kept_rows();
        self.renumber(&rows);
        Some(rows)
    }

    /// Jobs have other rows from now on.
    pub fn renumber(&mut self, rows: &rota_core::Renumbering) {
        self.state.renumber(rows);
        self.placer.renumber(rows);
        self.policy.policy.renumber(rows);
        self.parked.iter_mut().for_each(|parked| parked.policy.renumber(rows));
    }
}

/// Whether an event is of those that a restart must not decide upon again: it tells of a decision.
pub(crate) fn is_decision(event: &Event) -> bool {
    matches!(event.kind, EventKind::Decided { .. })
}
