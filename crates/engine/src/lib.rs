//! The engine: state is a fold over events, and one scheduling cycle is a function of it.
//!
//! A world (simulated or live) tells the engine what happened with [`Engine::record`] and asks what to do with [`Engine::cycle`].
//! The engine never acts: the plan it returns changes nothing until the world reports, by events, what it did of it.

mod state;
mod world;

pub use state::{Restart, State};
pub use world::{Moment, Tally, World, drive};

use rota_core::random::RandomStream;
use rota_core::{Backfill, Bound, Event, Plan, Preempt, Score, Snapshot, Span, Time, Wish};
use rota_place::Placer;
use rota_policy::{Context, Policy};
use std::sync::Arc;

/// What a run needs to know beside the jobs.
#[derive(Clone, Copy, Debug)]
pub struct EngineOptions {
    /// Seed of every random stream.
    pub seed: u64,
    /// Which GPUs a job gets where the policy does not say.
    pub score: Score,
    /// What it costs to start again.
    pub restart: Restart,
    /// The length of a round, if time is cut into rounds, at whose ends alone policies that wait for them stop running jobs.
    pub round: Option<Span>,
}

/// State, policy and placement of one run.
pub struct Engine {
    /// The state of every job.
    pub state: State,
    policy: Box<dyn Policy>,
    placer: Placer,
    context: Context,
    round: Option<Span>,
    review_at: Option<Time>,
    wants_follow_up: bool,
}

/// Why a cycle is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// Something happened, or the policy asked to be called.
    Event,
    /// A round ended.
    Tick,
    /// The plan just made was carried out.
    FollowUp,
}

impl Engine {
    /// An engine before anything happened.
    pub fn new(bound: Arc<Bound>, policy: Box<dyn Policy>, options: &EngineOptions) -> Self {
        let round = options.round.filter(|_| policy.waits_for_rounds());
        Self {
            state: State::new(bound, options.restart),
            policy,
            placer: Placer::new(options.score, options.seed),
            context: Context { stream: RandomStream::new(options.seed, "policy") },
            round,
            review_at: None,
            wants_follow_up: false,
        }
    }

    /// Takes in something that happened.
    pub fn record(&mut self, event: &Event) {
        self.state.apply(event);
    }

    /// When the policy wants to be asked again although nothing happens.
    pub fn review_at(&self) -> Option<Time> {
        self.review_at
    }

    /// Whether the policy must see what came of a plan at once: one that stops running jobs times their turns from their start.
    pub fn wants_follow_up(&self) -> bool {
        self.wants_follow_up
    }

    /// Snapshot, target, plan: what to do now. Every plan is checked in debug builds.
    ///
    /// # Panics
    /// In debug builds, if the plan is unsound: a fault in placement, never in the input.
    pub fn cycle(&mut self, now: Time, occasion: Occasion) -> Plan {
        let (changed, repaced) = (self.state.take_changed(), self.state.take_repaced());
        let state = &mut self.state;
        let snapshot = Snapshot {
            now,
            round: self.round,
            is_tick: occasion == Occasion::Tick,
            bound: &state.bound,
            states: &state.jobs,
            nodes_up: &state.nodes_up,
            outside: &state.outside,
            outside_changes: state.outside_changes,
            gpu_busy: &state.gpu_busy,
            restart_cost: state.restart.cost,
            changed: &changed,
            repaced: &repaced,
        };
        let target = self.policy.decide(&snapshot, &mut self.context);
        self.review_at = target.review_at;
        let (rule, preempt) = match &target.wish {
            Wish::Order { rule, .. } => (Some(rule), rule.preempt),
            Wish::Assignment { preempt, .. } => (None, *preempt),
            Wish::Nothing => (None, Preempt::Never),
        };
        self.wants_follow_up = preempt == Preempt::Always && snapshot.round.is_none();
        let plan = self.placer.plan(&snapshot, &mut state.pool, &target);
        // Where everybody holds a promise, a promised start is a moment to decide at even if nothing else happens then.
        let everybody = rule.is_some_and(|rule| rule.backfill == Backfill::Conservative);
        let promised = plan.promises.iter().map(|promise| promise.start).filter(|_| everybody).min();
        self.review_at = self.review_at.into_iter().chain(promised).filter(|at| *at > now).min();
        #[cfg(debug_assertions)]
        if let Err(violation) = rota_core::check::check(&snapshot, &plan) {
            panic!("unsound plan at {now}: {violation}: {plan:?}");
        }
        self.state.recycle_changed(changed);
        plan
    }
}
