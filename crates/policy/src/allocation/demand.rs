//! What an allocation is asked for and what it answers.

use rota_core::JobId;
use rota_solver::SolveError;
use serde::{Deserialize, Serialize};

/// One job as an allocation sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// The job: what allocators with a memory know it by.
    pub id: JobId,
    /// Job type and gang size as a number: the key of pair rates.
    pub class: u32,
    /// Steps per second of the whole gang, alone, on each GPU type; 0 where it cannot be.
    pub rates: Box<[f64]>,
    /// GPUs it holds at once.
    pub gang: f64,
    /// Fair-share weight; 0 leaves it out.
    pub weight: f64,
    /// The steps that the job still has to do.
    pub remaining: f64,
    /// Seconds since its arrival.
    pub age: f64,
    /// Seconds until its deadline, 0 or less if that has passed.
    pub deadline: Option<f64>,
    /// The entity it belongs to, as an index into [`Demand::entities`].
    pub entity: u32,
}

/// Speeds of two classes on the same GPUs.
pub trait PairRates {
    /// Per GPU type the rate of the first and of the second beside each other; none if unknown, or if they cannot share any type.
    fn pair(&self, first: u32, second: u32) -> Option<Box<[(f64, f64)]>>;
}

/// Nobody shares GPUs.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPairs;

impl PairRates for NoPairs {
    fn pair(&self, _first: u32, _second: u32) -> Option<Box<[(f64, f64)]>> {
        None
    }
}

/// How an entity divides its part among its jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntityRule {
    /// The jobs get parts by their weights.
    Fairness,
    /// Everything to the first job that can use more.
    Fifo,
}

/// A group of jobs with a weight of its own.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entity {
    /// Its part against other entities.
    pub weight: f64,
    /// How it divides that part.
    pub rule: EntityRule,
}

/// Everything an allocation depends on.
#[derive(Clone, Copy)]
pub struct Demand<'a> {
    /// What each job claims of the cluster.
    pub claims: &'a [Claim],
    /// GPUs of each type.
    pub gpus: &'a [f64],
    /// Dollars per GPU-hour of each type; only the cost objectives look at them.
    pub prices: &'a [f64],
    /// What is known of jobs that share GPUs.
    pub pairs: &'a dyn PairRates,
    /// The entities of hierarchical sharing; empty means one for all.
    pub entities: &'a [Entity],
}

/// Time that two jobs spend together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairShare {
    /// Index of the one claim.
    pub first: usize,
    /// Index of the other claim.
    pub second: usize,
    /// The GPU type that both are on.
    pub gpu_type: usize,
    /// Fraction of both jobs' time.
    pub share: f64,
}

/// Who should spend which part of its time where.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocation {
    /// Fractions of time alone, claims × types.
    pub shares: Vec<f64>,
    /// Time spent in pairs.
    pub pairs: Vec<PairShare>,
    /// The objective that these shares really give.
    pub objective: f64,
    /// What no allocation can better. Objectives that are made small (finish-time ratio, makespan) have it below them.
    pub upper_bound: f64,
    /// Relative distance between objective and bound, proven.
    pub gap: f64,
    /// Rows solved for, after identical jobs were merged.
    pub rows: usize,
    /// What found it.
    pub solver: &'static str,
}

impl Allocation {
    /// Nobody gets anything, because nobody wants anything.
    pub(super) fn nothing(demand: &Demand<'_>) -> Self {
        Self {
            shares: vec![0.0; demand.claims.len() * demand.gpus.len()],
            pairs: Vec::new(),
            objective: 0.0,
            upper_bound: 0.0,
            gap: 0.0,
            rows: 0,
            solver: "none",
        }
    }
}

/// Relative distance between an objective and the bound on it, whichever is larger.
pub(super) fn relative_gap(objective: f64, bound: f64) -> f64 {
    let scale = objective.abs().max(bound.abs());
    if scale > 0.0 { (bound - objective).abs() / scale } else { 0.0 }
}

fn number(what: &'static str, index: usize, value: f64, fine: bool, wanted: &'static str) -> Result<(), SolveError> {
    if fine { Ok(()) } else { Err(SolveError::Number { what, index, value, wanted }) }
}

const NOT_NEGATIVE: &str = "finite and at least zero";

fn is_not_negative(value: f64) -> bool {
    (0.0..=f64::MAX).contains(&value)
}

impl Demand<'_> {
    /// Refuses numbers no allocation can be made from.
    pub(super) fn check(&self) -> Result<(), SolveError> {
        self.participants().map(drop)
    }

    /// The claims that take part, in order; refuses numbers no allocation can be made from.
    pub(super) fn participants(&self) -> Result<Vec<u32>, SolveError> {
        let types = self.gpus.len();
        if types == 0 {
            return Err(SolveError::Empty("GPU types"));
        }
        for (what, list) in [("GPUs", self.gpus), ("prices", self.prices)] {
            if list.len() != types {
                return Err(SolveError::Shape { what, expected: types, found: list.len() });
            }
            for (index, &value) in list.iter().enumerate() {
                number(what, index, value, is_not_negative(value), NOT_NEGATIVE)?;
            }
        }
        for (index, entity) in self.entities.iter().enumerate() {
            number("entity weight", index, entity.weight, is_not_negative(entity.weight), NOT_NEGATIVE)?;
        }
        let mut participants = Vec::with_capacity(self.claims.len());
        for (index, claim) in self.claims.iter().enumerate() {
            self.check_claim(index, claim)?;
            if self.takes_part(claim) {
                participants.push(index as u32);
            }
        }
        Ok(participants)
    }

    fn check_claim(&self, index: usize, claim: &Claim) -> Result<(), SolveError> {
        let types = self.gpus.len();
        if claim.rates.len() != types {
            return Err(SolveError::Shape { what: "rates of a claim", expected: types, found: claim.rates.len() });
        }
        for (what, values) in [
            ("rates of claim", &*claim.rates),
            ("weight of claim", &[claim.weight]),
            ("remaining steps of claim", &[claim.remaining]),
            ("age of claim", &[claim.age]),
        ] {
            if let Some(&value) = values.iter().find(|value| !is_not_negative(**value)) {
                return number(what, index, value, false, NOT_NEGATIVE);
            }
        }
        number("gang of claim", index, claim.gang, claim.gang.is_finite() && claim.gang > 0.0, "finite and above zero")?;
        if let Some(deadline) = claim.deadline {
            number("deadline of claim", index, deadline, !deadline.is_nan(), "a number")?;
        }
        if !self.entities.is_empty() && claim.entity as usize >= self.entities.len() {
            let found = claim.entity as usize + 1;
            return Err(SolveError::Shape { what: "entity of a claim", expected: self.entities.len(), found });
        }
        Ok(())
    }

    /// Whether a claim takes part: it has weight, and some GPU type serves it.
    pub(super) fn takes_part(&self, claim: &Claim) -> bool {
        claim.weight > 0.0 && claim.rates.iter().zip(self.gpus).any(|(&rate, &gpus)| rate >= f64::MIN_POSITIVE && gpus > 0.0)
    }
}
