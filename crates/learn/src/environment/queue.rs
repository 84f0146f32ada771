//! The simulator's queue, one choice at a time: start one of the waiting jobs that fit, or wait until something happens.
//!
//! Row 0 is waiting; each other row is a waiting job, in order of arrival. What must hold: a row is legal only if placement finds GPUs for
//! the job, so a chosen job starts; nothing is lost; a chooser is asked only where at least one job fits.

use super::{BadChoice, Environment, Outcome, Step, View};
use crate::features;
use crate::model::{Header, Model, Use, VERSION};
use crate::policy::Learned;
use crate::simulated::{Course, Episodes, Scenario, ScenarioError, note, sum_up};
use rota_core::random::RandomStream;
use rota_core::{Bound, Durations, Event, EventKind, GpuTypeId, JobId, Preempt, Snapshot, Target, Time, Wish};
use rota_engine::Session;
use rota_nn::{Activation, Network};
use rota_place::fit;
use rota_policy::{Configured, Context, Policy};
use rota_sim::{SimOptions, SimulatedWorld};
use serde::{Deserialize, Serialize};
use std::str::FromStr;
use std::sync::Arc;

/// Waiting jobs that are seen, unless it is said otherwise.
pub const JOBS_SEEN: usize = 64;
/// The rules, in order.
const RULES: [&str; 3] = ["random", "fcfs", "sjf"];
const FCFS: usize = 1;
const SJF: usize = 2;
/// The row that stands for waiting.
const WAIT: usize = 0;
/// Features that say something about the whole cluster, and so about waiting too.
const OF_THE_CLUSTER: [&str; 2] = ["free", "log_queue"];

/// What a step is punished for. The rewards of an episode add up to the negative of the figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// Mean seconds that jobs wait.
    Wait,
    /// Mean seconds from submission to completion.
    Jct,
    /// Seconds from the first submission to the last end.
    Makespan,
    /// Watt-hours of GPUs that jobs hold.
    Energy,
}

impl Cost {
    /// The words that name one.
    pub const WORDS: [&'static str; 4] = ["wait", "jct", "makespan", "energy"];
}

impl FromStr for Cost {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Wait, Self::Jct, Self::Makespan, Self::Energy];
        let found = Self::WORDS.iter().position(|word| *word == text).map(|place| all[place]);
        found.ok_or_else(|| format!("objective `{text}` is not one of {}", Self::WORDS.join(", ")))
    }
}

/// What an episode has come to so far.
struct Ledger {
    bound: Arc<Bound>,
    courses: Vec<Course>,
    /// The start and the watts of each run that goes on.
    runs: Vec<Option<(Time, f64)>>,
    /// The moment up to which time has been charged.
    until: Time,
    submitted: usize,
    waiting: usize,
    running: usize,
    wait_seconds: f64,
    run_seconds: f64,
    makespan_seconds: f64,
    watt_hours: f64,
}

impl Ledger {
    fn new(bound: Arc<Bound>) -> Self {
        Self {
            courses: vec![Course::default(); bound.jobs.len()],
            runs: vec![None; bound.jobs.len()],
            until: bound.jobs.iter().map(|job| job.arrival).min().unwrap_or(Time::ZERO),
            bound,
            submitted: 0,
            waiting: 0,
            running: 0,
            wait_seconds: 0.0,
            run_seconds: 0.0,
            makespan_seconds: 0.0,
            watt_hours: 0.0,
        }
    }

    fn record(&mut self, event: &Event) {
        let seconds = event.time_ns.since(self.until).seconds();
        self.until = self.until.max(event.time_ns);
        self.wait_seconds += seconds * self.waiting as f64;
        self.run_seconds += seconds * self.running as f64;
        match &event.kind {
            EventKind::Submitted { .. } => {
                self.submitted += 1;
                self.waiting += 1;
            }
            EventKind::Started { job, gpus, .. } => {
                self.waiting -= 1;
                self.running += 1;
                let row = self.bound.job(*job);
                let kinds = gpus.iter().map(|gpu| self.bound.cluster.type_of(*gpu));
                let watts =
                    kinds.map(|kind| kind.idle_watts + (kind.full_watts - kind.idle_watts) * row.utilisation).sum::<f64>();
                self.runs[job.index()] = Some((event.time_ns, watts * row.share.fraction()));
            }
            EventKind::Ended { job, .. } => match self.runs[job.index()].take() {
                Some((since, watts)) => {
                    self.running -= 1;
                    self.watt_hours += watts * event.time_ns.since(since).seconds() / 3600.0;
                    let zero = self.bound.jobs.first().map_or(Time::ZERO, |job| job.arrival);
                    self.makespan_seconds = event.time_ns.since(zero).seconds();
                }
                None => self.waiting = self.waiting.saturating_sub(1),
            },
            _ => {}
        }
        note(&mut self.courses, event);
    }

    fn cost(&self, cost: Cost) -> f64 {
        let jobs = self.courses.len().max(1) as f64;
        match cost {
            Cost::Wait => self.wait_seconds / jobs,
            Cost::Jct => (self.wait_seconds + self.run_seconds) / jobs,
            Cost::Makespan => self.makespan_seconds,
            Cost::Energy => self.watt_hours,
        }
    }

    /// Whether something will happen although nothing is started.
    fn goes_on(&self) -> bool {
        self.running > 0 || self.submitted < self.courses.len()
    }
}

/// An environment in which the agent chooses the next job of a simulated queue.
pub struct Queue {
    scenario: Scenario,
    episodes: Episodes,
    cost: Cost,
    jobs_seen: usize,
    estimates: bool,
    session: Session<SimulatedWorld>,
    ledger: Ledger,
    /// Makes the rows of features, as the policy `learned` does.
    watcher: Learned,
    /// The job of each row after the first.
    jobs: Vec<JobId>,
    rows: Vec<f32>,
    legal: Vec<bool>,
    is_over: bool,
    reward: f64,
}

impl Queue {
    /// An environment at the episode of seed 0. Refuses a scenario with episodes that cannot be simulated. With `estimates` a chooser sees
    /// how long jobs are believed to run.
    pub fn new(
        scenario: Scenario,
        episodes: Episodes,
        cost: Cost,
        jobs_seen: usize,
        estimates: bool,
    ) -> Result<Self, ScenarioError> {
        scenario.check()?;
        let bound = scenario.bound(0, episodes)?;
        let mut environment = Self {
            session: rota_sim::session(&bound, nobody(estimates), &scenario.options()),
            ledger: Ledger::new(bound),
            watcher: watcher(estimates)?,
            scenario,
            episodes,
            cost,
            jobs_seen: jobs_seen.max(1),
            estimates,
            jobs: Vec::new(),
            rows: Vec::new(),
            legal: Vec::new(),
            is_over: false,
            reward: 0.0,
        };
        environment.go_on();
        Ok(environment)
    }

    /// The fastest type that a job fits on now; of equals the first, as placement has it.
    fn type_for(&self, job: JobId) -> Option<GpuTypeId> {
        let state = &self.session.engine.state;
        let (bound, shape, speeds) = (&state.bound, state.bound.shape(job), state.bound.speeds(job));
        let fitting = shape.types.iter().filter(|gpu_type| fit::fits(&state.pool, bound, shape, *gpu_type));
        fitting.reduce(|best, next| if speeds[next.index()] > speeds[best.index()] { next } else { best })
    }

    fn hand_in(&mut self, wish: Wish) {
        let ledger = &mut self.ledger;
        self.session.hand_in(&Target { wish, review_at: None }, &mut |event| ledger.record(event));
    }

    /// Goes on to the next moment at which a job fits, or to the end.
    fn go_on(&mut self) {
        loop {
            let ledger = &mut self.ledger;
            if self.session.advance(&mut |event| ledger.record(event)).is_none() {
                self.is_over = true;
                self.jobs.clear();
                self.begin_rows();
                return;
            }
            if self.look() {
                return;
            }
            self.hand_in(Wish::Nothing);
        }
    }

    /// The row of waiting, alone.
    fn begin_rows(&mut self) {
        self.rows.clear();
        self.rows.resize(features::COUNT, 0.0);
        self.legal.clear();
        self.legal.push(true);
    }

    /// Makes the rows of this moment. Says whether any job fits.
    fn look(&mut self) -> bool {
        self.begin_rows();
        let Some(snapshot) = self.session.snapshot() else { return false };
        let (jobs, rows) = self.watcher.see(&snapshot, self.jobs_seen);
        if let Some(first) = rows.get(..features::COUNT) {
            let shared = features::NAMES.iter().zip(&mut self.rows).zip(first);
            let shared = shared.filter(|((name, _), _)| OF_THE_CLUSTER.contains(name));
            shared.for_each(|((_, here), first)| *here = *first);
        }
        self.rows.extend_from_slice(rows);
        self.jobs = jobs;
        for place in 0..self.jobs.len() {
            let fits = self.type_for(self.jobs[place]).is_some();
            self.legal.push(fits);
        }
        let any = self.legal[WAIT + 1..].contains(&true);
        self.legal[WAIT] = !any || self.ledger.goes_on();
        any
    }

    fn believed_seconds(&self, row: usize) -> f64 {
        let snapshot = self.session.snapshot();
        snapshot.map_or(0.0, |snapshot| snapshot.view(self.jobs[row - 1]).believed_seconds())
    }
}

/// The session is handed targets, so its own policy is never asked. It says whether lengths are known.
fn nobody(estimates: bool) -> Configured {
    let durations = if estimates { Durations::Known } else { Durations::Hidden };
    Configured { spec: "steps".to_owned(), policy: Box::new(Nobody), durations }
}

#[derive(Clone, Serialize, Deserialize)]
struct Nobody;

impl Policy for Nobody {
    fn decide(&mut self, _: &Snapshot<'_>, _: &mut Context) -> Target {
        Target { wish: Wish::Nothing, review_at: None }
    }
}

fn watcher(estimates: bool) -> Result<Learned, ScenarioError> {
    let network = Network::zero(&[features::COUNT, 1], Activation::Relu)?;
    let header = Header {
        version: VERSION,
        environment: String::new(),
        objective: String::new(),
        algorithm: String::new(),
        seed: 0,
        steps: 0,
        used: Use { preempt: false, pass: true, reserve: false, estimates },
        features: features::NAMES.map(str::to_owned).to_vec(),
        low: vec![0.0; features::COUNT],
        high: vec![0.0; features::COUNT],
        activation: Activation::Relu,
    };
    Ok(Learned::seeing_all(Arc::new(Model { header, network })))
}

impl Environment for Queue {
    fn features(&self) -> &'static [&'static str] {
        &features::NAMES
    }

    fn reset(&mut self, seed: u64) {
        // Every episode was tried when the environment was made.
        if let Ok(bound) = self.scenario.bound(seed, self.episodes) {
            let options = SimOptions { seed, ..self.scenario.options() };
            self.session = rota_sim::session(&bound, nobody(self.estimates), &options);
            self.ledger = Ledger::new(bound);
        }
        self.watcher = self.watcher.anew();
        self.is_over = false;
        self.reward = 0.0;
        self.go_on();
    }

    fn view(&self) -> View<'_> {
        View { rows: &self.rows, legal: &self.legal }
    }

    fn step(&mut self, choice: usize) -> Result<Step, BadChoice> {
        if self.legal.get(choice) != Some(&true) {
            return Err(BadChoice { choice, rows: self.legal.len() });
        }
        if self.is_over {
            return Ok(Step { reward: 0.0, done: true });
        }
        let before = self.ledger.cost(self.cost);
        if choice == WAIT {
            self.hand_in(Wish::Nothing);
            self.go_on();
        } else {
            let job = self.jobs[choice - 1];
            let types = vec![(job, self.type_for(job))];
            self.hand_in(Wish::Assignment { types, pairs: Vec::new(), preempt: Preempt::Never });
            self.session.look_again();
            if !self.look() {
                self.hand_in(Wish::Nothing);
                self.go_on();
            }
        }
        let reward = before - self.ledger.cost(self.cost);
        self.reward += reward;
        Ok(Step { reward, done: self.is_over })
    }

    fn choice_of(&self, rule: usize, stream: &mut RandomStream) -> usize {
        let mut legal = (0..self.legal.len()).filter(|row| self.legal[*row]);
        match rule {
            FCFS => legal.find(|row| *row != WAIT).unwrap_or(WAIT),
            SJF => {
                let jobs = legal.filter(|row| *row != WAIT);
                jobs.min_by(|a, b| self.believed_seconds(*a).total_cmp(&self.believed_seconds(*b))).unwrap_or(WAIT)
            }
            _ => {
                let all = legal.collect::<Vec<_>>();
                all[stream.below(all.len() as u64) as usize]
            }
        }
    }

    fn rules(&self) -> Vec<&'static str> {
        RULES.to_vec()
    }

    fn outcome(&self) -> Outcome {
        let energy_kwh = Some(self.ledger.watt_hours / 1000.0);
        Outcome { reward: self.reward, energy_kwh, ..sum_up(&self.ledger.bound, &self.ledger.courses).0 }
    }
}
