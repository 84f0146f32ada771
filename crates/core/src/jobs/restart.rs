//! What restarts cost, by job type: a large model takes longer to save and to load than a small one.

use crate::{Name, Span};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How long a job that is stopped and started again does nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartCost {
    /// From the request to stop until the job is gone.
    pub stop: Span,
    /// From the start until the first step is done.
    pub start: Span,
}

impl RestartCost {
    /// The time of the stop and of the start together.
    pub fn whole(self) -> Span {
        self.stop + self.start
    }
}

/// Restart costs that were measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartCosts {
    by_kind: BTreeMap<Name, RestartCost>,
}

impl RestartCosts {
    /// What was measured of a job type.
    pub fn of(&self, kind: Name) -> Option<RestartCost> {
        self.by_kind.get(&kind).copied()
    }

    /// The job type that loses most by a restart.
    pub fn dearest(&self) -> Option<(Name, RestartCost)> {
        self.by_kind.iter().map(|(kind, cost)| (*kind, *cost)).max_by_key(|(_, cost)| cost.whole())
    }

    /// Takes in what was measured of a job type.
    pub fn set(&mut self, kind: Name, cost: RestartCost) {
        self.by_kind.insert(kind, cost);
    }
}
