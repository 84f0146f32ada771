//! `--mechanism gavel`: a run of Gavel's own simulator in place of ours.

use crate::output;
use rota_core::{Bound, Event, ThroughputTable, Time};
use rota_gavel::{GavelOptions, Prices};
use rota_sim::{Mechanism, SimOptions, Tally};

/// What Gavel needs beside the options of every simulation.
#[derive(Clone, Copy)]
pub struct Gavel<'a> {
    pub table: &'a ThroughputTable,
    /// Exact shares from one arrival to the next, instead of rounds.
    pub ideal: bool,
}

/// The prices of the run, as Gavel's simulator takes them.
fn prices(bound: &Bound) -> Prices {
    let mut prices = Prices::of_cluster(&bound.cluster);
    for kind in &bound.cluster.types {
        for time in std::iter::once(Time::ZERO).chain(bound.prices.changes()) {
            if let Some(usd_per_hour) = bound.prices.price_at(&kind.name, time) {
                prices.set(&kind.name, time.seconds(), usd_per_hour);
            }
        }
    }
    prices
}

impl Gavel<'_> {
    /// Runs one policy.
    pub fn simulate(
        self,
        bound: &Bound,
        policy: &str,
        options: &SimOptions,
        observe: &mut dyn FnMut(&Event),
    ) -> anyhow::Result<Tally> {
        let mut gavel_options = GavelOptions {
            seed: options.seed,
            window: options.window,
            ideal: self.ideal,
            restart_cost_seconds: options.restart.cost.seconds(),
            prices: Some(prices(bound)),
            ..GavelOptions::default()
        };
        if let Mechanism::Rounds { length } = options.mechanism {
            gavel_options.round_seconds = length.seconds();
        }
        let tally = rota_gavel::simulate(bound, self.table, policy, &gavel_options, observe)?;
        if tally.arrivals_ended_early {
            output::remark(&format!(
                "{policy}: the trace ended before the window did. Gavel draws jobs until the window's last job has ended: \
                 to compare with Gavel, take a trace with more jobs"
            ));
        }
        Ok(Tally {
            end: tally.end,
            events: tally.events,
            decisions: tally.decisions,
            decision_seconds: tally.decision_seconds,
            decision_seconds_max: tally.decision_seconds_max,
        })
    }
}
