//! Shortest job first: by the user's estimate where there is one, by the true length otherwise; or by what earlier jobs taught. Runs to
//! the end.

use super::by_history::ByHistory;
use crate::params::{BACKFILL, DEPTH, Param, Params, PolicyError};
use crate::{Context, Policy};
use rota_core::{Rule, Snapshot, Target};
use serde::{Deserialize, Serialize};

/// Parameters of `sjf`.
pub const PARAMS: &[Param] = &[
    BACKFILL,
    DEPTH,
    Param {
        name: "estimates",
        default: "user",
        meaning: "user: the user's estimate, or the true length where there is none; history: what earlier jobs taught",
    },
];

#[derive(Clone, Serialize, Deserialize)]
struct ShortestFirst(Rule);

impl Policy for ShortestFirst {
    fn decide(&mut self, snapshot: &Snapshot<'_>, _: &mut Context) -> Target {
        Target::order(self.0, snapshot.newly_waiting().map(|view| (view.id(), view.believed_seconds())))
    }
}

/// Builds the policy `sjf`.
pub fn build(params: &Params<'_>) -> Result<Box<dyn Policy>, PolicyError> {
    let rule = params.run_to_end()?;
    match params.word("estimates") {
        "history" => Ok(Box::new(ByHistory::shortest_first(rule))),
        "user" => Ok(Box::new(ShortestFirst(rule))),
        _ => Err(params.bad_value("estimates", "user or history")),
    }
}
