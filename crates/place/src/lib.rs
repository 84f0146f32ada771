//! Placement: turns a target (ranks) into a plan (which job on which GPUs, now).
//!
//! The path: [`queue`] keeps jobs in rank order, [`pool`] knows what is free, [`fit`] chooses GPUs for one gang, [`draft`] is the
//! try-and-roll-back statement in which a plan is made. Three ways to fill the cluster use them: in rank order with or without a
//! reservation for the head ([`order`]), with a reservation for everybody ([`conservative`], on a `calendar` where it matters which GPUs), and by preemption ([`preempt`]); a policy that names the
//! types itself is followed ([`assignment`]), and its gangs are kept on one node where that pays ([`together`]).
//! Nothing here knows time beyond the snapshot's, and a plan is made without changing the pool: the world's events do that.

pub mod assignment;
mod bits;
mod calendar;
pub mod conservative;
pub mod draft;
pub mod fit;
pub mod order;
pub mod pool;
pub mod preempt;
pub mod queue;
pub mod releases;
pub mod together;

use assignment::Spreading;
use conservative::Promises;
use draft::{Draft, TypeOrder};
use pool::Pool;
use queue::{Queue, RunningIndex};
use rota_core::random::RandomStream;
use rota_core::{Backfill, JobId, Plan, Preempt, Renumbering, Rule, Score, Snapshot, Span, Target, Wish};
use serde::{Deserialize, Serialize};

/// Makes plans, and keeps between them what would be costly to find again.
#[derive(Clone, Serialize, Deserialize)]
pub struct Placer {
    score: Score,
    stream: RandomStream,
    queue: Queue,
    promises: Promises,
    type_orders: Vec<TypeOrder>,
    /// How long the policy believes jobs to run, by id.
    lengths: Vec<Option<Span>>,
    /// Jobs named in the last plan: whether the world carried it out shows in their phase.
    planned: Vec<JobId>,
    /// How many classes of jobs were looked at, and what they say of gangs that are spread.
    #[serde(skip)]
    classes: usize,
    #[serde(skip)]
    spreading: Spreading,
}

impl Placer {
    /// A placer for one run; `score` holds where the policy does not ask for another.
    pub fn new(score: Score, seed: u64) -> Self {
        Self {
            score,
            stream: RandomStream::new(seed, "place"),
            queue: Queue::default(),
            promises: Promises::default(),
            type_orders: Vec::new(),
            lengths: Vec::new(),
            planned: Vec::new(),
            classes: 0,
            spreading: Spreading::Free,
        }
    }

    /// Forgets all ranks, lengths and promises: another policy makes them anew.
    pub fn forget(&mut self) {
        self.queue = Queue::default();
        self.promises = Promises::default();
        self.lengths.clear();
        self.planned.clear();
    }

    /// Jobs have other rows from now on.
    pub fn renumber(&mut self, rows: &Renumbering) {
        self.queue.renumber(rows);
        self.promises.renumber(rows);
        rows.keep(&mut self.lengths);
        rows.rename(&mut self.planned);
    }

    /// The plan that realises the target now.
    pub fn plan(&mut self, snapshot: &Snapshot<'_>, pool: &mut Pool, target: &Target) -> Plan {
        for shape in &snapshot.bound.shapes[self.type_orders.len()..] {
            self.type_orders.push(draft::type_order(shape, &snapshot.bound.speeds[shape.speeds as usize]));
        }
        if snapshot.bound.classes[self.classes..].iter().any(|class| class.spread_part.is_some()) {
            self.spreading = Spreading::Slows;
        }
        self.classes = snapshot.bound.classes.len();
        match &target.wish {
            Wish::Order { ranks, rule, lengths } if lengths.is_empty() && self.lengths.is_empty() => {
                self.plan_order(snapshot, pool, ranks, rule, lengths)
            }
            Wish::Order { ranks, rule, lengths } => {
                let mut known = std::mem::take(&mut self.lengths);
                if !lengths.is_empty() {
                    known.resize(snapshot.states.len(), None);
                }
                for &(job, length) in lengths {
                    known[job.index()] = Some(length);
                }
                let snapshot = Snapshot { lengths: &known, ..*snapshot };
                let plan = self.plan_order(&snapshot, pool, ranks, rule, lengths);
                self.lengths = known;
                plan
            }
            Wish::Nothing => Plan::default(),
            Wish::Assignment { types, pairs, preempt } => {
                let mut draft = Draft::new(*snapshot, pool, &self.type_orders, self.score, &mut self.stream);
                assignment::fill(&mut draft, types, pairs, *preempt, self.spreading);
                draft.into_plan()
            }
        }
    }

    fn plan_order(
        &mut self,
        snapshot: &Snapshot<'_>,
        pool: &mut Pool,
        ranks: &[(JobId, f64)],
        rule: &Rule,
        lengths: &[(JobId, Span)],
    ) -> Plan {
        let index = RunningIndex {
            by_rank: rule.preempt != Preempt::Never,
            by_end: rule.preempt == Preempt::Never && matches!(rule.backfill, Backfill::Easy | Backfill::Conservative),
        };
        self.queue.update(snapshot, ranks, lengths.iter().map(|(job, _)| *job), index);
        for job in std::mem::take(&mut self.planned) {
            self.queue.settle(job, snapshot);
        }
        let may_preempt = match rule.preempt {
            Preempt::Never => false,
            Preempt::AtTicks => snapshot.is_tick,
            Preempt::Always => snapshot.is_tick || snapshot.round.is_none(),
        };
        let score = rule.score.unwrap_or(self.score);
        let mut draft = Draft::new(*snapshot, pool, &self.type_orders, score, &mut self.stream);
        if may_preempt {
            preempt::fill(&mut self.queue, &mut draft, rule.running_ranks_count_down);
        } else {
            match rule.backfill {
                Backfill::None | Backfill::Greedy => order::fill(&mut self.queue, &mut draft, rule.backfill),
                Backfill::Easy => order::fill_with_reservation(&mut self.queue, &mut draft, rule.backfill_depth),
                Backfill::Conservative => {
                    conservative::fill(&mut self.queue, &mut draft, &mut self.promises, rule.backfill_depth);
                }
            }
        }
        let plan = draft.into_plan();
        self.planned.extend(plan.stops.iter().copied().chain(plan.starts.iter().map(|start| start.job)));
        plan
    }
}
