//! A simulated world in which the scheduler hears of jobs only when they arrive, as it does in a live queue.
//!
//! The lengths of jobs are those of the state's own tables, so that a forecast can draw them. Jobs that are asked to stop leave after a set
//! time. Jobs that are held for a known time, or by their user's quota, are let go as in the queue. Nodes neither fail nor return.

use crate::arrivals::DrawnArrivals;
use crate::holds::{Holds, UserQuotas};
use rota_core::event::EventKind;
use rota_core::{Dependency, End, Event, Hold, JobId, NewJob, Phase, Plan, Renumbering, Span, Time};
use rota_engine::{Moment, State, Step, Wait, World};
use rota_sim::{Ends, carry_out, end_of};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

/// A job that will arrive. The jobs it waits for are named by their numbers, because rows change.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Its number, which no other job of this world has.
    pub number: u64,
    /// What it asks for. Its dependencies are left empty here.
    pub request: NewJob,
    /// The jobs that it waits for, by number, with what must have become of them.
    pub after: Vec<(u64, rota_core::DependencyCondition)>,
}

/// The clock, the runs and the arrivals.
#[derive(Clone)]
pub struct ArrivingWorld {
    now: Time,
    arrivals: Arc<[Arrival]>,
    next: usize,
    /// Jobs that are drawn from recent ones, beside those that are known to come.
    drawn: Option<DrawnArrivals>,
    ends: Ends,
    leaving: BinaryHeap<Reverse<(Time, JobId)>>,
    /// Jobs that are stopping and will not wait again, with how they end.
    stopped_for_good: HashMap<JobId, End>,
    quotas: UserQuotas,
    /// When jobs are let go that are held for a known time.
    releases: BinaryHeap<Reverse<(Time, JobId)>>,
    stop_time: Span,
    /// The number of the job of each row.
    numbers: Vec<u64>,
}

impl ArrivingWorld {
    /// A world that goes on from a state: what waits, runs and leaves there does so here. `numbers` are those of the state's rows, and
    /// `arrivals` come in the order of their time.
    pub fn going_on(state: &State, now: Time, numbers: Vec<u64>, arrivals: Arc<[Arrival]>, stop_time: Span) -> Self {
        let mut world = Self {
            now,
            arrivals,
            next: 0,
            drawn: None,
            ends: Ends::default(),
            leaving: BinaryHeap::new(),
            stopped_for_good: HashMap::new(),
            quotas: UserQuotas::default(),
            releases: BinaryHeap::new(),
            stop_time,
            numbers,
        };
        for (index, job) in state.jobs.iter().enumerate() {
            let id = JobId::from_index(index);
            match job.phase {
                Phase::Running => world.ends.set(id, state.end_of_run(id).max(now)),
                Phase::Stopping => world.leaving.push(Reverse((now + stop_time, id))),
                _ => {}
            }
        }
        world
    }

    /// The same world, in which further jobs come.
    #[must_use]
    pub fn with_drawn(self, drawn: Option<DrawnArrivals>) -> Self {
        Self { drawn, ..self }
    }

    /// The same world, in which these jobs are held or stopping as it is said.
    #[must_use]
    pub fn with_holds(mut self, holds: &Holds, state: &State) -> Self {
        self.quotas = UserQuotas::new(holds, state);
        self.releases = holds.until.iter().map(|(at, job)| Reverse((*at, *job))).collect();
        self.stopped_for_good = holds.stopped_for_good.iter().copied().collect();
        self
    }

    /// A job is withdrawn. Others of its user may have its GPUs.
    pub fn withdrawn(&mut self, job: JobId, state: &State) -> Vec<Event> {
        let mut let_go = Vec::new();
        self.quotas.ends(job, state, &mut let_go);
        self.let_go(let_go).collect()
    }

    fn let_go(&self, jobs: Vec<JobId>) -> impl Iterator<Item = Event> + use<> {
        let now = self.now;
        jobs.into_iter().map(move |job| Event::at(now, EventKind::Released { job, hold: Hold::Quota, note: () }))
    }

    /// A job is admitted, and held if its user has as many GPUs as one user may have.
    fn admit(&mut self, number: u64, request: NewJob, events: &mut Vec<Event>) {
        let job = JobId::from_index(self.numbers.len());
        self.numbers.push(number);
        let is_let_in = self.quotas.comes(&request, job);
        events.push(Event::at(self.now, EventKind::Admitted { job, request: Box::new(request) }));
        if !is_let_in {
            events.push(Event::at(self.now, EventKind::Held { job, hold: Hold::Quota, note: () }));
        }
    }

    /// The number of each row's job.
    pub fn numbers(&self) -> &[u64] {
        &self.numbers
    }

    /// How many arrivals were told.
    pub fn arrived(&self) -> usize {
        self.next
    }

    /// Jobs have other rows from now on.
    pub fn renumber(&mut self, rows: &Renumbering) {
        rows.keep(&mut self.numbers);
        self.ends.renumber(rows);
        self.quotas.renumber(rows);
        for timed in [&mut self.leaving, &mut self.releases] {
            let before = std::mem::take(timed).into_iter();
            *timed = before.filter_map(|Reverse((at, job))| Some(Reverse((at, rows.new_of(job)?)))).collect();
        }
        let before = std::mem::take(&mut self.stopped_for_good).into_iter();
        self.stopped_for_good = before.filter_map(|(job, end)| Some((rows.new_of(job)?, end))).collect();
    }

    fn arrive(&mut self, events: &mut Vec<Event>) {
        while let Some(arrival) = self.arrivals.get(self.next)
            && arrival.request.job.arrival <= self.now
        {
            let mut request = arrival.request.clone();
            let row = |number: u64| self.numbers.iter().rposition(|known| *known == number).map(JobId::from_index);
            let after = arrival
                .after
                .iter()
                .filter_map(|(number, condition)| Some(Dependency { job: row(*number)?, condition: *condition }));
            request.job.after = after.collect();
            let number = arrival.number;
            self.next += 1;
            self.admit(number, request, events);
        }
        while let Some(drawn) = &mut self.drawn
            && drawn.next_at().is_some_and(|at| at <= self.now)
        {
            let Some((number, request)) = drawn.take() else { break };
            self.admit(number, request, events);
        }
    }

    fn next_moment(&self) -> Option<Time> {
        let arrival = self.arrivals.get(self.next).map(|arrival| arrival.request.job.arrival);
        let gone = self.leaving.peek().map(|Reverse((at, _))| *at);
        let end = self.ends.first().map(|(at, _)| at);
        let drawn = self.drawn.as_ref().and_then(DrawnArrivals::next_at);
        let release = self.releases.peek().map(|Reverse((at, _))| *at);
        [arrival, drawn, gone, end, release].into_iter().flatten().min()
    }
}

impl World for ArrivingWorld {
    fn now(&self) -> Time {
        self.now
    }

    fn pace(&mut self, job: JobId, end: Time) {
        self.ends.set(job, end);
    }

    fn poll(&mut self, state: &State, wait: Wait, events: &mut Vec<Event>) -> Step {
        // The end of a job that was stopped is void until it starts again, which sets it anew.
        while let Some((_, job)) = self.ends.first()
            && !state.jobs[job.index()].phase.has_gpus()
        {
            self.ends.pop();
        }
        let news = wait.has_news.then_some(self.now);
        let Some(now) = self.next_moment().into_iter().chain(wait.until).chain(news).min() else { return Step::Over };
        self.now = self.now.max(now);
        while let Some((at, job)) = self.ends.first()
            && at <= self.now
        {
            self.ends.pop();
            if state.jobs[job.index()].phase.has_gpus() {
                events.push(Event::at(self.now, EventKind::ended(job, end_of(job, state))));
            }
        }
        while let Some(&Reverse((at, job))) = self.leaving.peek()
            && at <= self.now
        {
            self.leaving.pop();
            let has_ended = events.iter().any(|event| event.kind.job() == Some(job));
            if state.jobs[job.index()].phase == Phase::Stopping && !has_ended {
                let end = self.stopped_for_good.remove(&job).unwrap_or(End::Preempted);
                events.push(Event::at(self.now, EventKind::ended(job, end)));
            }
        }
        let mut let_go = Vec::new();
        for event in events.iter() {
            if let EventKind::Ended { job, end, .. } = &event.kind
                && end.is_over()
            {
                self.quotas.ends(*job, state, &mut let_go);
            }
        }
        events.extend(self.let_go(let_go));
        while let Some(&Reverse((at, job))) = self.releases.peek()
            && at <= self.now
        {
            self.releases.pop();
            events.push(Event::at(self.now, EventKind::Released { job, hold: Hold::Delay, note: () }));
        }
        self.arrive(events);
        Step::Decide(self.now)
    }

    fn apply(&mut self, plan: &Plan, _: Option<Moment>, state: &State, events: &mut Vec<Event>) {
        let now = self.now;
        carry_out(plan, state, now, self.stop_time, events);
        if self.stop_time > Span::ZERO {
            self.leaving.extend(plan.stops.iter().map(|&job| Reverse((now + self.stop_time, job))));
        }
    }
}
