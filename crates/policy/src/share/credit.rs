//! Credit: what a job or pair should get of each GPU type's time, and what it is owed of it.

use rota_core::{GpuTypeId, JobId};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// Rounds of credit a job begins with, so that whoever is new soon has a turn: most jobs are short.
const FIRST_ROUNDS: f64 = 2.0;
/// Rounds of credit a job can be behind, and ahead.
const OWED_ROUNDS_MAX: f64 = 5.0;
const AHEAD_ROUNDS_MAX: f64 = 20.0;
/// Rounds from an account's opening in which it is made anew with every allocation where turns are even. Speeds that nobody knew at first
/// are known by then.
const EARLY_ROUNDS: f64 = 10.0;
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
    /// Since the account was opened.
    age_seconds: f64,
    /// What the job ran on each type since then.
    ran_seconds: PerType,
}

impl Account {
    /// An account with its first credit, for each type by its share.
    pub fn open(job: JobId, partner: Option<JobId>, shares: PerType, round_seconds: f64) -> Self {
        let whole = shares.iter().sum::<f64>();
        let rounds = if whole > 0.0 { whole.max(FIRST_ROUNDS) / whole } else { 0.0 };
        let credit_seconds = shares.iter().map(|share| share * rounds * round_seconds).collect();
        let ran_seconds = PerType::from_elem(0.0, shares.len());
        let (urgent_rounds, is_shut, age_seconds) = (0.0, false, 0.0);
        let mut account = Self { job, partner, shares, credit_seconds, urgent_rounds, is_shut, age_seconds, ran_seconds };
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

    /// Whether allocations still change often, because jobs that came together came one by one, or because speeds are being found out.
    pub fn is_early(&self, round_seconds: f64) -> bool {
        self.age_seconds <= EARLY_ROUNDS * round_seconds
    }

    /// The account as it would be had it been opened with these shares: they are earned from its first moment on, and what the job ran on
    /// types of which it has no share counts by what it got done there. Otherwise shares that nobody would stand by now, and a trial on a GPU
    /// type that is not the job's, would put it ahead or behind for good.
    pub fn reopen(&mut self, shares: PerType, speeds: &[f64], round_seconds: f64) {
        let mut account = Self::open(self.job, self.partner, shares, round_seconds);
        let rate = account.shares.iter().zip(speeds).map(|(share, speed)| share * speed).sum::<f64>();
        let mut earned_seconds = self.age_seconds;
        for (gpu_type, &ran) in self.ran_seconds.iter().enumerate() {
            if account.shares[gpu_type] <= 0.0 && rate > 0.0 {
                earned_seconds -= ran * speeds[gpu_type] / rate;
            } else {
                account.credit_seconds[gpu_type] -= ran;
            }
        }
        for (credit, share) in account.credit_seconds.iter_mut().zip(&account.shares) {
            *credit += share * earned_seconds;
        }
        account.age_seconds = self.age_seconds;
        account.ran_seconds = std::mem::take(&mut self.ran_seconds);
        *self = account;
    }

    /// The part of all time that the job should run.
    pub fn share(&self) -> f64 {
        self.shares.iter().sum::<f64>().min(1.0)
    }

    fn note_urgency(&mut self) {
        self.urgent_rounds = if self.shares.iter().sum::<f64>() >= 0.999 { URGENT_ROUNDS } else { 0.0 };
    }

    /// Books some time, and where it was run if it was.
    pub fn accrue(&mut self, seconds: f64, ran: Option<(GpuTypeId, f64)>, round_seconds: f64) {
        self.age_seconds += seconds;
        let credits = self.credit_seconds.as_mut_slice();
        if let Some((gpu_type, spent)) = ran {
            credits[gpu_type.index()] -= spent;
            self.ran_seconds[gpu_type.index()] += spent;
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

    #[test]
    fn an_account_that_is_reopened_is_as_if_its_shares_had_always_been_these() {
        let speeds = [4.0, 2.0];
        let always = |runs: &[Option<(GpuTypeId, f64)>]| {
            let mut account = Account::open(JobId(0), None, PerType::from_slice(&[0.25, 0.0]), 10.0);
            for ran in runs {
                account.accrue(10.0, *ran, 10.0);
            }
            account
        };
        // Its first shares were wrong. It waited for a round, ran on its own type for one, and on the other type for one.
        let mut account = Account::open(JobId(0), None, PerType::from_slice(&[0.0, 0.5]), 10.0);
        for ran in [None, Some((GpuTypeId(0), 10.0)), Some((GpuTypeId(1), 10.0))] {
            account.accrue(10.0, ran, 10.0);
        }
        account.reopen(PerType::from_slice(&[0.25, 0.0]), &speeds, 10.0);
        // Half as fast there, the round on the other type was worth half a round on its own.
        let expected = always(&[None, Some((GpuTypeId(0), 10.0)), Some((GpuTypeId(0), 5.0))]);
        assert!((account.owed_rounds(0, 0.0, 10.0) - expected.owed_rounds(0, 0.0, 10.0)).abs() < 1e-12, "{account:?}");
        assert!(account.owed_rounds(1, 0.0, 10.0) <= 0.0);
        let before = account.clone();
        account.reopen(PerType::from_slice(&[0.25, 0.0]), &speeds, 10.0);
        let differs = |(one, other): (&f64, &f64)| (one - other).abs() > 1e-12;
        assert!(!account.credit_seconds.iter().zip(&before.credit_seconds).any(differs), "the same again: {account:?}");
        assert!(account.is_early(10.0) && !account.is_early(2.0));
    }
}
