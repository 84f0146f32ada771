//! The simulator's queue on a trace one choice at a time, as [`super::queue`] plays it, made for speed: what is free is one number, and what
//! a chooser sees is renewed in place.
//!
//! It plays traces whose jobs all take whole GPUs, any of them, on a cluster of one GPU type without outages; they run to their end and
//! none fails. [`Gangs::new`] gives `None` for any other, and the queue plays that. What must hold: rows, masks, rewards and outcomes are
//! those of the queue; only what earlier jobs taught is asked for less often (`tests/stepping.rs` compares them).

mod jobs;
mod rows;
mod taught;

use super::ledger::Ledger;
use super::queue::{self, Play};
use super::{BadChoice, Environment, Outcome, Step, View};
use crate::features;
use crate::simulated::{Episodes, Scenario, ScenarioError, sum_up};
use jobs::{GangJob, Jobs};
use rota_core::random::RandomStream;
use rota_core::{JobId, Time};
use rows::Rows;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use taught::Lessons;

/// The row that stands for waiting.
const WAIT: usize = 0;

/// A job that runs, for those that wait for its GPUs.
#[derive(Clone, Copy)]
struct Run {
    job: u32,
    gpus: u32,
    /// When it is believed to end.
    believed_end: Time,
}

/// The queue of a trace as an environment that is played step by step.
pub(super) struct Gangs {
    scenario: Scenario,
    episodes: Episodes,
    play: Play,
    /// The jobs of the episode, and the place of the first of them in the trace.
    jobs: Arc<Jobs>,
    first_job: usize,
    ledger: Ledger,
    now: Time,
    /// Jobs that have arrived.
    arrived: usize,
    /// The first waiting job that is not seen. All that arrived after it wait too.
    unseen: usize,
    idle: u32,
    /// Running jobs by their end; at one moment by id.
    ends: BinaryHeap<Reverse<(Time, u32)>>,
    /// The same jobs, the first that is believed to end before the others.
    runs: Vec<Run>,
    lessons: Lessons,
    rows: Rows,
    is_over: bool,
    reward: f64,
}

impl Gangs {
    /// An environment at the episode of seed 0; `None` if this trace is for the queue to play.
    pub fn new(scenario: Scenario, episodes: Episodes, play: Play) -> Result<Option<Self>, ScenarioError> {
        let whole_trace = scenario.check()?;
        if !jobs::is_plain(&whole_trace, &scenario.options()) {
            return Ok(None);
        }
        let play = Play { jobs_seen: play.jobs_seen.max(1), ..play };
        let first_job = scenario.first_job(0, episodes);
        let jobs = Arc::new(Jobs::new(&scenario.bound(0, episodes)?, play.estimates));
        let mut environment = Self {
            ledger: Ledger::new(Arc::clone(&jobs.bound)),
            lessons: Lessons::new(&jobs),
            rows: Rows::new(&jobs, play.jobs_seen),
            scenario,
            episodes,
            play,
            jobs,
            first_job,
            now: Time::ZERO,
            arrived: 0,
            unseen: 0,
            idle: 0,
            ends: BinaryHeap::new(),
            runs: Vec::new(),
            is_over: false,
            reward: 0.0,
        };
        environment.begin();
        Ok(Some(environment))
    }

    /// Begins the episode of the jobs that are there.
    fn begin(&mut self) {
        self.ledger = Ledger::new(Arc::clone(&self.jobs.bound));
        self.lessons = Lessons::new(&self.jobs);
        self.rows.clear(&self.jobs);
        self.ends.clear();
        self.runs.clear();
        (self.now, self.arrived, self.unseen, self.idle) = (Time::ZERO, 0, 0, self.jobs.gpus);
        (self.is_over, self.reward) = (false, 0.0);
        self.go_on();
    }

    /// Goes on to the next moment at which a job fits, or to the end.
    fn go_on(&mut self) {
        loop {
            let arrival = self.jobs.all.get(self.arrived).map(|job| job.arrival);
            let end = self.ends.peek().map(|Reverse((end, _))| *end);
            let Some(now) = arrival.into_iter().chain(end).min() else {
                self.is_over = true;
                self.rows.show_end();
                return;
            };
            self.now = now;
            self.ledger.pass(now);
            self.end_runs();
            self.arrive();
            if self.look() {
                return;
            }
        }
    }

    fn end_runs(&mut self) {
        while let Some(&Reverse((end, job))) = self.ends.peek()
            && end <= self.now
        {
            self.ends.pop();
            self.ledger.finish(JobId(job));
            self.lessons.end(job as usize, self.now, &self.jobs);
            let GangJob { gpus, .. } = self.jobs.all[job as usize];
            self.idle += gpus;
            if let Some(place) = self.runs.iter().position(|run| run.job == job) {
                self.runs.remove(place);
            }
        }
    }

    fn arrive(&mut self) {
        while let Some(job) = self.jobs.all.get(self.arrived)
            && job.arrival <= self.now
        {
            self.arrived += 1;
            self.ledger.submit();
        }
        self.fill();
    }

    /// Shows waiting jobs that were not seen, as many as there are rows for.
    fn fill(&mut self) {
        while self.unseen < self.arrived && self.rows.len() < self.play.jobs_seen {
            let taught = self.lessons.of(self.unseen, &self.jobs);
            self.rows.push(self.unseen, &self.jobs, &taught);
            self.unseen += 1;
        }
    }

    /// Starts the job of a row.
    fn start(&mut self, row: usize) {
        let job = self.rows.remove(row);
        let GangJob { gpus, run, believed_run, watts, .. } = self.jobs.all[job];
        self.idle -= gpus;
        self.ledger.start(JobId::from_index(job), watts);
        self.lessons.start(job, self.now, &self.jobs);
        self.ends.push(Reverse((self.now + run, job as u32)));
        let believed_end = self.now + believed_run;
        let place = self.runs.partition_point(|run| run.believed_end <= believed_end);
        self.runs.insert(place, Run { job: job as u32, gpus, believed_end });
        self.fill();
    }

    /// Makes the rows of this moment. If no job fits it says so and makes none.
    fn look(&mut self) -> bool {
        if !self.rows.any_fits(self.idle) {
            return false;
        }
        if self.lessons.are_due() {
            self.lessons.catch_up(self.ends.iter().map(|Reverse((_, job))| *job as usize), self.now, &self.jobs);
            self.rows.teach(&self.jobs, &mut self.lessons);
        }
        self.find_earliest_starts();
        let waiting = self.rows.len() + self.arrived - self.unseen;
        let free = (1.0 - f64::from(self.jobs.gpus - self.idle) / f64::from(self.jobs.gpus.max(1))).max(0.0);
        let may_wait = self.play.may_wait && self.ledger.goes_on();
        self.rows.show(self.now, self.idle, free, waiting, may_wait);
        true
    }

    /// When each size of gang that does not fit is believed to find room.
    fn find_earliest_starts(&mut self) {
        let mut runs = self.runs.iter();
        let (mut free, mut end) = (self.idle, self.now);
        for (gpus, earliest) in self.jobs.sizes.iter().zip(&mut self.rows.earliest) {
            while free < *gpus
                && let Some(run) = runs.next()
            {
                (free, end) = (free + run.gpus, run.believed_end);
            }
            let is_known = self.play.estimates && free >= *gpus && *gpus > self.idle;
            *earliest = if is_known { features::log(end.since(self.now).seconds(), 10.0) } else { 0.0 };
        }
    }
}

impl Environment for Gangs {
    fn features(&self) -> &'static [&'static str] {
        &features::NAMES
    }

    fn reset(&mut self, seed: u64) {
        let first_job = self.scenario.first_job(seed, self.episodes);
        // Every episode was tried when the environment was made.
        if first_job != self.first_job
            && let Ok(bound) = self.scenario.bound(seed, self.episodes)
        {
            self.jobs = Arc::new(Jobs::new(&bound, self.play.estimates));
            self.first_job = first_job;
        }
        self.begin();
    }

    fn view(&self) -> View<'_> {
        self.rows.view()
    }

    fn step(&mut self, choice: usize) -> Result<Step, BadChoice> {
        let legal = self.rows.view().legal;
        if legal.get(choice) != Some(&true) {
            return Err(BadChoice { choice, rows: legal.len() });
        }
        if self.is_over {
            return Ok(Step { reward: 0.0, done: true });
        }
        let before = self.ledger.cost(self.play.cost);
        if choice == WAIT {
            self.go_on();
        } else {
            self.start(choice - 1);
            if !self.look() {
                self.go_on();
            }
        }
        let reward = before - self.ledger.cost(self.play.cost);
        self.reward += reward;
        Ok(Step { reward, done: self.is_over })
    }

    fn choice_of(&self, rule: usize, stream: &mut RandomStream) -> usize {
        let legal = self.rows.view().legal;
        let mut fitting = (1..legal.len()).filter(|row| legal[*row]);
        match queue::RULES.get(rule) {
            Some(&"fcfs") => fitting.next().unwrap_or(WAIT),
            Some(&"sjf") => {
                let believed = |row: &usize| self.jobs.all[self.rows.job(row - 1)].believed_seconds;
                fitting.min_by(|a, b| believed(a).total_cmp(&believed(b))).unwrap_or(WAIT)
            }
            _ => super::any_legal(legal, stream),
        }
    }

    fn rules(&self) -> Vec<&'static str> {
        queue::RULES.to_vec()
    }

    fn outcome(&self) -> Outcome {
        Outcome { reward: self.reward, ..sum_up(&self.jobs.bound, &self.ledger.courses).0 }
    }
}
