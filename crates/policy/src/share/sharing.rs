//! How a policy turns an allocation into turns: a row of the registry says it for its policy.

use serde::{Deserialize, Serialize};

/// When an allocation is made anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Renewal {
    /// When jobs come or go: nothing else changes it.
    OnChange,
    /// At the end of every round too: it depends on what jobs have done.
    EveryRound,
}

/// Whether an allocation tells GPU types apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sight {
    /// It does: a share of one type is not a share of another.
    Types,
    /// It does not: a share is of any GPU, so each job gets its part of every type. Otherwise chance would leave a job on a slow type
    /// for good.
    Blind,
    /// It does not, but jobs are put where they run fastest: shares say who runs, speeds say where.
    Fastest,
}

/// What makes a job worth a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Merit {
    /// What it is owed.
    Credit,
    /// How soon it would be done.
    Shortness,
}

/// How long the turns of jobs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Turns {
    /// A running job holds on to its GPUs for the same credit whatever its share: jobs with small shares wait long between their turns,
    /// and are done a turn sooner or later by chance.
    Long,
    /// A running job holds on for less the smaller its share is, so that all wait about as long for their next turn, and allocations
    /// that were soon replaced do not say who is ahead. When a job is done hangs on its share, and hardly on who was first. Jobs that share
    /// GPUs have long turns all the same.
    Even,
}

/// How a policy turns an allocation into turns. Each row of the registry says it for its policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sharing {
    /// When the allocation is made anew.
    pub renewal: Renewal,
    /// Whether the allocation tells GPU types apart.
    pub sight: Sight,
    /// What counts inside a round.
    pub merit_between: Merit,
    /// How long the turns of jobs are.
    pub turns: Turns,
}

/// Most of them: shares of each type, credit inside a round too.
pub const BY_TYPE: Sharing =
    Sharing { renewal: Renewal::OnChange, sight: Sight::Types, merit_between: Merit::Credit, turns: Turns::Long };
