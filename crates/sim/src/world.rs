//! The clock, the jobs and the nodes of a simulation.

use crate::SimOptions;
use crate::ends::Ends;
use crate::outcome::{carry_out, end_of};
use rota_core::event::EventKind;
use rota_core::random::RandomStream;
use rota_core::{Bound, End, Event, JobId, NodeId, Phase, Plan, Span, Time};
use rota_engine::{Moment, State, Step, Wait, World};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// What is known to happen. The order of the variants is the order at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ahead {
    /// A job that was asked to stop is gone.
    Stopped(JobId),
    NodeReturned(NodeId),
    NodeLost(NodeId),
}

/// Arrivals come from the workload, the ends of jobs and what becomes of nodes from heaps. At one moment ends come first.
#[derive(Clone)]
pub struct SimulatedWorld {
    bound: Arc<Bound>,
    now: Time,
    next_arrival: usize,
    ends: Ends,
    ahead: BinaryHeap<Reverse<(Time, Ahead)>>,
    stop_time: Span,
    faults: Option<Faults>,
    window: Option<(u32, u32)>,
    over_in_window: u32,
    given_up: bool,
}

#[derive(Clone)]
struct Faults {
    mean_uptime: f64,
    mean_repair: f64,
    streams: Vec<RandomStream>,
}

impl Faults {
    fn draw(&mut self, node: NodeId, mean: f64) -> Span {
        Span::from_seconds(self.streams[node.index()].exponential(mean)).unwrap_or(Span(u64::MAX / 4))
    }
}

impl SimulatedWorld {
    /// A world before its first moment.
    pub fn new(bound: Arc<Bound>, options: &SimOptions) -> Self {
        let faults = options.faults.map(|faults| Faults {
            mean_uptime: faults.mean_uptime.seconds(),
            mean_repair: faults.mean_repair.seconds(),
            streams: (0..bound.cluster.nodes.len())
                .map(|node| RandomStream::new(options.seed, &format!("fault of node {node}")))
                .collect(),
        });
        let mut world = Self {
            bound,
            now: Time::ZERO,
            next_arrival: 0,
            ends: Ends::default(),
            ahead: BinaryHeap::new(),
            stop_time: options.stop_time,
            faults,
            window: options.window,
            over_in_window: 0,
            given_up: false,
        };
        for outage in &world.bound.cluster.outages {
            world.ahead.push(Reverse((outage.from, Ahead::NodeLost(outage.node))));
            world.ahead.extend(outage.until.map(|until| Reverse((until, Ahead::NodeReturned(outage.node)))));
        }
        for node in 0..world.bound.cluster.nodes.len() {
            world.draw_fault(NodeId::from_index(node), Time::ZERO);
        }
        world
    }

    /// A world in which what a state shows goes on from a moment: jobs that wait, jobs that run, jobs that are leaving. Nobody else arrives.
    /// The true lengths are those of the state's own tables.
    pub fn going_on(state: &State, now: Time, options: &SimOptions) -> Self {
        let mut world = Self::new(Arc::clone(&state.bound), options);
        world.now = now;
        world.next_arrival = world.bound.jobs.len();
        for (index, job) in state.jobs.iter().enumerate() {
            let id = JobId::from_index(index);
            match job.phase {
                Phase::Running => world.ends.set(id, state.end_of_run(id).max(now)),
                Phase::Stopping => world.ahead.push(Reverse((now + options.stop_time, Ahead::Stopped(id)))),
                _ => {}
            }
        }
        world
    }

    fn draw_fault(&mut self, node: NodeId, from: Time) {
        if let Some(faults) = &mut self.faults {
            let uptime = faults.draw(node, faults.mean_uptime);
            self.ahead.push(Reverse((from + uptime, Ahead::NodeLost(node))));
        }
    }

    fn is_done(&self, state: &State) -> bool {
        let all_over = self.next_arrival == self.bound.jobs.len() && state.unfinished == 0;
        let window_over = self.window.is_some_and(|(first, last)| self.over_in_window > last.saturating_sub(first));
        all_over || window_over || self.given_up
    }

    /// The next moment at which something happens, or somebody wants to look.
    fn next_moment(&self, wake: Option<Time>) -> Option<Time> {
        let arrival = self.bound.jobs.get(self.next_arrival).map(|job| job.arrival);
        let ahead = self.ahead.peek().map(|Reverse((at, _))| *at);
        let end = self.ends.first().map(|(at, _)| at);
        arrival.into_iter().chain(end).chain(ahead).chain(wake).min()
    }

    /// A run ends: the job is done, or fails.
    fn end(&mut self, job: JobId, state: &State, events: &mut Vec<Event>) {
        let end = end_of(job, state);
        if end.is_over() {
            self.note_over(job);
        }
        events.push(Event::at(self.now, EventKind::ended(job, end)));
    }

    fn happen(&mut self, what: Ahead, state: &State, lost: &mut Vec<NodeId>, events: &mut Vec<Event>) {
        let now = self.now;
        match what {
            Ahead::Stopped(job) if state.jobs[job.index()].phase == Phase::Stopping => {
                // A run that ends at this very moment has ended; its event is already told.
                if !events.iter().any(|event| event.kind.job() == Some(job)) {
                    events.push(Event::at(now, EventKind::ended(job, End::Preempted)));
                }
            }
            Ahead::NodeReturned(node) if !state.nodes_up[node.index()] => {
                events.push(Event { time_ns: now, kind: EventKind::NodeReturned { node } });
                self.draw_fault(node, now);
            }
            // Nodes that are lost at one moment are lost together, see `lose`.
            Ahead::NodeLost(node) if state.nodes_up[node.index()] && !lost.contains(&node) => lost.push(node),
            // Already gone, lost or back: a job ended by itself, or a recorded outage and a drawn fault overlap.
            Ahead::Stopped(_) | Ahead::NodeLost(_) | Ahead::NodeReturned(_) => {}
        }
    }

    /// Nodes are lost, all at this moment. Their jobs are evicted in the order of their ids, whichever node they are on: a live queue
    /// hears of them in that order, too.
    fn lose(&mut self, nodes: &[NodeId], state: &State, events: &mut Vec<Event>) {
        let now = self.now;
        // A run that ends at this very moment has ended; its event is already told.
        let ended = events.iter().filter_map(|event| event.kind.job()).collect::<Vec<_>>();
        let mut evicted = nodes.iter().flat_map(|node| state.jobs_on_node(*node)).collect::<Vec<_>>();
        evicted.sort_unstable();
        evicted.dedup();
        evicted.retain(|job| !ended.contains(job));
        events.extend(evicted.into_iter().map(|job| Event::at(now, EventKind::ended(job, End::Evicted))));
        for &node in nodes {
            events.push(Event { time_ns: now, kind: EventKind::NodeLost { node } });
            if let Some(faults) = &mut self.faults {
                let repair = faults.draw(node, faults.mean_repair);
                self.ahead.push(Reverse((now + repair, Ahead::NodeReturned(node))));
            }
        }
    }

    fn note_over(&mut self, job: JobId) {
        if self.window.is_some_and(|(first, last)| (first..=last).contains(&job.0)) {
            self.over_in_window += 1;
        }
    }

    /// Whether nothing that lies ahead can ever give GPUs to the jobs that wait.
    fn is_stuck(&self, state: &State) -> bool {
        let returns = |entry: &Reverse<(Time, Ahead)>| matches!(entry.0.1, Ahead::NodeReturned(_));
        state.unfinished > 0
            && state.running + state.stopping == 0
            && self.next_arrival == self.bound.jobs.len()
            && !self.ahead.iter().any(returns)
    }

    /// Reports the jobs that can never run.
    fn give_up(&mut self, state: &State, events: &mut Vec<Event>) -> Step {
        self.given_up = true;
        for (index, job) in state.jobs.iter().enumerate() {
            if matches!(job.phase, Phase::Waiting | Phase::Blocked) {
                let end = if job.phase == Phase::Waiting { End::NeverFits } else { End::Dependency };
                events.push(Event::at(self.now, EventKind::ended(JobId::from_index(index), end)));
            }
        }
        Step::Decide(self.now)
    }
}

impl World for SimulatedWorld {
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
        if self.is_done(state) {
            return Step::Over;
        }
        if wait.until.is_none() && self.is_stuck(state) {
            return self.give_up(state, events);
        }
        // What a state shows that goes on in this world may never have been decided upon.
        let news = wait.has_news.then_some(self.now);
        let Some(now) = self.next_moment(wait.until.into_iter().chain(news).min()) else { return Step::Over };
        self.now = now;
        while let Some((at, job)) = self.ends.first()
            && at <= self.now
        {
            self.ends.pop();
            if state.jobs[job.index()].phase.has_gpus() {
                self.end(job, state, events);
            }
        }
        let mut lost = Vec::new();
        while let Some(&Reverse((at, what))) = self.ahead.peek()
            && at <= self.now
        {
            self.ahead.pop();
            self.happen(what, state, &mut lost, events);
        }
        if !lost.is_empty() {
            self.lose(&lost, state, events);
        }
        while let Some(job) = self.bound.jobs.get(self.next_arrival)
            && job.arrival <= self.now
        {
            events.push(Event::at(self.now, EventKind::Submitted { job: job.id }));
            self.next_arrival += 1;
        }
        Step::Decide(now)
    }

    fn apply(&mut self, plan: &Plan, _: Option<Moment>, state: &State, events: &mut Vec<Event>) {
        let now = self.now;
        carry_out(plan, state, now, self.stop_time, events);
        if self.stop_time > Span::ZERO {
            self.ahead.extend(plan.stops.iter().map(|&job| Reverse((now + self.stop_time, Ahead::Stopped(job)))));
        }
    }
}
