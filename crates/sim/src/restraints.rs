//! A simulated world in which jobs are held, as in the daemon: for a time that is known, or because their user has as many GPUs as one
//! user may have. A job that is held by its quota is let go when others of its user have ended.

use crate::SimulatedWorld;
use rota_core::event::EventKind;
use rota_core::{Event, Hold, JobId, Name, Plan, Time};
use rota_engine::{Moment, State, Step, Wait, World};
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

/// What keeps jobs from starting beside a lack of GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restraints {
    /// GPUs that one user may have at once.
    pub gpus_per_user_max: Option<u32>,
    /// Jobs that are held from their arrival until a moment.
    pub held_until: Vec<(JobId, Time)>,
}

/// The simulated world, with restraints.
#[derive(Clone)]
pub struct RestrainedWorld {
    inner: SimulatedWorld,
    gpus_max: u32,
    /// Jobs that are held until a moment, and have not arrived.
    held_until: HashMap<JobId, Time>,
    /// When held jobs are let go.
    releases: BTreeSet<(Time, JobId)>,
    /// GPUs of each user's jobs that wait or run and are not held.
    in_play: HashMap<Name, u32>,
    /// Held jobs, in the order in which they are let go.
    held: BTreeSet<(Reverse<i32>, JobId)>,
}

impl RestrainedWorld {
    /// The same world with restraints. A job that is wider than its user's quota is let in when it is its user's only one.
    pub fn new(inner: SimulatedWorld, restraints: &Restraints) -> Self {
        Self {
            inner,
            gpus_max: restraints.gpus_per_user_max.unwrap_or(u32::MAX),
            held_until: restraints.held_until.iter().copied().collect(),
            releases: BTreeSet::new(),
            in_play: HashMap::new(),
            held: BTreeSet::new(),
        }
    }

    fn has_room(&self, user: Name, gpus: u32) -> bool {
        let in_play = self.in_play.get(&user).copied().unwrap_or(0);
        in_play == 0 || in_play.saturating_add(gpus) <= self.gpus_max
    }

    /// Follows what happened: new jobs are let in or held, and ends let held jobs go.
    fn follow(&mut self, state: &State, events: &mut Vec<Event>) {
        let now = self.inner.now();
        let mut held = Vec::new();
        let mut held_by_user = Vec::new();
        let mut has_ended = false;
        for event in events.iter() {
            match event.kind {
                EventKind::Submitted { job } => {
                    let spec = state.bound.job(job);
                    if let Some(until) = self.held_until.remove(&job).filter(|until| *until > now) {
                        self.releases.insert((until, job));
                        held_by_user.push(job);
                    }
                    if self.has_room(spec.user, spec.gpus) {
                        *self.in_play.entry(spec.user).or_default() += spec.gpus;
                    } else {
                        self.held.insert((Reverse(spec.priority), job));
                        held.push(job);
                    }
                }
                EventKind::Ended { job, end, .. } if end.is_over() => {
                    let spec = state.bound.job(job);
                    // A job that ends without having been let in took no GPUs of its user's.
                    if !self.held.remove(&(Reverse(spec.priority), job)) {
                        let in_play = self.in_play.entry(spec.user).or_default();
                        *in_play = in_play.saturating_sub(spec.gpus);
                        has_ended = true;
                    }
                }
                _ => {}
            }
        }
        events.extend(held.iter().map(|&job| Event::at(now, EventKind::Held { job, hold: Hold::Quota, note: () })));
        events.extend(held_by_user.iter().map(|&job| Event::at(now, EventKind::Held { job, hold: Hold::User, note: () })));
        if has_ended && !self.held.is_empty() {
            let waiting = self.held.iter().copied().filter(|(_, job)| !held.contains(job)).collect::<Vec<_>>();
            for (order, job) in waiting {
                let spec = state.bound.job(job);
                if self.has_room(spec.user, spec.gpus) {
                    *self.in_play.entry(spec.user).or_default() += spec.gpus;
                    self.held.remove(&(order, job));
                    events.push(Event::at(now, EventKind::Released { job, hold: Hold::Quota, note: () }));
                }
            }
        }
    }
}

impl World for RestrainedWorld {
    fn now(&self) -> Time {
        self.inner.now()
    }

    fn pace(&mut self, job: JobId, end: Time) {
        self.inner.pace(job, end);
    }

    fn poll(&mut self, state: &State, wait: Wait, events: &mut Vec<Event>) -> Step {
        let release = self.releases.first().map(|(at, _)| *at);
        let wait = Wait { until: wait.until.into_iter().chain(release).min(), ..wait };
        let step = self.inner.poll(state, wait, events);
        self.follow(state, events);
        while let Some(&(at, job)) = self.releases.first()
            && at <= self.inner.now()
        {
            self.releases.pop_first();
            events.push(Event::at(self.inner.now(), EventKind::Released { job, hold: Hold::User, note: () }));
        }
        step
    }

    fn apply(&mut self, plan: &Plan, decision: Option<Moment>, state: &State, events: &mut Vec<Event>) {
        self.inner.apply(plan, decision, state, events);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimOptions;
    use rota_core::bind::BadJobs;
    use rota_core::{Bound, Cluster, Job, Span, ThroughputTable, Workload};
    use rota_engine::{Engine, Session};
    use std::sync::Arc;

    #[test]
    fn no_user_has_more_than_the_quota_at_once_and_every_job_runs() {
        let mut workload = Workload::new("two users");
        let (ada, bob) = (workload.names.intern("ada"), workload.names.intern("bob"));
        for number in 0..12 {
            let user = if number % 3 == 0 { bob } else { ada };
            let arrival = Time::from_seconds(f64::from(number)).unwrap();
            workload.push(Job { user, gpus: 1 + number % 2, ..Job::new(arrival, Span::from_whole_seconds(50)) });
        }
        workload.finish();
        let cluster = Cluster::from_spec("gpu:8", 8).unwrap();
        let bound = Arc::new(Bound::new(workload, cluster, &ThroughputTable::default(), BadJobs::Refuse).unwrap());
        let options = SimOptions::default();
        let engine = Engine::new(Arc::clone(&bound), rota_policy::build("fcfs").unwrap(), &options.engine());
        let held_until = vec![(JobId(1), Time::from_seconds(400.0).unwrap())];
        let restraints = Restraints { gpus_per_user_max: Some(2), held_until };
        let world = RestrainedWorld::new(SimulatedWorld::new(Arc::clone(&bound), &options), &restraints);
        let (mut running, mut ended) = (HashMap::<Name, u32>::new(), 0);
        Session::new(engine, world).run(
            &mut |event| match &event.kind {
                EventKind::Started { job, .. } => {
                    let has = running.entry(bound.job(*job).user).or_default();
                    *has += bound.job(*job).gpus;
                    assert!(*has <= 2, "a user has {has} GPUs");
                    assert!(job.0 != 1 || event.time_ns.seconds() >= 400.0, "job 1 was held until second 400");
                }
                EventKind::Ended { job, .. } => {
                    *running.entry(bound.job(*job).user).or_default() -= bound.job(*job).gpus;
                    ended += 1;
                }
                _ => {}
            },
            &|| 0.0,
        );
        assert_eq!(ended, 12);
    }
}
