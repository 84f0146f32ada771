//! The main loop: a clock that jumps from the end of one round to the end of the next.
//!
//! A round ends when its last micro-task does. Then steps are credited, jobs that arrived meanwhile are admitted, shares are
//! computed if they may be, and the next round begins at once; with nothing to run the clock jumps to the next arrival.

use crate::events::{Teller, moment};
use crate::name::PolicyName;
use crate::policies::{self, GavelPolicy};
use crate::rounds::{Assignment, RoundState, Rounds, Rules};
use crate::setting::Setting;
use crate::{GavelError, GavelOptions};
use rota_core::{Bound, Event, ThroughputTable, Time};
use std::collections::HashMap;
use std::time::Instant;

/// A job whose micro-task fails so often in a row is given up.
const FAILURES_MAX: u32 = 5;
/// Rounds in a row without any progress after which there will be none.
const IDLE_ROUNDS_MAX: u32 = 1000;
/// The type whose speeds stand for all types in policies that do not tell them apart.
const REFERENCE_TYPE: &str = "v100";

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GavelTally {
    /// The clock at the end.
    pub end: Time,
    /// The events that the observer received.
    pub events: u64,
    /// The allocations that the policy computed.
    pub decisions: u64,
    /// Seconds spent computing them, in all.
    pub decision_seconds: f64,
    /// Seconds spent on the longest of them.
    pub decision_seconds_max: f64,
    /// Rounds in which something ran.
    pub rounds: u64,
    /// When each job was completed, in seconds; `None` for jobs that were given up or not reached.
    pub completions: Vec<Option<f64>>,
    /// The clock at the end, which Gavel calls the makespan.
    pub makespan_seconds: f64,
    /// Mean over GPUs of busy time over all time, as Gavel counts it.
    pub utilisation: f64,
    /// What the jobs cost, with prices.
    pub cost_usd: f64,
    /// Jobs whose completion time is above their deadline, as Gavel compares them.
    pub slo_violations: u32,
    /// Percent of micro-tasks that could go on where they were and did.
    pub lease_extension_percent: f64,
    /// The value of what the policy optimised in its last allocation.
    pub objective: Option<f64>,
    /// Whether the last job came before the window's last job had ended. Gavel goes on drawing jobs until then, and jobs that come later
    /// change when others end.
    pub arrivals_ended_early: bool,
}

/// Runs one policy to its end, telling `observe` every event in the order of time.
pub fn simulate(
    bound: &Bound,
    table: &ThroughputTable,
    policy: &str,
    options: &GavelOptions,
    observe: &mut dyn FnMut(&Event),
) -> Result<GavelTally, GavelError> {
    let name = PolicyName::parse(policy)?;
    options.check()?;
    let setting = Setting::new(bound, table, name.packs(), options)?;
    check_needs(policy, name, &setting, options, bound)?;
    if name.packs() && !table.knows_pairs() {
        let missing = "a throughput table that has pairs of jobs".to_owned();
        return Err(GavelError::Missing { policy: policy.to_owned(), missing });
    }
    let rules = Rules { packs: name.packs(), shuffles_types: name.shuffles_types(), runs_shares_only: name.runs_shares_only() };
    let simulation = Simulation {
        policy_name: policy,
        setting: &setting,
        options,
        policy: policies::build(name, options.seed),
        rounds: Rounds::new(&setting, rules, options.round_seconds, options.seed),
        teller: Teller::new(observe),
        reference_type: setting.types.iter().position(|kind| kind.name == REFERENCE_TYPE),
        prices: None,
        jobs: vec![Progress::default(); setting.jobs.len()],
        next_arrival: 0,
        removed: 0,
        removed_in_window: 0,
        now_seconds: 0.0,
        round_start_seconds: 0.0,
        round_end_seconds: None,
        running: Vec::new(),
        ran_before: HashMap::new(),
        idle_rounds: 0,
        busy_seconds: 0.0,
        leases: Leases::default(),
        tally: GavelTally { completions: vec![None; setting.jobs.len()], ..GavelTally::default() },
    };
    simulation.run()
}

/// Refuses a policy whose inputs are not all there.
fn check_needs(
    policy: &str,
    name: PolicyName,
    setting: &Setting,
    options: &GavelOptions,
    bound: &Bound,
) -> Result<(), GavelError> {
    use crate::name::{Awareness::Agnostic, Worth};
    let missing = |missing: String| GavelError::Missing { policy: policy.to_owned(), missing };
    match name {
        PolicyName::FinishTime(Agnostic) | PolicyName::Makespan(Agnostic) => {
            if setting.types.iter().all(|kind| kind.name != REFERENCE_TYPE) {
                return Err(missing(format!("GPUs of type {REFERENCE_TYPE}, whose speeds it takes for all types")));
            }
            if let Some(job) = (0..setting.jobs.len()).find(|&job| {
                setting
                    .types
                    .iter()
                    .zip(&setting.jobs[job].speeds)
                    .any(|(kind, &speed)| kind.name == REFERENCE_TYPE && speed <= 0.0)
            }) {
                let job = bound.jobs[job].display_id();
                return Err(missing(format!("a throughput on {REFERENCE_TYPE} of every job; job {job} has none")));
            }
        }
        PolicyName::MaxSum(Worth::Cost | Worth::CostSlo, _) => {
            let has_price = |kind: &str| options.prices.as_ref().and_then(|prices| prices.at(kind, 0.0)).is_some();
            if let Some(kind) = setting.types.iter().find(|kind| !has_price(&kind.name)) {
                return Err(missing(format!("a price of {}", kind.name)));
            }
            if name == PolicyName::MaxSum(Worth::Cost, crate::name::Awareness::Perf) {
                return Ok(());
            }
            if let Some(job) = (0..setting.jobs.len()).find(|&job| setting.jobs[job].deadline_seconds.is_none()) {
                return Err(missing(format!("a deadline of every job; job {} has none", bound.jobs[job].display_id())));
            }
        }
        PolicyName::Allox { .. } => {
            if let Some(job) = (0..setting.jobs.len()).find(|&job| setting.jobs[job].gpus != 1) {
                return Err(missing(format!("jobs of one GPU; job {} wants more", bound.jobs[job].display_id())));
            }
        }
        _ => {}
    }
    Ok(())
}

#[derive(Clone, Debug, Default)]
struct Progress {
    steps_done: f64,
    failures: u32,
    is_removed: bool,
    was_dispatched: bool,
}

/// A party at work in the present round.
struct MicroTask {
    assignment: Assignment,
    /// Steps of the members.
    steps: [f64; 2],
    finish_seconds: f64,
}

#[derive(Default)]
struct Leases {
    opportunities: u64,
    extensions: u64,
}

struct Simulation<'a> {
    policy_name: &'a str,
    setting: &'a Setting,
    options: &'a GavelOptions,
    policy: Box<dyn GavelPolicy>,
    rounds: Rounds<'a>,
    teller: Teller<'a>,
    reference_type: Option<usize>,
    prices: Option<Vec<f64>>,
    jobs: Vec<Progress>,
    next_arrival: usize,
    removed: usize,
    removed_in_window: u32,
    now_seconds: f64,
    round_start_seconds: f64,
    round_end_seconds: Option<f64>,
    running: Vec<MicroTask>,
    /// Where each job was in the round before.
    ran_before: HashMap<u32, Assignment>,
    idle_rounds: u32,
    busy_seconds: f64,
    leases: Leases,
    tally: GavelTally,
}

impl Simulation<'_> {
    fn run(mut self) -> Result<GavelTally, GavelError> {
        while !self.is_over() {
            self.advance_clock();
            self.refresh_prices();
            self.credit_all();
            self.admit();
            self.allocate()?;
            if self.options.ideal {
                self.run_ideally();
            } else {
                self.dispatch();
            }
            if self.idle_rounds > IDLE_ROUNDS_MAX {
                return Err(GavelError::Stuck {
                    policy: self.policy_name.to_owned(),
                    seconds: self.now_seconds,
                    jobs: self.setting.jobs.len() - self.removed,
                });
            }
        }
        self.teller.flush();
        let gpus = self.setting.types.iter().map(|kind| kind.gpus.len()).sum::<usize>() as f64;
        self.tally.end = moment(self.now_seconds);
        self.tally.makespan_seconds = self.now_seconds;
        self.tally.utilisation = if self.now_seconds > 0.0 { self.busy_seconds / self.now_seconds / gpus } else { 0.0 };
        self.tally.events = self.teller.told();
        self.tally.lease_extension_percent = 100.0 * self.leases.extensions as f64 / self.leases.opportunities.max(1) as f64;
        self.tally.objective = self.policy.objective();
        self.tally.arrivals_ended_early = self.options.window.is_some() && self.next_arrival == self.setting.jobs.len();
        Ok(self.tally)
    }

    fn is_over(&self) -> bool {
        let wanted = self.options.window.map(|(first, last)| last.saturating_sub(first).saturating_add(1));
        self.removed == self.setting.jobs.len() || wanted.is_some_and(|wanted| self.removed_in_window >= wanted)
    }

    fn next_arrival_seconds(&self) -> Option<f64> {
        self.setting.jobs.get(self.next_arrival).map(|job| job.arrival_seconds)
    }

    /// To the end of the round, or with nothing running to the next arrival. As Gavel does, the beginning of the next round is
    /// not moved over a gap, so that the gap is charged to the job that runs first after it.
    fn advance_clock(&mut self) {
        let latest = self.running.iter().map(|task| task.finish_seconds).reduce(f64::max);
        match (latest, self.next_arrival_seconds()) {
            (Some(latest), _) => {
                self.now_seconds = latest;
                self.round_start_seconds = self.round_end_seconds.unwrap_or(self.round_start_seconds);
                self.round_end_seconds = Some(latest);
            }
            (None, Some(arrival)) => self.now_seconds = arrival,
            // All jobs wait for a share that only a new allocation can give.
            (None, None) => self.rounds.last_reset_seconds = 0.0,
        }
    }

    fn refresh_prices(&mut self) {
        let Some(prices) = &self.options.prices else { return };
        let price = |kind: &crate::setting::WorkerType| prices.at(&kind.name, self.now_seconds).unwrap_or(0.0);
        let now = self.setting.types.iter().map(price).collect::<Vec<_>>();
        if self.prices.as_ref() != Some(&now) {
            self.prices = Some(now);
            self.rounds.stale = true;
        }
    }

    /// Credits the round's micro-tasks, the latest first.
    fn credit_all(&mut self) {
        let mut tasks = std::mem::take(&mut self.running);
        tasks.sort_by(|one, other| {
            let latest_first = other.finish_seconds.total_cmp(&one.finish_seconds);
            latest_first.then(one.assignment.party.id_order().cmp(&other.assignment.party.id_order()))
        });
        self.idle_rounds += 1;
        for task in tasks {
            self.credit(&task);
        }
    }

    fn credit(&mut self, task: &MicroTask) {
        let party = task.assignment.party;
        let seconds = task.finish_seconds - self.round_start_seconds;
        let workers = task.assignment.workers.len() as f64;
        // Steps are counted worker by worker; as Gavel does, fewer steps than workers count as a failure.
        let failed = party.members().zip(task.steps).any(|(_, steps)| {
            let each = (steps / workers).floor();
            (workers > 1.0 && each <= 0.0) || steps - (workers - 1.0) * each <= 0.0 || seconds <= 0.0
        });
        if failed {
            self.rounds.stale = true;
            if !party.is_pair() {
                let progress = &mut self.jobs[party.first as usize];
                progress.failures += 1;
                if progress.failures >= FAILURES_MAX {
                    self.teller.failed(party.first, task.finish_seconds);
                    self.remove(party.first);
                }
            }
            return;
        }
        self.idle_rounds = 0;
        self.busy_seconds += seconds * workers;
        self.rounds.note_time(party, task.assignment.kind, seconds);
        for (job, steps) in party.members().zip(task.steps) {
            if let Some(prices) = &self.prices {
                self.tally.cost_usd += prices[task.assignment.kind] * seconds / 3600.0 * workers;
            }
            self.jobs[job as usize].failures = 0;
            self.credit_steps(job, steps, task.finish_seconds);
        }
    }

    fn credit_steps(&mut self, job: u32, steps: f64, finish_seconds: f64) {
        let progress = &mut self.jobs[job as usize];
        progress.steps_done += steps;
        let settled = &self.setting.jobs[job as usize];
        if settled.steps - progress.steps_done <= 0.0 {
            self.tally.completions[job as usize] = Some(finish_seconds);
            let jct_seconds = finish_seconds - settled.arrival_seconds;
            // As Gavel does, a length of time is compared with a moment.
            self.tally.slo_violations += u32::from(settled.deadline_seconds.is_some_and(|deadline| jct_seconds > deadline));
            self.teller.finished(job, finish_seconds);
            self.remove(job);
        }
    }

    fn remove(&mut self, job: u32) {
        self.jobs[job as usize].is_removed = true;
        self.removed += 1;
        self.removed_in_window += u32::from(self.options.window.is_some_and(|(first, last)| (first..=last).contains(&job)));
        self.idle_rounds = 0;
        self.rounds.remove(job);
    }

    fn admit(&mut self) {
        while let Some(arrival) = self.next_arrival_seconds().filter(|&arrival| arrival <= self.now_seconds) {
            let job = self.next_arrival as u32;
            self.teller.submitted(job, arrival);
            self.rounds.add(job);
            self.next_arrival += 1;
            self.idle_rounds = 0;
        }
    }

    /// Computes shares if something changed and long enough ago they were computed.
    fn allocate(&mut self) -> Result<(), GavelError> {
        if !self.rounds.must_reset(self.now_seconds, self.options.reset_seconds) {
            return Ok(());
        }
        let steps_left = |job: u32| self.setting.jobs[job as usize].steps - self.jobs[job as usize].steps_done;
        let state = RoundState {
            now_seconds: self.now_seconds,
            steps_left: &steps_left,
            prices: self.prices.as_deref(),
            reference_type: self.reference_type,
        };
        let begun = Instant::now();
        self.rounds.reset(self.policy.as_mut(), &state)?;
        let spent = begun.elapsed().as_secs_f64();
        self.tally.decisions += 1;
        self.tally.decision_seconds += spent;
        self.tally.decision_seconds_max = self.tally.decision_seconds_max.max(spent);
        Ok(())
    }

    /// Starts the next round.
    fn dispatch(&mut self) {
        let assignments = self.rounds.choose();
        let mut runs = HashMap::new();
        for assignment in &assignments {
            for job in assignment.party.members() {
                runs.insert(job, assignment.clone());
            }
        }
        for (job, place) in &self.ran_before {
            let is_active = |member: u32| !self.jobs[member as usize].is_removed;
            if *job == place.party.first && place.party.members().all(is_active) {
                self.leases.opportunities += 1;
                self.leases.extensions += u64::from(runs.get(job) == Some(place));
            }
        }
        let now_seconds = self.now_seconds;
        let told = assignments
            .iter()
            .flat_map(|assignment| assignment.party.members().map(|job| (job, assignment.kind, assignment.workers.as_slice())));
        self.teller.round(now_seconds, self.setting, told);
        self.tally.rounds += u64::from(!assignments.is_empty());
        self.running = assignments.into_iter().map(|assignment| self.micro_task(assignment)).collect();
        for job in runs.keys() {
            self.jobs[*job as usize].was_dispatched = true;
        }
        self.ran_before = runs;
    }

    /// The steps that a party makes in the round that begins now, and when it is done with them.
    fn micro_task(&self, assignment: Assignment) -> MicroTask {
        let mut steps = [0.0; 2];
        let mut finish_seconds = self.now_seconds;
        for (place, job) in assignment.party.members().enumerate() {
            let progress = &self.jobs[job as usize];
            let before = self.ran_before.get(&job);
            let stayed = before.is_some_and(|before| before.kind == assignment.kind && before.workers == assignment.workers);
            let lost_seconds = if progress.was_dispatched && !stayed { self.options.restart_cost_seconds } else { 0.0 };
            let speed = assignment.speeds[place];
            let left = self.setting.jobs[job as usize].steps - progress.steps_done;
            steps[place] = (speed * (self.options.round_seconds - lost_seconds)).floor().min(left);
            let done = self.now_seconds + (lost_seconds + steps[place] / speed);
            finish_seconds = finish_seconds.max(done);
        }
        MicroTask { assignment, steps, finish_seconds }
    }

    /// Without rounds: every job has its share exactly until the next arrival, or for the length of a round after the last.
    fn run_ideally(&mut self) {
        let next_seconds = self.next_arrival_seconds().unwrap_or(self.now_seconds + self.options.round_seconds);
        let seconds = next_seconds - self.now_seconds;
        let mut made: HashMap<u32, f64> = HashMap::new();
        for (party, _, share, speeds) in self.rounds.each_share() {
            for (place, job) in party.members().enumerate() {
                *made.entry(job).or_default() += (share * seconds * speeds[place]).floor();
            }
        }
        let mut made = made.into_iter().collect::<Vec<_>>();
        made.sort_by_key(|&(job, _)| job);
        self.tally.rounds += 1;
        self.idle_rounds += 1;
        for (job, steps) in made {
            self.idle_rounds = if steps > 0.0 { 0 } else { self.idle_rounds };
            self.credit_steps(job, steps, next_seconds);
        }
        self.now_seconds = next_seconds;
        let nobody = std::iter::empty::<(u32, usize, &[u32])>();
        self.teller.round(self.now_seconds, self.setting, nobody);
    }
}
