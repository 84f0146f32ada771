//! One alternative, simulated.

use super::alternatives::{Alternative, Changed, Past, bind};
use super::recorded::Recorded;
use crate::simulate::sim::build_policy;
use rota_core::{Bound, JobId};
use rota_engine::{Engine, Session};
use rota_report::{Recorder, RecorderOptions, Run, RunMeta, Summary, summarise};
use rota_sim::{Mechanism, RestrainedWorld, Restraints, SimulatedWorld};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// One alternative, simulated: its run, its summary, and the row of the past of each of its jobs.
pub struct Simulated {
    pub run: Run,
    pub summary: Summary,
    pub bound: Arc<Bound>,
    pub row_of: Vec<usize>,
    /// How the alternative was made.
    pub notes: Vec<String>,
    /// How many jobs are left out, and why; without the name of the alternative.
    pub left_out: Vec<String>,
}

/// Simulates the jobs of the past under an alternative.
pub fn simulate(past: &Past, recorded: &Recorded, choice: &Alternative) -> anyhow::Result<Simulated> {
    let started = Instant::now();
    let Changed { bound, row_of, notes, left_out } = bind(past, choice)?;
    let new_rows = row_of.iter().enumerate().map(|(new, row)| (*row, JobId::from_index(new))).collect::<HashMap<_, _>>();
    let factor = choice.arrivals_factor();
    let held = recorded.held_until.iter().filter_map(|(row, at)| {
        // A user who held a job for an hour would have held it for an hour.
        let shift = past.workload.jobs[*row].arrival;
        let new = *new_rows.get(row)?;
        Some((new, if (factor - 1.0).abs() < f64::EPSILON { *at } else { bound.job(new).arrival + at.since(shift) }))
    });
    let restraints = Restraints { gpus_per_user_max: choice.quota(), held_until: held.collect() };
    let mut measures = Recorder::new(&bound, RecorderOptions { timeline: false, restart_cost: recorded.options.restart.cost });
    let policy = build_policy(&choice.policy, None)?;
    let mut observe = |event: &rota_core::Event| measures.observe(event);
    let seconds = || started.elapsed().as_secs_f64();
    let engine = Engine::new(Arc::clone(&bound), policy, &recorded.options.engine());
    let world = SimulatedWorld::new(Arc::clone(&bound), &recorded.options);
    let tally = if restraints == Restraints::default() {
        Session::new(engine, world).run(&mut observe, &seconds)
    } else {
        Session::new(engine, RestrainedWorld::new(world, &restraints)).run(&mut observe, &seconds)
    };
    let run = measures.finish(tally.end);
    let meta = RunMeta {
        policy: choice.policy.clone(),
        mechanism: if recorded.options.mechanism == Mechanism::Event { "event" } else { "rounds" }.to_owned(),
        seed: recorded.options.seed,
        restart_cost_seconds: recorded.options.restart.cost.seconds(),
        allocations: tally.decisions,
        allocation_seconds_mean: tally.decision_seconds / tally.decisions.max(1) as f64,
        allocation_seconds_max: tally.decision_seconds_max,
        wall_seconds: started.elapsed().as_secs_f64(),
        events: tally.events,
        ..RunMeta::default()
    };
    let summary = summarise(&run, &bound, &meta);
    Ok(Simulated { run, summary, bound, row_of, notes, left_out })
}
