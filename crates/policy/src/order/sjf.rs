//! Shortest job first: by the user's estimate where there is one, by the true length otherwise; or by what earlier jobs taught. Runs to
//! the end.

use super::by_history::ByHistory;
use crate::params::{BACKFILL, DEPTH, ESTIMATES, Param, Params, PolicyError};
use crate::{Context, Policy};
use rota_core::{Rule, Snapshot, Target};
use serde::{Deserialize, Serialize};

/// Parameters of `sjf`.
pub const PARAMS: &[Param] = &[BACKFILL, DEPTH, ESTIMATES];

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
    if params.goes_by_history()? {
        return Ok(Box::new(ByHistory::shortest_first(rule)));
    }
    Ok(Box::new(ShortestFirst(rule)))
}
