//! What a GPU costs at which time: constant list prices, or a history of prices that change.
//!
//! Prices are in US dollars for one GPU and one hour. A price holds from its moment until the next one of the same GPU type; the first
//! one of a type holds from the beginning of time, so that a history that begins late still prices the start of a run.

use crate::{Cluster, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Dearer than anything: beyond it is a slip.
pub const USD_PER_HOUR_MAX: f64 = 1e6;

/// Why a price cannot be added.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PriceError {
    /// Not a price.
    #[error("`{0}` is out of range: give US dollars per GPU and hour from 0 to 1e6")]
    OutOfRange(f64),
    /// Not after the price before it.
    #[error("times must go up for each GPU type: {} s does not come after {} s", at.seconds(), previous.seconds())]
    TimeOrder {
        /// The moment given.
        at: Time,
        /// The last moment of this GPU type.
        previous: Time,
    },
}

/// A price and the moment from which it holds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    from: Time,
    usd_per_hour: f64,
    /// What a GPU held from the first step until this one would have cost.
    usd_before: f64,
}

/// The prices of one GPU type over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PriceSeries(Vec<Step>);

impl PriceSeries {
    /// The price in force.
    pub fn at(&self, time: Time) -> Option<f64> {
        self.step_at(time).map(|step| step.usd_per_hour)
    }

    /// What one GPU costs from one moment to another.
    pub fn cost_usd(&self, from: Time, until: Time) -> Option<f64> {
        let hours = |from: Time, until: Time| until.since(from).seconds() / 3600.0;
        let (first, last) = (self.step_at(from)?, self.step_at(until)?);
        if first.from == last.from {
            return Some(first.usd_per_hour * hours(from, until));
        }
        let until_last = last.usd_before - first.usd_before;
        // Before the first price there is only the first price, which then has to be paid for longer.
        let begun = first.from.max(from);
        let unpaid = if from < first.from { hours(from, first.from) * first.usd_per_hour } else { 0.0 };
        let paid_too_much = hours(first.from, begun) * first.usd_per_hour;
        Some(unpaid + until_last - paid_too_much + hours(last.from, until) * last.usd_per_hour)
    }

    fn step_at(&self, time: Time) -> Option<Step> {
        let after = self.0.partition_point(|step| step.from <= time);
        self.0.get(after.saturating_sub(1)).copied()
    }
}

/// Prices of GPU types by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PriceTable {
    /// What it is, for the assumptions printed with a result.
    pub source: String,
    series: BTreeMap<String, PriceSeries>,
    changes: BTreeSet<Time>,
}

impl PriceTable {
    /// A table without any price.
    pub fn new(source: impl Into<String>) -> Self {
        Self { source: source.into(), ..Self::default() }
    }

    /// The constant prices of a cluster's GPU types, as far as they are known.
    pub fn of_cluster(cluster: &Cluster) -> Self {
        let mut table = Self::new("list prices of the GPU types");
        for kind in &cluster.types {
            if let Some(usd_per_hour) = kind.usd_per_hour {
                let step = Step { from: Time::ZERO, usd_per_hour, usd_before: 0.0 };
                table.series.insert(kind.name.clone(), PriceSeries(vec![step]));
            }
        }
        table
    }

    /// Adds the price of a GPU type from a moment on, which must come after the last one of this type.
    pub fn push(&mut self, gpu_type: &str, from: Time, usd_per_hour: f64) -> Result<(), PriceError> {
        if !(0.0..=USD_PER_HOUR_MAX).contains(&usd_per_hour) {
            return Err(PriceError::OutOfRange(usd_per_hour));
        }
        let series = &mut self.series.entry(gpu_type.to_owned()).or_default().0;
        let usd_before = match series.last() {
            None => 0.0,
            Some(last) if from <= last.from => return Err(PriceError::TimeOrder { at: from, previous: last.from }),
            Some(last) => last.usd_before + last.usd_per_hour * from.since(last.from).seconds() / 3600.0,
        };
        let is_change = !series.is_empty();
        series.push(Step { from, usd_per_hour, usd_before });
        if is_change {
            self.changes.insert(from);
        }
        Ok(())
    }

    /// The price of a GPU type in force at a moment, in US dollars per GPU and hour.
    pub fn price_at(&self, gpu_type: &str, time: Time) -> Option<f64> {
        self.series.get(gpu_type)?.at(time)
    }

    /// The prices of a GPU type over time.
    pub fn series(&self, gpu_type: &str) -> Option<&PriceSeries> {
        self.series.get(gpu_type)
    }

    /// The moments at which some price changes, in order.
    pub fn changes(&self) -> impl ExactSizeIterator<Item = Time> {
        self.changes.iter().copied()
    }

    /// The GPU types with a price, sorted.
    pub fn gpu_types(&self) -> impl Iterator<Item = &str> {
        self.series.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hours: u64) -> Time {
        Time(hours * 3_600_000_000_000)
    }

    #[test]
    fn the_price_in_force_is_the_last_one_before() {
        let mut table = PriceTable::new("test");
        for (hours, usd) in [(1, 2.0), (3, 5.0), (4, 0.0)] {
            table.push("a", at(hours), usd).unwrap();
        }
        table.push("b", at(3), 1.0).unwrap();
        table.push("b", at(9), 2.0).unwrap();
        let prices = [0, 1, 2, 3, 4, 9].map(|hours| table.price_at("a", at(hours)).unwrap());
        assert_eq!(prices.map(|usd| usd as u32), [2, 2, 2, 5, 0, 0]);
        assert_eq!(table.price_at("c", at(1)), None);
        assert_eq!(table.changes().collect::<Vec<_>>(), [at(3), at(4), at(9)]);
        assert_eq!(table.gpu_types().collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn costs_are_integrals_of_prices() {
        let mut table = PriceTable::new("test");
        for (hours, usd) in [(1, 2.0), (3, 5.0), (4, 0.5)] {
            table.push("a", at(hours), usd).unwrap();
        }
        let series = table.series("a").unwrap();
        for from in 0..8 {
            for until in from..9 {
                let expected = (from..until).map(|hour| series.at(at(hour)).unwrap()).sum::<f64>();
                let cost = series.cost_usd(at(from), at(until)).unwrap();
                assert!((cost - expected).abs() < 1e-12, "{from} to {until}: {cost} instead of {expected}");
            }
        }
        assert_eq!(PriceSeries::default().cost_usd(at(0), at(1)), None);
    }

    #[test]
    fn what_is_no_price_is_refused() {
        let mut table = PriceTable::new("test");
        assert!(matches!(table.push("a", at(0), f64::NAN), Err(PriceError::OutOfRange(_))));
        assert!(matches!(table.push("a", at(0), -0.1), Err(PriceError::OutOfRange(_))));
        assert!(matches!(table.push("a", at(0), f64::INFINITY), Err(PriceError::OutOfRange(_))));
        table.push("a", at(2), 1.0).unwrap();
        table.push("b", at(1), 1.0).unwrap();
        let message = table.push("a", at(2), 1.0).unwrap_err().to_string();
        assert_eq!(message, "times must go up for each GPU type: 7200 s does not come after 7200 s");
    }
}
