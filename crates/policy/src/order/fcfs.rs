//! First come, first served; and `least-loaded`, which is the same queue with another choice of GPUs.

use crate::params::{BACKFILL, DEPTH, ESTIMATES, Param, Params, PolicyError};
use crate::{Context, Policy};
use rota_core::{Rule, Score, Snapshot, Target};
use serde::{Deserialize, Serialize};

/// Textbook first come, first served lets nobody pass.
pub const PARAMS: &[Param] = &[Param { default: "none", ..BACKFILL }, DEPTH, ESTIMATES];
/// Parameters of `least-loaded`.
pub const LEAST_LOADED_PARAMS: &[Param] = &[BACKFILL, DEPTH, ESTIMATES];

/// Ranks by arrival: job ids are given in order of arrival, so nothing needs to be said.
#[derive(Clone, Serialize, Deserialize)]
struct InOrderOfArrival(Rule);

impl Policy for InOrderOfArrival {
    fn decide(&mut self, _: &Snapshot<'_>, _: &mut Context) -> Target {
        Target::order(self.0, [])
    }
}

/// Builds the policy `fcfs`.
pub fn build(params: &Params<'_>) -> Result<Box<dyn Policy>, PolicyError> {
    Ok(Box::new(InOrderOfArrival(params.run_to_end()?)))
}

/// Builds the policy `least-loaded`.
pub fn build_least_loaded(params: &Params<'_>) -> Result<Box<dyn Policy>, PolicyError> {
    Ok(Box::new(InOrderOfArrival(Rule { score: Some(Score::LeastBusy), ..params.run_to_end()? })))
}
