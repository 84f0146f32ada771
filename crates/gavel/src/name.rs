//! Policies by name: Rota's spelling and Gavel's, and what the name alone decides about a run.

use crate::GavelError;

/// How much a policy makes of throughputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awareness {
    /// All types are taken to be alike.
    Agnostic,
    /// Throughputs of jobs alone count.
    Perf,
    /// Throughputs of pairs count as well.
    Packed,
}

/// What a policy that sums throughputs goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worth {
    /// Steps per second.
    Steps,
    /// Steps per dollar.
    Cost,
    /// Steps per dollar, with deadlines.
    CostSlo,
}

/// The policies of Gavel's simulator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum PolicyName {
    Fifo(Awareness),
    Isolated,
    Proportional,
    MaxMin(Awareness),
    WaterFilling(Awareness),
    FinishTime(Awareness),
    Makespan(Awareness),
    MaxSum(Worth, Awareness),
    Allox { alpha: f64 },
    Gandiva,
}

use Awareness::{Agnostic, Packed, Perf};
use PolicyName::{Fifo, FinishTime, Gandiva, Isolated, Makespan, MaxMin, MaxSum, Proportional, WaterFilling};

const NAMES: [(&str, &str, PolicyName); 23] = [
    ("fifo", "fifo", Fifo(Agnostic)),
    ("fifo-perf", "fifo_perf", Fifo(Perf)),
    ("fifo-packed", "fifo_packed", Fifo(Packed)),
    ("isolated", "isolated", Isolated),
    ("proportional", "proportional", Proportional),
    ("max-min", "max_min_fairness", MaxMin(Agnostic)),
    ("max-min-perf", "max_min_fairness_perf", MaxMin(Perf)),
    ("max-min-packed", "max_min_fairness_packed", MaxMin(Packed)),
    ("water-filling", "max_min_fairness_water_filling", WaterFilling(Agnostic)),
    ("water-filling-perf", "max_min_fairness_water_filling_perf", WaterFilling(Perf)),
    ("water-filling-packed", "max_min_fairness_water_filling_packed", WaterFilling(Packed)),
    ("ftf", "finish_time_fairness", FinishTime(Agnostic)),
    ("ftf-perf", "finish_time_fairness_perf", FinishTime(Perf)),
    ("ftf-packed", "finish_time_fairness_packed", FinishTime(Packed)),
    ("makespan", "min_total_duration", Makespan(Agnostic)),
    ("makespan-perf", "min_total_duration_perf", Makespan(Perf)),
    ("makespan-packed", "min_total_duration_packed", Makespan(Packed)),
    ("max-throughput-perf", "max_sum_throughput_perf", MaxSum(Worth::Steps, Perf)),
    ("max-throughput-cost-perf", "max_sum_throughput_normalized_by_cost_perf", MaxSum(Worth::Cost, Perf)),
    ("max-throughput-cost-slo-perf", "max_sum_throughput_normalized_by_cost_perf_SLOs", MaxSum(Worth::CostSlo, Perf)),
    ("max-throughput-cost-slo-packed", "max_sum_throughput_normalized_by_cost_packed_SLOs", MaxSum(Worth::CostSlo, Packed)),
    ("allox", "allox", PolicyName::Allox { alpha: 1.0 }),
    ("gandiva", "gandiva", Gandiva),
];

/// The policies in Rota's spelling. `allox` takes a parameter: `allox:alpha=0.5`.
pub const POLICY_NAMES: [&str; NAMES.len()] = {
    let mut names = [""; NAMES.len()];
    let mut index = 0;
    while index < NAMES.len() {
        names[index] = NAMES[index].0;
        index += 1;
    }
    names
};

/// Whether a name is a policy of Gavel's, in its spelling or in ours.
pub fn check_policy(name: &str) -> Result<(), GavelError> {
    PolicyName::parse(name).map(|_| ())
}

impl PolicyName {
    pub fn parse(given: &str) -> Result<Self, GavelError> {
        if let Some((_, _, name)) = NAMES.iter().find(|(ours, theirs, _)| *ours == given || *theirs == given) {
            return Ok(*name);
        }
        if let Some(text) = given.strip_prefix("allox_alpha=").or_else(|| given.strip_prefix("allox:alpha=")) {
            let alpha = text.parse::<f64>().ok().filter(|alpha| alpha.is_finite() && *alpha >= 0.0);
            let alpha =
                alpha.ok_or(GavelError::Parameter { given: given.to_owned(), problem: "alpha must be a number of at least 0" });
            return alpha.map(|alpha| Self::Allox { alpha });
        }
        Err(GavelError::UnknownPolicy { given: given.to_owned(), known: POLICY_NAMES.join(", ") })
    }

    fn awareness(self) -> Awareness {
        match self {
            Isolated | Proportional => Agnostic,
            Self::Allox { .. } => Perf,
            Gandiva => Packed,
            Fifo(awareness)
            | MaxMin(awareness)
            | WaterFilling(awareness)
            | FinishTime(awareness)
            | Makespan(awareness)
            | MaxSum(_, awareness) => awareness,
        }
    }

    /// Whether pairs of jobs exist.
    pub fn packs(self) -> bool {
        self.awareness() == Packed
    }

    /// Whether the order of the types is drawn anew for every round.
    pub fn shuffles_types(self) -> bool {
        self.awareness() == Agnostic
    }

    /// Whether only jobs with a share run.
    pub fn runs_shares_only(self) -> bool {
        matches!(self, Fifo(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_and_the_parameter_of_allox() {
        for (ours, theirs, name) in NAMES {
            assert_eq!((PolicyName::parse(ours), PolicyName::parse(theirs)), (Ok(name), Ok(name)));
        }
        for given in ["allox_alpha=0.5", "allox:alpha=0.5"] {
            assert_eq!(PolicyName::parse(given), Ok(PolicyName::Allox { alpha: 0.5 }));
        }
        for (given, words) in [("las", "is not one that Gavel has"), ("allox_alpha=x", "alpha must be"), ("", "it has fifo")] {
            let message = check_policy(given).unwrap_err().to_string();
            assert!(message.contains(words), "{message}");
        }
    }
}
