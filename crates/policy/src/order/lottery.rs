//! Lottery: each decision draws among the waiting jobs with chances in proportion to their tickets; and `random`, where all have one.
//!
//! Every job draws a number once, exponential with mean 1/tickets, counted from the number drawn last by a job that was started: the
//! smallest number wins. That is the same as a fresh draw at every decision (the exponential distribution has no memory), at the cost
//! of one draw a job. A job that wins and does not fit keeps its winning number. Under `rounds` everybody draws anew every round, and
//! losers give way.

use crate::params::{BACKFILL, DEPTH, ESTIMATES, Param, Params, PolicyError};
use crate::{Context, Policy};
use rota_core::random::RandomStream;
use rota_core::{JobId, Phase, Preempt, Renumbering, Rule, Score, Snapshot, Target};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

const SEED: Param = Param { name: "seed", default: "", meaning: "seed of the draws; the run's seed if not given" };

/// Parameters of `lottery`.
pub const PARAMS: &[Param] = &[SEED, BACKFILL, DEPTH, ESTIMATES];
/// Parameters of `random`.
pub const RANDOM_PARAMS: &[Param] = &[SEED, BACKFILL, DEPTH, ESTIMATES];

#[derive(Clone, Serialize, Deserialize)]
struct Lottery {
    rule: Rule,
    equal_tickets: bool,
    stream: Option<RandomStream>,
    /// The largest number with which a job was started; later draws count from here.
    drawn_up_to: f64,
    numbers: Vec<f64>,
    active: BTreeSet<JobId>,
}

impl Lottery {
    fn draw(&mut self, tickets: u32, context: &mut Context) -> f64 {
        let stream = self.stream.as_mut().unwrap_or(&mut context.stream);
        let tickets = if self.equal_tickets { 1 } else { tickets.max(1) };
        self.drawn_up_to + stream.exponential(1.0 / f64::from(tickets))
    }
}

impl Policy for Lottery {
    fn decide(&mut self, snapshot: &Snapshot<'_>, context: &mut Context) -> Target {
        self.numbers.resize(snapshot.states.len(), 0.0);
        let redraw_all = snapshot.is_tick && self.rule.preempt == Preempt::AtTicks;
        let mut newcomers = Vec::new();
        for view in snapshot.changed_jobs() {
            match view.state.phase {
                Phase::Waiting => newcomers.push(view.id()),
                Phase::Running => self.drawn_up_to = self.drawn_up_to.max(self.numbers[view.id().index()]),
                _ => {}
            }
            if view.state.phase.is_active() {
                self.active.insert(view.id());
            } else {
                self.active.remove(&view.id());
            }
        }
        if redraw_all {
            newcomers = self.active.iter().copied().collect();
            self.drawn_up_to = 0.0;
        }
        let mut ranks = Vec::with_capacity(newcomers.len());
        for job in newcomers {
            let number = self.draw(snapshot.bound.job(job).tickets, context);
            self.numbers[job.index()] = number;
            ranks.push((job, number));
        }
        Target::order(self.rule, ranks)
    }

    fn renumber(&mut self, rows: &Renumbering) {
        rows.keep(&mut self.numbers);
        rows.rename_set(&mut self.active);
    }
}

fn lottery(params: &Params<'_>, rule: Rule, equal_tickets: bool) -> Result<Box<dyn Policy>, PolicyError> {
    let stream = params.optional_whole("seed")?.map(|seed| RandomStream::new(seed, "lottery"));
    Ok(Box::new(Lottery { rule, equal_tickets, stream, drawn_up_to: 0.0, numbers: Vec::new(), active: BTreeSet::new() }))
}

/// Builds the policy `lottery`.
pub fn build(params: &Params<'_>) -> Result<Box<dyn Policy>, PolicyError> {
    lottery(params, Rule { preempt: Preempt::AtTicks, ..params.run_to_end()? }, false)
}

/// Builds the policy `random`.
pub fn build_random(params: &Params<'_>) -> Result<Box<dyn Policy>, PolicyError> {
    lottery(params, Rule { score: Some(Score::Random), ..params.run_to_end()? }, true)
}
