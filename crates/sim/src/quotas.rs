//! How many GPUs a user's jobs may ask for at once: further jobs are held, and let go when others of their user have ended.

use rota_core::{JobId, Renumbering};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// GPUs that one user may have at once, where there is a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaLimits {
    /// The limit of users that are not named.
    pub usual: Option<u32>,
    /// The limits of single users.
    pub of_user: HashMap<Box<str>, Option<u32>>,
}

impl QuotaLimits {
    /// The same limit for every user.
    pub fn of_all(most: Option<u32>) -> Self {
        Self { usual: most, of_user: HashMap::new() }
    }

    fn of(&self, user: &str) -> u32 {
        self.of_user.get(user).copied().unwrap_or(self.usual).unwrap_or(u32::MAX)
    }
}

/// Held jobs in the order in which they are let go.
type Order = (Reverse<i32>, JobId);

/// The jobs of one user.
#[derive(Clone, Debug, Default)]
struct User {
    /// GPUs of the jobs that wait or run and are not held.
    gpus_in_play: u32,
    /// Held jobs, by the GPUs that they ask for.
    held: BTreeMap<u32, BTreeSet<Order>>,
}

/// Which jobs are held because their user has as many GPUs as one user may have.
#[derive(Clone, Debug, Default)]
pub struct Quotas {
    limits: QuotaLimits,
    users: HashMap<Box<str>, User>,
}

impl Quotas {
    /// Nobody has a job yet.
    pub fn new(limits: QuotaLimits) -> Self {
        Self { limits, users: HashMap::new() }
    }

    /// A job takes its GPUs from what its user may have, whether there is room or not.
    pub fn count(&mut self, user: &str, gpus: u32) {
        self.user(user).gpus_in_play += gpus;
    }

    /// A job comes. Gives whether it is let in; otherwise it is held. A job that is wider than its user's quota is let in when it is its
    /// user's only one.
    pub fn comes(&mut self, user: &str, gpus: u32, priority: i32, job: JobId) -> bool {
        let is_let_in = gpus <= self.room(user);
        if is_let_in {
            self.count(user, gpus);
        } else {
            self.hold(user, gpus, priority, job);
        }
        is_let_in
    }

    /// A job is held.
    pub fn hold(&mut self, user: &str, gpus: u32, priority: i32, job: JobId) {
        self.user(user).held.entry(gpus).or_default().insert((Reverse(priority), job));
    }

    /// A job is over. One that was held took no GPUs of its user's. The jobs that are let go because of it are added to a list.
    pub fn ends(&mut self, user: &str, gpus: u32, priority: i32, job: JobId, let_go: &mut Vec<JobId>) {
        let user_of = self.user(user);
        if user_of.held.get_mut(&gpus).is_some_and(|held| held.remove(&(Reverse(priority), job))) {
            return;
        }
        user_of.gpus_in_play = user_of.gpus_in_play.saturating_sub(gpus);
        while let Some(next) = self.let_next_go(user) {
            let_go.push(next);
        }
    }

    fn let_next_go(&mut self, user: &str) -> Option<JobId> {
        let room = self.room(user);
        let user = self.users.get_mut(user)?;
        let fits = user.held.range(..=room);
        let (order, gpus) = fits.filter_map(|(gpus, held)| Some((*held.first()?, *gpus))).min()?;
        user.gpus_in_play += gpus;
        user.held.get_mut(&gpus)?.remove(&order);
        Some(order.1)
    }

    /// GPUs that a user's next job may ask for.
    fn room(&self, user: &str) -> u32 {
        match self.users.get(user) {
            Some(known) if known.gpus_in_play > 0 => self.limits.of(user).saturating_sub(known.gpus_in_play),
            _ => u32::MAX,
        }
    }

    fn user(&mut self, user: &str) -> &mut User {
        self.users.entry(user.into()).or_default()
    }

    /// Jobs have other rows from now on.
    pub fn renumber(&mut self, rows: &Renumbering) {
        for held in self.users.values_mut().flat_map(|user| user.held.values_mut()) {
            *held = held.iter().filter_map(|(order, job)| Some((*order, rows.new_of(*job)?))).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_no_more_than_the_quota_and_important_jobs_are_let_go_first() {
        let mut quotas = Quotas::new(QuotaLimits { usual: Some(4), of_user: HashMap::from([("bob".into(), None)]) });
        assert!(quotas.comes("ada", 3, 0, JobId(0)) && !quotas.comes("ada", 2, 0, JobId(1)));
        assert!(!quotas.comes("ada", 2, 5, JobId(2)), "it is more important, and there is no room for it either");
        assert!(quotas.comes("ada", 1, 0, JobId(3)), "a small job fits beside the large one");
        assert!((10..20).all(|job| quotas.comes("bob", 8, 0, JobId(job))), "bob has no limit");
        let mut let_go = Vec::new();
        quotas.ends("ada", 1, 0, JobId(3), &mut let_go);
        assert_eq!(let_go, [], "two GPUs do not fit beside three");
        quotas.ends("ada", 2, 0, JobId(1), &mut let_go);
        assert_eq!(let_go, [], "a held job that is cancelled frees nothing");
        quotas.ends("ada", 3, 0, JobId(0), &mut let_go);
        assert_eq!(let_go, [JobId(2)]);
    }

    #[test]
    fn a_job_that_is_wider_than_the_quota_runs_alone() {
        let mut quotas = Quotas::new(QuotaLimits::of_all(Some(2)));
        assert!(quotas.comes("ada", 1, 0, JobId(0)) && !quotas.comes("ada", 8, 0, JobId(1)));
        let mut let_go = Vec::new();
        quotas.ends("ada", 1, 0, JobId(0), &mut let_go);
        assert_eq!(let_go, [JobId(1)]);
        assert!(!quotas.comes("ada", 1, 0, JobId(2)));
    }
}
