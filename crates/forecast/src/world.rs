//! A simulated world in which the scheduler hears of jobs only when they arrive, as it does in a live queue.
//!
//! The lengths of jobs are those of the state's own tables, so that a forecast can draw them. Jobs that are asked to stop leave after a set
//! time. Nodes neither fail nor return.

use crate::arrivals::DrawnArrivals;
use rota_core::event::EventKind;
use rota_core::{Dependency, End, Event, JobId, NewJob, Phase, Plan, Renumbering, Span, Time};
use rota_engine::{Moment, State, Step, Wait, World};
use rota_sim::{Ends, carry_out, end_of};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
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
    stop_time: Span,
    /// The number of the job of each row.
    numbers: Vec<u64>,
}

impl ArrivingWorld {
    /// A world that goes on from a state: what waits, runs and leaves there does so here. `numbers` are those of the state's rows, and
    /// `arrivals` come in the order of their time.
    pub fn going_on(state: &State, now: Time, numbers: Vec<u64>, arrivals: Arc<[Arrival]>, stop_time: Span) -> Self {
        let (ends, leaving) = (Ends::default(), BinaryHeap::new());
        let mut world = Self { now, arrivals, next: 0, drawn: None, ends, leaving, stop_time, numbers };
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
        let leaving = std::mem::take(&mut self.leaving).into_iter();
        self.leaving = leaving.filter_map(|Reverse((at, job))| Some(Reverse((at, rows.new_of(job)?)))).collect();
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
            let job = JobId::from_index(self.numbers.len());
            self.numbers.push(arrival.number);
            self.next += 1;
            events.push(Event::at(self.now, EventKind::Admitted { job, request: Box::new(request) }));
        }
        while let Some(drawn) = &mut self.drawn
            && drawn.next_at().is_some_and(|at| at <= self.now)
        {
            let Some((number, request)) = drawn.take() else { break };
            let job = JobId::from_index(self.numbers.len());
            self.numbers.push(number);
            events.push(Event::at(self.now, EventKind::Admitted { job, request: Box::new(request) }));
        }
    }

    fn next_moment(&self) -> Option<Time> {
        let arrival = self.arrivals.get(self.next).map(|arrival| arrival.request.job.arrival);
        let gone = self.leaving.peek().map(|Reverse((at, _))| *at);
        let end = self.ends.first().map(|(at, _)| at);
        let drawn = self.drawn.as_ref().and_then(DrawnArrivals::next_at);
        arrival.into_iter().chain(drawn).chain(gone).chain(end).min()
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
                events.push(Event::at(self.now, EventKind::ended(job, End::Preempted)));
            }
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
