//! The clock, the jobs and the nodes of a simulation.

use crate::ends::Ends;
use crate::{Mechanism, SimOptions};
use rota_core::event::EventKind;
use rota_core::random::RandomStream;
use rota_core::{Bound, Event, FailReason, JobId, NodeId, Phase, Plan, Span, Time};
use rota_engine::{Moment, Occasion, State, World};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// What is known to become of a node. The order of the variants is the order at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ahead {
    NodeReturned(NodeId),
    NodeLost(NodeId),
}

/// Arrivals come from the workload, the ends of jobs and what becomes of nodes from heaps. At one moment ends come first.
pub struct SimulatedWorld {
    bound: Arc<Bound>,
    now: Time,
    next_arrival: usize,
    ends: Ends,
    ahead: BinaryHeap<Reverse<(Time, Ahead)>>,
    round: Option<Span>,
    faults: Option<Faults>,
    window: Option<(u32, u32)>,
    over_in_window: u32,
    given_up: bool,
}

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
        let round = match options.mechanism {
            Mechanism::Event => None,
            Mechanism::Rounds { length } => Some(Span(length.0.max(1))),
        };
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
            round,
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

    /// The next moment at which something happens, and whether it is the end of a round.
    fn next_moment(&self, state: &State, wake: Option<Time>) -> Option<Moment> {
        let arrival = self.bound.jobs.get(self.next_arrival).map(|job| job.arrival);
        let ahead = self.ahead.peek().map(|Reverse((at, _))| *at);
        // Rounds end only for somebody: one who waits, or a policy that may move those who run.
        let matters = state.running > 0 && (state.waiting > 0 || wake.is_some());
        let tick = self.round.filter(|_| matters).map(|round| Time((self.now.0 / round.0 + 1) * round.0));
        let end = self.ends.first().map(|(at, _)| at);
        let now = arrival.into_iter().chain(end).chain(ahead).chain(tick).chain(wake).min()?;
        let occasion = if tick == Some(now) { Occasion::Tick } else { Occasion::Event };
        Some(Moment { now, occasion })
    }

    /// A run ends: the job is done, or fails.
    fn end(&mut self, job: JobId, state: &State, events: &mut Vec<Event>) {
        let spec = self.bound.job(job);
        let fails = spec.fails_at.is_some_and(|fails_at| fails_at <= spec.work);
        let kind = if fails && state.jobs[job.index()].failures < spec.retries {
            EventKind::Retried { job }
        } else {
            self.note_over(job);
            if fails { EventKind::Failed { job, reason: FailReason::Crashed } } else { EventKind::Finished { job } }
        };
        events.push(Event { time_ns: self.now, kind });
    }

    fn happen(&mut self, what: Ahead, state: &State, events: &mut Vec<Event>) {
        let now = self.now;
        match what {
            Ahead::NodeLost(node) if state.nodes_up[node.index()] => {
                // A run that ends at this very moment has ended; its event is already told.
                let ended = events.iter().filter_map(|event| event.kind.job()).collect::<Vec<_>>();
                for job in state.jobs_on_node(node) {
                    if !ended.contains(&job) {
                        events.push(Event { time_ns: now, kind: EventKind::Evicted { job } });
                    }
                }
                events.push(Event { time_ns: now, kind: EventKind::NodeLost { node } });
                if let Some(faults) = &mut self.faults {
                    let repair = faults.draw(node, faults.mean_repair);
                    self.ahead.push(Reverse((now + repair, Ahead::NodeReturned(node))));
                }
            }
            Ahead::NodeReturned(node) if !state.nodes_up[node.index()] => {
                events.push(Event { time_ns: now, kind: EventKind::NodeReturned { node } });
                self.draw_fault(node, now);
            }
            // Already lost or already back: a recorded outage and a drawn fault overlap.
            Ahead::NodeLost(_) | Ahead::NodeReturned(_) => {}
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
            && state.running == 0
            && self.next_arrival == self.bound.jobs.len()
            && !self.ahead.iter().any(returns)
    }

    /// Reports the jobs that can never run.
    fn give_up(&mut self, state: &State, events: &mut Vec<Event>) -> Moment {
        self.given_up = true;
        for (index, job) in state.jobs.iter().enumerate() {
            if matches!(job.phase, Phase::Waiting | Phase::Blocked) {
                let reason = if job.phase == Phase::Waiting { FailReason::NeverFits } else { FailReason::Dependency };
                events.push(Event { time_ns: self.now, kind: EventKind::Failed { job: JobId::from_index(index), reason } });
            }
        }
        Moment { now: self.now, occasion: Occasion::Event }
    }
}

impl World for SimulatedWorld {
    fn poll(&mut self, state: &mut State, wake: Option<Time>, events: &mut Vec<Event>) -> Option<Moment> {
        state.each_paced(|job, at| self.ends.set(job, at));
        // The end of a job that was stopped is void until it starts again, which sets it anew.
        while let Some((_, job)) = self.ends.first()
            && state.jobs[job.index()].phase != Phase::Running
        {
            self.ends.pop();
        }
        if self.is_done(state) {
            return None;
        }
        let wake = wake.filter(|wake| *wake > self.now);
        if wake.is_none() && self.is_stuck(state) {
            return Some(self.give_up(state, events));
        }
        let moment = self.next_moment(state, wake)?;
        self.now = moment.now;
        while let Some((at, job)) = self.ends.first()
            && at <= self.now
        {
            self.ends.pop();
            if state.jobs[job.index()].phase == Phase::Running {
                self.end(job, state, events);
            }
        }
        while let Some(&Reverse((at, what))) = self.ahead.peek()
            && at <= self.now
        {
            self.ahead.pop();
            self.happen(what, state, events);
        }
        while let Some(job) = self.bound.jobs.get(self.next_arrival)
            && job.arrival <= self.now
        {
            events.push(Event { time_ns: self.now, kind: EventKind::Submitted { job: job.id } });
            self.next_arrival += 1;
        }
        Some(moment)
    }

    fn apply(&mut self, plan: &Plan, now: Time, events: &mut Vec<Event>) {
        events.extend(plan.stops.iter().map(|&job| Event { time_ns: now, kind: EventKind::Preempted { job } }));
        for start in &plan.starts {
            events.push(Event { time_ns: now, kind: EventKind::Started { job: start.job, gpus: start.gpus.clone() } });
        }
    }
}
