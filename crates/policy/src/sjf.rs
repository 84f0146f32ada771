//! Shortest job first: by the user's estimate where there is one, by the true length otherwise. Runs to the end.

use crate::params::{BACKFILL, DEPTH, Param, Params, PolicyError};
use crate::{Context, Policy};
use rota_core::{Rule, Snapshot, Target};

/// Parameters of `sjf`.
pub const PARAMS: &[Param] = &[BACKFILL, DEPTH];

struct ShortestFirst(Rule);

impl Policy for ShortestFirst {
    fn decide(&mut self, snapshot: &Snapshot<'_>, _: &mut Context) -> Target {
        Target::order(self.0, snapshot.newly_waiting().map(|view| (view.id(), view.believed_seconds())))
    }
}

/// `sjf`.
pub fn build(params: &Params<'_>) -> Result<Box<dyn Policy>, PolicyError> {
    Ok(Box::new(ShortestFirst(params.run_to_end()?)))
}
