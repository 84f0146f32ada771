//! The simulator's queue, one choice at a time: start one of the waiting jobs that fit, or wait until something happens.
//!
//! Row 0 is waiting; each other row is a waiting job, in order of arrival. What must hold: a row is legal only if placement finds GPUs for
//! the job, so a chosen job starts; nothing is lost; a chooser is asked only where at least one job fits.

use super::classroom::{self, Classroom};
use super::gangs::Gangs;
pub use super::ledger::Cost;
use super::ledger::Ledger;
use super::sight::Sight;
use super::{BadChoice, Environment, Outcome, Step, View};
use crate::features;
use crate::simulated::{Episodes, Scenario, ScenarioError, sum_up};
use rota_core::random::RandomStream;
use rota_core::{Durations, Event, GpuTypeId, JobId, Preempt, Snapshot, Target, Wish};
use rota_engine::Session;
use rota_place::fit;
use rota_policy::{Configured, Context, Policy};
use rota_sim::{SimOptions, SimulatedWorld};
use serde::{Deserialize, Serialize};

/// Waiting jobs that are seen, unless it is said otherwise.
pub const JOBS_SEEN: usize = 64;
/// The rules, in order.
pub(super) const RULES: [&str; 3] = ["random", "fcfs", "sjf"];
const FCFS: usize = 1;
const SJF: usize = 2;
/// The row that stands for waiting.
const WAIT: usize = 0;
/// Features that say something about the whole cluster, and so about waiting too.
const OF_THE_CLUSTER: [&str; 2] = ["free", "log_queue"];

/// How the queue is played.
#[derive(Clone, Copy, Debug)]
pub struct Play {
    /// What a step is punished for.
    pub cost: Cost,
    /// The most waiting jobs that are seen.
    pub jobs_seen: usize,
    /// Whether a chooser sees how long jobs are believed to run.
    pub estimates: bool,
    /// Whether a chooser may wait although a job fits.
    pub may_wait: bool,
}

/// The environment that plays a scenario step by step: the fast one where it can. Refuses a scenario with episodes that cannot be simulated.
pub fn environment(scenario: &Scenario, episodes: Episodes, play: Play) -> Result<Box<dyn Environment>, ScenarioError> {
    if play.estimates
        && let Some((config, cluster, options)) = scenario.as_classroom()
        && play.jobs_seen >= config.jobs.unwrap_or(config.tasks.1) as usize
        && let Some(fast) = Classroom::new(config, cluster, options, play.cost, play.may_wait)
    {
        return Ok(Box::new(fast));
    }
    if scenario.is_trace()
        && let Some(fast) = Gangs::new(scenario.clone(), episodes, play)?
    {
        return Ok(Box::new(fast));
    }
    Ok(Box::new(Queue::new(scenario.clone(), episodes, play)?))
}

/// The features of the rows that a scenario is played with step by step.
pub fn features_of(scenario: &Scenario) -> &'static [&'static str] {
    if scenario.as_classroom().is_some() { &classroom::FEATURES } else { &features::NAMES }
}

/// An environment in which the agent chooses the next job of a simulated queue.
pub struct Queue {
    scenario: Scenario,
    episodes: Episodes,
    play: Play,
    session: Session<SimulatedWorld>,
    ledger: Ledger,
    sight: Sight,
    /// The features that are shown, and their places in a whole row.
    features: &'static [&'static str],
    places: Vec<usize>,
    rows: Vec<f32>,
    legal: Vec<bool>,
    is_over: bool,
    reward: f64,
}

impl Queue {
    /// An environment at the episode of seed 0. Refuses a scenario with episodes that cannot be simulated.
    pub fn new(scenario: Scenario, episodes: Episodes, play: Play) -> Result<Self, ScenarioError> {
        scenario.check()?;
        let bound = scenario.bound(0, episodes)?;
        let features = features_of(&scenario);
        let mut environment = Self {
            session: rota_sim::session(&bound, nobody(play.estimates), &scenario.options()),
            sight: Sight::new(&bound, play.estimates)?,
            ledger: Ledger::new(bound),
            features,
            places: features.iter().map(|name| features::place(name)).collect(),
            scenario,
            episodes,
            play: Play { jobs_seen: play.jobs_seen.max(1), ..play },
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
        let (ledger, sight) = (&mut self.ledger, &mut self.sight);
        self.session.hand_in(&Target { wish, review_at: None }, &mut |event| {
            sight.record(event, &ledger.bound);
            ledger.record(event);
        });
    }

    /// Goes on to the next moment at which a job fits, or to the end.
    fn go_on(&mut self) {
        loop {
            let (ledger, sight) = (&mut self.ledger, &mut self.sight);
            let mut observe = |event: &Event| {
                sight.record(event, &ledger.bound);
                ledger.record(event);
            };
            if self.session.advance(&mut observe).is_none() {
                self.is_over = true;
                self.sight.jobs.clear();
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
        self.rows.resize(self.features.len(), 0.0);
        self.legal.clear();
        self.legal.push(true);
    }

    /// Makes the rows of this moment. Says whether any job fits.
    fn look(&mut self) -> bool {
        self.begin_rows();
        let Some(snapshot) = self.session.snapshot() else { return false };
        if !self.sight.look(&snapshot, self.play.jobs_seen) {
            return false;
        }
        let seen = &self.sight.rows;
        if let Some(first) = seen.get(..features::COUNT) {
            let shared = self.features.iter().zip(&self.places).zip(&mut self.rows);
            let shared = shared.filter(|((name, _), _)| OF_THE_CLUSTER.contains(name));
            shared.for_each(|((_, place), here)| *here = first[*place]);
        }
        if self.features.len() == features::COUNT {
            self.rows.extend_from_slice(seen);
        } else {
            let rows = seen.chunks_exact(features::COUNT);
            self.rows.extend(rows.flat_map(|row| self.places.iter().map(|place| row[*place])));
        }
        for place in 0..self.sight.jobs.len() {
            let known = self.sight.fits[place];
            let fits = known.unwrap_or_else(|| self.type_for(self.sight.jobs[place]).is_some());
            self.legal.push(fits);
        }
        let any = self.legal[WAIT + 1..].contains(&true);
        self.legal[WAIT] = !any || (self.play.may_wait && self.ledger.goes_on());
        any
    }

    fn believed_seconds(&self, row: usize) -> f64 {
        let snapshot = self.session.snapshot();
        snapshot.map_or(0.0, |snapshot| snapshot.view(self.sight.jobs[row - 1]).believed_seconds())
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

impl Environment for Queue {
    fn features(&self) -> &'static [&'static str] {
        self.features
    }

    fn reset(&mut self, seed: u64) {
        // Every episode was tried when the environment was made.
        if let Ok(bound) = self.scenario.bound(seed, self.episodes) {
            let options = SimOptions { seed, ..self.scenario.options() };
            self.session = rota_sim::session(&bound, nobody(self.play.estimates), &options);
            self.sight.reset(&bound);
            self.ledger = Ledger::new(bound);
        }
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
        let before = self.ledger.cost(self.play.cost);
        if choice == WAIT {
            self.hand_in(Wish::Nothing);
            self.go_on();
        } else {
            let job = self.sight.jobs[choice - 1];
            let types = vec![(job, self.type_for(job))];
            self.hand_in(Wish::Assignment { types, pairs: Vec::new(), preempt: Preempt::Never });
            self.session.look_again();
            if !self.look() {
                self.hand_in(Wish::Nothing);
                self.go_on();
            }
        }
        let reward = before - self.ledger.cost(self.play.cost);
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
            _ => super::any_legal(&self.legal, stream),
        }
    }

    fn rules(&self) -> Vec<&'static str> {
        RULES.to_vec()
    }

    fn outcome(&self) -> Outcome {
        Outcome { reward: self.reward, ..sum_up(&self.ledger.bound, &self.ledger.courses).0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rota_core::{Cluster, Job, MilliGpu, Span, ThroughputTable, Time, Workload};

    fn trace(seed: u64) -> Scenario {
        let mut stream = RandomStream::new(seed, "jobs");
        let mut workload = Workload::new("mixed");
        let mut arrival = 0;
        for _ in 0..60 {
            arrival += stream.below(90) * 1_000_000_000;
            let work = Span::from_whole_seconds(stream.between(1, 900));
            let is_shared = stream.below(3) == 0;
            workload.push(Job {
                gpus: if is_shared { 1 } else { stream.between(1, 6) as u32 },
                share: if is_shared { MilliGpu(stream.between(1, 9) as u16 * 100) } else { MilliGpu::WHOLE },
                memory_mib: stream.below(12_000) as u32,
                estimate: (stream.below(2) == 0).then(|| Span::from_whole_seconds(stream.between(1, 900))),
                ..Job::new(Time(arrival), work)
            });
        }
        workload.finish();
        let cluster = Cluster::from_spec("gpu:8", 4).unwrap();
        Scenario::trace(workload, ThroughputTable::default(), 60, cluster, SimOptions::default())
    }

    /// What is kept from one choice to the next is what the policy would see; what earlier jobs taught is asked for less often.
    #[test]
    fn rows_that_are_kept_equal_rows_that_are_made_anew() {
        let kept_back = |name: &str| features::FROM_HISTORY.contains(&name) || name == "log_user_recent";
        for (seed, estimates) in [(1, true), (2, true), (3, false)] {
            let play = Play { cost: Cost::Jct, jobs_seen: 12, estimates, may_wait: true };
            let mut kept = Queue::new(trace(seed), Episodes::Judging, play).unwrap();
            let mut anew = Queue::new(trace(seed), Episodes::Judging, play).unwrap();
            anew.sight.follow_no_room();
            let mut stream = RandomStream::new(seed, "choices");
            for step in 0.. {
                let choice = kept.choice_of(0, &mut stream);
                assert_eq!(kept.step(choice), anew.step(choice), "step {step}");
                assert_eq!(kept.legal, anew.legal, "step {step}");
                for (place, (kept, anew)) in kept.rows.iter().zip(&anew.rows).enumerate() {
                    let name = features::NAMES[place % features::COUNT];
                    assert!(kept_back(name) || (kept - anew).abs() < 1e-6, "step {step}, {name}: {kept} {anew}");
                }
                if kept.is_over {
                    break;
                }
            }
        }
    }
}
