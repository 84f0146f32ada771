//! Credit: what a job or pair should get of each GPU type's time, and what it is owed of it.

use rota_core::{GpuTypeId, JobId};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// Rounds of credit a job begins with, so that whoever is new soon has a turn: most jobs are short.
const FIRST_ROUNDS: f64 = 2.0;
/// Rounds of credit a job can be behind, and ahead.
const OWED_ROUNDS_MAX: f64 = 5.0;
const AHEAD_ROUNDS_MAX: f64 = 20.0;
/// What a turn is worth, in rounds of credit, to a job whose share is all of its time: it can never catch up.
const URGENT_ROUNDS: f64 = 10.0;

/// One number a GPU type.
pub type PerType = SmallVec<[f64; 4]>;

/// Shares earn credit as time passes, running spends it; both by GPU type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// The job, or the first of a pair.
    pub job: JobId,
    /// The second of a pair.
    pub partner: Option<JobId>,
    shares: PerType,
    credit_seconds: PerType,
    urgent_rounds: f64,
    is_shut: bool,
}

impl Account {
    /// An account with its first credit, for each type by its share.
    pub fn open(job: JobId, partner: Option<JobId>, shares: PerType, round_seconds: f64) -> Self {
        let whole = shares.iter().sum::<f64>();
        let rounds = if whole > 0.0 { whole.max(FIRST_ROUNDS) / whole } else { 0.0 };
        let credit_seconds = shares.iter().map(|share| share * rounds * round_seconds).collect();
        let mut account = Self { job, partner, shares, credit_seconds, urgent_rounds: 0.0, is_shut: false };
        account.note_urgency();
        account
    }

    /// An account without credit, of a job none of whose GPUs is there. It gets its first credit when they are: otherwise jobs that came later
    /// would be before it.
    pub fn shut(job: JobId, types: usize) -> Self {
        Self { is_shut: true, ..Self::open(job, None, PerType::from_elem(0.0, types), 0.0) }
    }

    /// Whether none of the job's GPUs was there until now.
    pub fn is_shut(&self) -> bool {
        self.is_shut
    }

    /// The same account with other shares: what is owed stays owed.
    pub fn renew(&mut self, shares: PerType) {
        self.shares = shares;
        self.note_urgency();
    }

    fn note_urgency(&mut self) {
        self.urgent_rounds = if self.shares.iter().sum::<f64>() >= 0.999 { URGENT_ROUNDS } else { 0.0 };
    }

    /// Books some time, and where it was run if it was.
    pub fn accrue(&mut self, seconds: f64, ran: Option<(GpuTypeId, f64)>, round_seconds: f64) {
        let credits = self.credit_seconds.as_mut_slice();
        if let Some((gpu_type, spent)) = ran {
            credits[gpu_type.index()] -= spent;
        }
        for (credit, share) in credits.iter_mut().zip(self.shares.as_slice()) {
            *credit = (*credit + share * seconds).clamp(-AHEAD_ROUNDS_MAX * round_seconds, OWED_ROUNDS_MAX * round_seconds);
        }
    }

    /// Its jobs have other rows from now on; says whether both still have one.
    pub fn renumber(&mut self, rows: &rota_core::Renumbering) -> bool {
        let (job, partner) = (rows.new_of(self.job), self.partner.map(|partner| rows.new_of(partner)));
        self.job = job.unwrap_or(self.job);
        self.partner = partner.flatten();
        job.is_some() && partner.is_none_or(|partner| partner.is_some())
    }

    /// Rounds that a turn on this type now pays back, for one that has `stay` rounds of reason to be there already.
    #[inline]
    pub fn owed_rounds(&self, gpu_type: usize, stay: f64, round_seconds: f64) -> f64 {
        let owed = (self.credit_seconds[gpu_type] / round_seconds + stay + self.urgent_rounds).max(0.0);
        if self.shares[gpu_type] > 0.0 { owed } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_passed_over_is_owed_and_who_runs_pays() {
        let mut account = Account::open(JobId(0), None, PerType::from_slice(&[0.5, 0.0]), 360.0);
        assert!((account.owed_rounds(0, 0.0, 360.0) - FIRST_ROUNDS).abs() < 1e-12, "who is new");
        account.accrue(720.0, None, 360.0);
        assert!((account.owed_rounds(0, 0.0, 360.0) - FIRST_ROUNDS - 1.0).abs() < 1e-12);
        account.accrue(360.0, Some((GpuTypeId(0), 360.0)), 360.0);
        assert!((account.owed_rounds(0, 0.0, 360.0) - FIRST_ROUNDS - 0.5).abs() < 1e-12);
        assert!(account.owed_rounds(1, 5.0, 360.0) <= 0.0, "no share, no credit");
        account.renew(PerType::from_slice(&[0.0, 1.0]));
        assert!(account.owed_rounds(1, 0.0, 360.0) >= URGENT_ROUNDS, "all of its time");
        account.accrue(1e9, None, 360.0);
        assert!(account.owed_rounds(1, 0.0, 360.0) <= URGENT_ROUNDS + OWED_ROUNDS_MAX);
    }
}
