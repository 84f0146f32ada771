//! A simulated world in which jobs are held, as in the daemon: for a time that is known, or because their user has as many GPUs as one
//! user may have. A job that is held by its quota is let go when others of its user have ended.

use crate::SimulatedWorld;
use crate::quotas::{QuotaLimits, Quotas};
use rota_core::event::EventKind;
use rota_core::{Event, Hold, JobId, Plan, Time};
use rota_engine::{Moment, State, Step, Wait, World};
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
    quotas: Quotas,
    /// Jobs that are held from their arrival until a moment.
    held_until: HashMap<JobId, Time>,
    /// When held jobs are let go.
    releases: BTreeSet<(Time, JobId)>,
}

impl RestrainedWorld {
    /// The same world with restraints.
    pub fn new(inner: SimulatedWorld, restraints: &Restraints) -> Self {
        Self {
            inner,
            quotas: Quotas::new(QuotaLimits::of_all(restraints.gpus_per_user_max)),
            held_until: restraints.held_until.iter().copied().collect(),
            releases: BTreeSet::new(),
        }
    }

    /// Follows what happened: new jobs are let in or held, and ends let held jobs go. A job that its user holds does not count against the
    /// quota until it is let go.
    fn follow(&mut self, state: &State, events: &mut Vec<Event>) {
        let now = self.inner.now();
        let (mut held, mut let_go) = (Vec::new(), Vec::new());
        for event in events.iter() {
            match event.kind {
                EventKind::Submitted { job } => match self.held_until.get(&job).copied().filter(|until| *until > now) {
                    Some(until) => {
                        self.releases.insert((until, job));
                        held.push((job, Hold::User));
                    }
                    None if !self.comes(job, state) => held.push((job, Hold::Quota)),
                    None => {}
                },
                EventKind::Ended { job, end, .. } if end.is_over() => {
                    let spec = state.bound.job(job);
                    let user = state.bound.names.text(spec.user);
                    // A job that was held to its end took no GPUs.
                    if self.held_until.get(&job).is_none_or(|until| *until <= now) {
                        self.quotas.ends(user, spec.gpus, spec.priority, job, &mut let_go);
                    }
                }
                _ => {}
            }
        }
        events.extend(held.into_iter().map(|(job, hold)| Event::at(now, EventKind::Held { job, hold, note: () })));
        events.extend(let_go.into_iter().map(|job| Event::at(now, EventKind::Released { job, hold: Hold::Quota, note: () })));
    }

    /// Whether a job is let in.
    fn comes(&mut self, job: JobId, state: &State) -> bool {
        let spec = state.bound.job(job);
        self.quotas.comes(state.bound.names.text(spec.user), spec.gpus, spec.priority, job)
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
            // The quota may hold it from now on.
            if !self.comes(job, state) {
                events.push(Event::at(self.inner.now(), EventKind::Held { job, hold: Hold::Quota, note: () }));
            }
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
    use rota_core::{Bound, Cluster, Job, Name, Span, ThroughputTable, Workload};
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
