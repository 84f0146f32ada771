//! A target: what a policy wants, before anybody looked at where it fits.
//!
//! Most policies rank jobs; the smallest rank runs first, ties go to the job that arrived first. They name only the
//! jobs whose rank is new or has changed, so a decision costs as much as what changed, not as much as the queue.
//! A policy that weighs GPU types against each other says instead which job should be on which type.

use crate::{GpuTypeId, JobId, Span, Time};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Whether running jobs may be stopped for better-ranked waiting ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Preempt {
    /// Never: what runs, runs to its end.
    Never,
    /// Only when a round ends (mechanism `rounds`); never under `event`.
    AtTicks,
    /// Whenever a decision is made; under `rounds`, when a round ends.
    Always,
}

/// What may pass a job that heads the queue and does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Backfill {
    /// Nobody: the queue waits behind its head.
    None,
    /// Whoever fits, at the risk of starving wide jobs.
    Greedy,
    /// Whoever fits and does not delay the head beyond the start it can count on.
    Easy,
    /// Whoever fits and does not delay anybody before it: every job holds a reservation.
    Conservative,
}

/// Which free GPUs a job gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Score {
    /// As few nodes as possible, and the fullest node that fits: keeps room for wide jobs.
    Consolidate,
    /// The emptiest nodes, one GPU each.
    Spread,
    /// The GPU with the least free memory that is enough.
    BestFit,
    /// The GPU with the most free memory.
    WorstFit,
    /// The GPUs that have worked least so far.
    LeastBusy,
    /// Any GPUs on which the job fits, drawn at random.
    Random,
}

/// A word that names none of the choices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not one of {}", .known.join(", "))]
pub struct UnknownWord {
    /// What was given.
    pub given: String,
    /// What would be right.
    pub known: Vec<&'static str>,
}

macro_rules! words {
    ($type:ident { $($word:literal => $variant:ident),+ $(,)? }) => {
        impl $type {
            /// The words that name a choice, in the order of the choices.
            pub const WORDS: &'static [&'static str] = &[$($word),+];
        }

        impl FromStr for $type {
            type Err = UnknownWord;
            fn from_str(text: &str) -> Result<Self, UnknownWord> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(UnknownWord { given: text.to_owned(), known: Self::WORDS.to_vec() }),
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(match self { $(Self::$variant => $word),+ })
            }
        }
    };
}

words!(Backfill { "none" => None, "greedy" => Greedy, "easy" => Easy, "conservative" => Conservative });
words!(Score {
    "consolidate" => Consolidate, "spread" => Spread, "best-fit" => BestFit,
    "worst-fit" => WorstFit, "least-busy" => LeastBusy, "random" => Random,
});

/// How ranks become a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Whether better-ranked jobs may take GPUs from running ones.
    pub preempt: Preempt,
    /// What may overtake a head that does not fit.
    pub backfill: Backfill,
    /// How many waiting jobs backfill looks at in one decision.
    pub backfill_depth: usize,
    /// Which GPUs; `None` leaves it to the run's own setting.
    pub score: Option<Score>,
    /// Ranks of running jobs are moments, compared as the time left until then (shortest remaining time):
    /// they fall by themselves as time passes, so nobody has to update them.
    pub running_ranks_count_down: bool,
}

impl Rule {
    /// Run in order to the end: no preemption.
    pub fn run_to_end(backfill: Backfill) -> Self {
        Self { preempt: Preempt::Never, backfill, backfill_depth: 256, score: None, running_ranks_count_down: false }
    }

    /// Better-ranked jobs take GPUs from worse ones; what does not fit is passed.
    pub fn preemptive(preempt: Preempt) -> Self {
        Self { preempt, ..Self::run_to_end(Backfill::Greedy) }
    }
}

/// What a policy wants.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The wish itself.
    pub wish: Wish,
    /// When the policy wants to be asked again although nothing happened.
    pub review_at: Option<Time>,
}

/// An order of the jobs, or the very jobs that should run, or no wish at all.
#[derive(Clone, Debug, PartialEq)]
pub enum Wish {
    /// Leave everything as it is.
    Nothing,
    /// Run jobs in the order of their ranks.
    Order {
        /// Jobs whose rank is new or changed. A job never named has rank 0.
        ranks: Vec<(JobId, f64)>,
        /// How the order is to be used.
        rule: Rule,
        /// How long the policy reckons jobs to run in all, as work, where it knows better than their users; new or changed ones only.
        /// Reservations and backfill go by it.
        lengths: Vec<(JobId, Span)>,
    },
    /// Run exactly these. Who is on its type already stays there.
    Assignment {
        /// Active jobs, each once, with the GPU type it should be on now, or none if it should wait. A job that is not named stays as it is.
        types: Vec<(JobId, Option<GpuTypeId>)>,
        /// Jobs that should share whole GPUs: both are named above with the same type, and no job is in two pairs.
        pairs: Vec<(JobId, JobId)>,
        /// Whether jobs may be moved between GPUs of their type, to bring gangs together on one node.
        preempt: Preempt,
    },
}

impl Target {
    /// An order given by these new ranks.
    pub fn order(rule: Rule, ranks: impl IntoIterator<Item = (JobId, f64)>) -> Self {
        Self { wish: Wish::Order { ranks: ranks.into_iter().collect(), rule, lengths: Vec::new() }, review_at: None }
    }
}
