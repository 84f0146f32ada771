//! The classroom one choice at a time, as [`super::queue`] plays it, made for speed: tasks are numbers in arrays, time goes in whole
//! seconds, and what a chooser sees is renewed in place.
//!
//! It plays the simplest kind of classroom: GPUs of one type and of the usual speed on one node, at most [`TASKS_MAX`] tasks which all wait
//! at the start, each shorter than [`RING`] seconds. [`Classroom::new`] gives `None` for any other, and the queue plays that. What must
//! hold: rows, masks, rewards and outcomes are those of the queue (`tests/stepping.rs` compares them).

use super::queue::{self, Cost};
use super::{BadChoice, Environment, Outcome, Step, View};
use rota_core::random::RandomStream;
use rota_core::{Cluster, GpuType, Score};
use rota_sim::{Mechanism, SimOptions};
use rota_trace::generate;
use std::sync::Arc;

/// Features of a row: those of [`crate::features`] that differ between the tasks of a classroom. The first [`RESTLESS`] change while a task
/// waits.
pub const FEATURES: [&str; WIDTH] = [
    "free",
    "log_queue",
    "fits_now",
    "log_earliest_start",
    "alignment",
    "log_wait",
    "log_slowdown",
    "log_estimate",
    "share",
    "memory",
    "log_area",
    "priority",
];
const WIDTH: usize = 12;
const RESTLESS: usize = 7;
const FREE: usize = 0;
const QUEUE: usize = 1;
const FITS: usize = 2;
const EARLIEST: usize = 3;
const ALIGNMENT: usize = 4;
const LOG_WAIT: usize = 5;
const SLOWDOWN: usize = 6;

/// The most tasks.
pub const TASKS_MAX: usize = 64;
/// The most GPUs.
const GPUS_MAX: usize = 8;
/// Seconds that the ring of ends goes round.
pub const RING: usize = 64;
/// Seconds whose logarithms are kept.
const SECONDS_KEPT: usize = 512;
/// Tasks that are looked at in one go.
const LANES: usize = 8;
/// Run times below this count as this in slowdowns.
const SHORTEST: usize = 10;
/// No second at all.
const NEVER: usize = usize::MAX;
/// The row that stands for waiting.
const WAIT: usize = 0;

/// What stays the same over all episodes.
#[derive(Clone)]
struct Setting {
    config: Arc<generate::Classroom>,
    gpus: usize,
    kind: GpuType,
    cost: Cost,
    may_wait: bool,
    /// The least share in thousandths, and the least memory, that a task may need.
    least: (i32, i32),
}

/// Logarithms of whole seconds, as features have them.
#[derive(Clone)]
struct Logarithms {
    /// Of one more than so many seconds.
    of: Vec<f32>,
    /// Of the slowdown: for each second waited a row with a number for each run time.
    slowdown: Vec<[f32; RING]>,
    /// Of the number of waiting tasks.
    queue: [f32; TASKS_MAX + 1],
    /// Of share × run time, by run time, then by share in per cent.
    area: Vec<f32>,
}

fn log(value: f64, scale: f64) -> f32 {
    (value.ln_1p() / scale) as f32
}

/// The logarithm of the slowdown after so many seconds, for each run time.
fn slowdowns(waited: usize) -> [f32; RING] {
    std::array::from_fn(|run| log(waited as f64 / run.max(SHORTEST) as f64, 5.0))
}

impl Logarithms {
    fn new(longest: usize) -> Self {
        let areas = (0..=longest).flat_map(|run| (0..=100).map(move |share| log(run as f64 * f64::from(share) / 100.0, 15.0)));
        Self {
            of: (0..SECONDS_KEPT).map(|seconds| log(seconds as f64, 10.0)).collect(),
            slowdown: (0..SECONDS_KEPT).map(slowdowns).collect(),
            queue: std::array::from_fn(|tasks| log(tasks as f64, 6.0)),
            area: areas.collect(),
        }
    }

    fn seconds(&self, seconds: usize) -> f32 {
        self.of.get(seconds).copied().unwrap_or_else(|| log(seconds as f64, 10.0))
    }
}

/// The tasks that wait, in order of arrival: one array for each thing that is known of them.
#[derive(Clone)]
struct Waiting {
    count: usize,
    /// Thousandths of a GPU. Whole numbers, so that comparisons are exact.
    share: [f32; TASKS_MAX],
    memory_mib: [f32; TASKS_MAX],
    run: [u8; TASKS_MAX],
    /// How well a task goes with the GPU that suits it best; 0 if it fits nowhere, and above 0 if it fits, because every task has a share.
    alignment: [f32; TASKS_MAX],
    /// 1 for a task that fits, 0 for one that does not.
    fits: [f32; TASKS_MAX],
}

/// A GPU of the classroom, with what its tasks use.
#[derive(Clone, Copy, Default)]
struct Left {
    share: i32,
    memory_mib: i32,
    tasks: u32,
}

/// A task on a GPU.
#[derive(Clone, Copy, Default)]
struct Running {
    gpu: u8,
    run: u8,
    share: i32,
    memory_mib: i32,
}

/// Sums over what has happened.
#[derive(Clone, Copy, Default)]
struct Sums {
    wait_seconds: f64,
    run_seconds: f64,
    makespan_seconds: f64,
    watt_hours: f64,
    slowdowns: f64,
    reward: f64,
}

/// The classroom as an environment that is played step by step.
#[derive(Clone)]
pub struct Classroom {
    setting: Setting,
    logarithms: Logarithms,
    now: usize,
    /// The second that the rows were renewed for.
    shown_at: usize,
    tasks: usize,
    waiting: Waiting,
    left: [Left; GPUS_MAX],
    running: [Running; TASKS_MAX],
    running_count: usize,
    /// Places in `running` that are taken.
    taken: u64,
    /// The tasks that end in each second of the ring, as places in `running`.
    ends: [u64; RING],
    /// The seconds of the ring in which tasks end.
    busy_seconds: u64,
    sums: Sums,
    cost_so_far: f64,
    rows: Vec<f32>,
    legal: Vec<bool>,
    /// The waiting tasks that fit, a bit each.
    fitting: u64,
    is_over: bool,
}

impl Classroom {
    /// An environment at the episode of seed 0; `None` if this classroom is for the queue to play.
    pub fn new(
        config: &generate::Classroom,
        cluster: &Cluster,
        options: &SimOptions,
        cost: Cost,
        may_wait: bool,
    ) -> Option<Self> {
        let [kind] = &cluster.types[..] else { return None };
        let gpus = cluster.gpus.len();
        let longest = config.types.iter().map(|kind| kind.duration_steps.1).max().unwrap_or(0) as usize;
        let is_plain_task = |task: &generate::TaskType| {
            task.gpu_percent.0 >= 1
                && task.gpu_percent.1 < 100
                && task.duration_steps.0 >= 1
                && (task.duration_steps.1 as usize) < RING
                && u64::from(config.gpu_memory_mib) * u64::from(task.memory_percent.1) / 100 <= u64::from(kind.memory_mib)
        };
        let is_plain_cluster = (1..=GPUS_MAX).contains(&gpus)
            && cluster.nodes.len() == 1
            && cluster.outages.is_empty()
            && kind.speed.to_bits() == 1.0_f64.to_bits();
        let is_plain_run = matches!(options.score, Score::Consolidate | Score::BestFit)
            && options.faults.is_none()
            && options.mechanism == Mechanism::Event
            && options.window.is_none();
        let is_plain_class = config.jobs.unwrap_or(config.tasks.1) as usize <= TASKS_MAX
            && config.jobs_per_hour <= 0.0
            && config.seconds_per_step.to_bits() == 1.0_f64.to_bits()
            && config.types.iter().all(is_plain_task);
        if !(is_plain_cluster && is_plain_run && is_plain_class) {
            return None;
        }
        let least_percent = |of: fn(&generate::TaskType) -> u32| config.types.iter().map(of).min().unwrap_or(0);
        let least_mib = u64::from(config.gpu_memory_mib) * u64::from(least_percent(|task| task.memory_percent.0)) / 100;
        let least_share = least_percent(|task| task.gpu_percent.0).cast_signed() * 10;
        let least = (least_share, i32::try_from(least_mib).unwrap_or(i32::MAX));
        let mut environment = Self {
            setting: Setting { config: Arc::new(config.clone()), gpus, kind: kind.clone(), cost, may_wait, least },
            logarithms: Logarithms::new(longest),
            now: 0,
            shown_at: NEVER,
            tasks: 0,
            waiting: Waiting {
                count: 0,
                share: [0.0; TASKS_MAX],
                memory_mib: [0.0; TASKS_MAX],
                run: [0; TASKS_MAX],
                alignment: [0.0; TASKS_MAX],
                fits: [0.0; TASKS_MAX],
            },
            left: [Left::default(); GPUS_MAX],
            running: [Running::default(); TASKS_MAX],
            running_count: 0,
            taken: 0,
            ends: [0; RING],
            busy_seconds: 0,
            sums: Sums::default(),
            cost_so_far: 0.0,
            rows: vec![0.0; (TASKS_MAX + 1) * WIDTH],
            legal: vec![true; TASKS_MAX + 1],
            fitting: 0,
            is_over: false,
        };
        environment.reset(0);
        Some(environment)
    }

    /// Takes a drawn task in behind the others, with what does not change while it waits.
    fn push(&mut self, task: &generate::ClassroomTask) {
        let place = self.waiting.count;
        let run = task.duration_seconds as usize;
        self.waiting.share[place] = f32::from(task.share.0);
        self.waiting.memory_mib[place] = task.memory_mib as f32;
        self.waiting.run[place] = run as u8;
        self.waiting.count += 1;
        let largest = f64::from(self.setting.kind.memory_mib.max(1));
        let row = &mut self.rows[(place + 1) * WIDTH..(place + 2) * WIDTH];
        row[RESTLESS..].copy_from_slice(&[
            self.logarithms.of[run],
            task.share.fraction() as f32,
            (f64::from(task.memory_mib) / largest) as f32,
            self.logarithms.area[run * 101 + usize::from(task.share.0 / 10)],
            (f64::from(task.priority.clamp(-100, 100)) / 5.0) as f32,
        ]);
    }

    /// Finds which waiting tasks fit, and how well. Says whether any does.
    fn fit(&mut self) -> bool {
        let largest = self.setting.kind.memory_mib.max(1) as f32;
        let (least_share, least_mib) = self.setting.least;
        let Waiting { count, share, memory_mib, alignment, .. } = &mut self.waiting;
        // GPUs without room for the smallest task need no look.
        let has_room = |left: &&Left| left.share >= least_share && left.memory_mib >= least_mib;
        let mut is_first = true;
        for left in self.left[..self.setting.gpus].iter().filter(has_room) {
            let (free, free_mib) = (left.share as f32, left.memory_mib as f32);
            let (by_share, by_memory) = (free * 1e-6, free_mib / (largest * largest));
            let tasks = share.as_chunks::<LANES>().0.iter().zip(memory_mib.as_chunks::<LANES>().0);
            for ((share, memory_mib), alignment) in tasks.zip(alignment.as_chunks_mut::<LANES>().0).take(count.div_ceil(LANES)) {
                let mut best = if is_first { [0.0; LANES] } else { *alignment };
                for ((share, memory_mib), best) in share.iter().zip(memory_mib).zip(&mut best) {
                    let value = share * by_share + memory_mib * by_memory;
                    let (left, left_mib) = (free - share, free_mib - memory_mib);
                    let least = if left < left_mib { left } else { left_mib };
                    let here = if least >= 0.0 { value } else { 0.0 };
                    *best = if here > *best { here } else { *best };
                }
                *alignment = best;
            }
            is_first = false;
        }
        // Bits that are not all zero belong to a number above 0.
        !is_first && alignment[..*count].iter().fold(0, |bits, alignment| bits | alignment.to_bits()) != 0
    }

    /// The seconds until the next task ends; 0 if none runs.
    fn seconds_to_end(&self) -> usize {
        let ahead = self.busy_seconds.rotate_right((self.now % RING) as u32);
        if ahead == 0 { 0 } else { ahead.trailing_zeros() as usize }
    }

    /// Renews what a chooser sees after [`Self::fit`] found a task that fits.
    fn look(&mut self) {
        let count = self.waiting.count;
        let free = self.left[..self.setting.gpus].iter().map(|left| left.share).sum::<i32>();
        let free = free as f32 / (1000 * self.setting.gpus) as f32;
        let queue = self.logarithms.queue[count];
        let earliest = self.logarithms.seconds(self.seconds_to_end());
        (self.rows[FREE], self.rows[QUEUE]) = (free, queue);
        self.legal[WAIT] = self.setting.may_wait && self.running_count > 0;
        if self.shown_at != self.now {
            self.renew_waits();
        }
        let Waiting { alignment, fits, .. } = &mut self.waiting;
        let chunks = fits.as_chunks_mut::<LANES>().0.iter_mut().zip(alignment.as_chunks::<LANES>().0);
        for (fits, alignment) in chunks.take(count.div_ceil(LANES)) {
            *fits = alignment.map(|alignment| if alignment > 0.0 { 1.0 } else { 0.0 });
        }
        let (rows, _) = self.rows[WIDTH..].as_chunks_mut::<WIDTH>();
        let tasks = alignment[..count].iter().zip(&fits[..count]).zip(&mut rows[..count]).zip(&mut self.legal[1..=count]);
        let mut fitting = 0;
        // Whether a task fits is as good as random: products instead of branches, which would be guessed wrong.
        for (task, (((alignment, fits), row), legal)) in tasks.enumerate() {
            row[FREE] = free;
            row[QUEUE] = queue;
            row[FITS] = *fits;
            row[EARLIEST] = earliest * (1.0 - *fits);
            row[ALIGNMENT] = *alignment;
            *legal = *fits > 0.0;
            fitting |= u64::from(*legal) << task;
        }
        self.fitting = fitting;
    }

    /// Renews what time alone changes.
    fn renew_waits(&mut self) {
        self.shown_at = self.now;
        let wait = self.logarithms.seconds(self.now);
        let beyond;
        let slowdowns = if let Some(kept) = self.logarithms.slowdown.get(self.now) {
            kept
        } else {
            beyond = slowdowns(self.now);
            &beyond
        };
        let (rows, _) = self.rows[WIDTH..].as_chunks_mut::<WIDTH>();
        for (run, row) in self.waiting.run[..self.waiting.count].iter().zip(rows) {
            (row[LOG_WAIT], row[SLOWDOWN]) = (wait, slowdowns[usize::from(*run) % RING]);
        }
    }

    /// Goes on until a task fits, or to the end.
    fn go_on(&mut self) {
        loop {
            if self.running_count == 0 {
                self.is_over = true;
                self.rows[..WIDTH].fill(0.0);
                self.legal[WAIT] = true;
                return;
            }
            self.next_end();
            if self.waiting.count > 0 && self.fit() {
                self.look();
                return;
            }
        }
    }

    /// Goes on to the next second in which tasks end.
    fn next_end(&mut self) {
        let seconds = self.seconds_to_end();
        self.now += seconds;
        self.sums.wait_seconds += (seconds * self.waiting.count) as f64;
        self.sums.run_seconds += (seconds * self.running_count) as f64;
        self.sums.makespan_seconds = self.now as f64;
        let second = self.now % RING;
        let mut ending = std::mem::take(&mut self.ends[second]);
        self.busy_seconds &= !(1 << second);
        self.taken &= !ending;
        self.running_count -= ending.count_ones() as usize;
        let GpuType { idle_watts, full_watts, .. } = self.setting.kind;
        while ending != 0 {
            let Running { gpu, run, share, memory_mib } = self.running[ending.trailing_zeros() as usize];
            ending &= ending - 1;
            let left = &mut self.left[usize::from(gpu)];
            left.share += share;
            left.memory_mib += memory_mib;
            left.tasks -= 1;
            let watts = (idle_watts + (full_watts - idle_watts)) * f64::from(share) / 1000.0;
            self.sums.watt_hours += watts * f64::from(run) / 3600.0;
            self.sums.slowdowns += (self.now as f64 / usize::from(run).max(SHORTEST) as f64).max(1.0);
        }
    }

    /// The GPU that a task gets: of those in use the one with the least memory free, then with the least share; or the first idle one.
    fn place(&self, share: i32, memory_mib: i32) -> usize {
        let mut best = u64::MAX;
        for (place, left) in self.left[..self.setting.gpus].iter().enumerate() {
            let in_use = (left.memory_mib as u64) << 24 | (left.share as u64) << 8;
            let key = if left.tasks == 0 { 1 << 63 } else { in_use } | place as u64;
            let has_room = left.share >= share && left.memory_mib >= memory_mib;
            best = best.min(if has_room { key } else { u64::MAX });
        }
        best as usize % GPUS_MAX
    }

    fn start(&mut self, task: usize) {
        let Waiting { count, share, memory_mib, run, .. } = &mut self.waiting;
        let started = Running { gpu: 0, run: run[task], share: share[task] as i32, memory_mib: memory_mib[task] as i32 };
        share.copy_within(task + 1..*count, task);
        memory_mib.copy_within(task + 1..*count, task);
        run.copy_within(task + 1..*count, task);
        self.rows.copy_within((task + 2) * WIDTH..(*count + 1) * WIDTH, (task + 1) * WIDTH);
        *count -= 1;
        let gpu = self.place(started.share, started.memory_mib);
        let left = &mut self.left[gpu];
        left.share -= started.share;
        left.memory_mib -= started.memory_mib;
        left.tasks += 1;
        let slot = (!self.taken).trailing_zeros() as usize;
        self.running[slot] = Running { gpu: gpu as u8, ..started };
        self.taken |= 1 << slot;
        self.running_count += 1;
        let second = (self.now + usize::from(started.run)) % RING;
        self.ends[second] |= 1 << slot;
        self.busy_seconds |= 1 << second;
    }

    fn cost(&self) -> f64 {
        let tasks = self.tasks.max(1) as f64;
        match self.setting.cost {
            Cost::Wait => self.sums.wait_seconds / tasks,
            Cost::Jct => (self.sums.wait_seconds + self.sums.run_seconds) / tasks,
            Cost::Makespan => self.sums.makespan_seconds,
            Cost::Energy => self.sums.watt_hours,
            Cost::Bsld => self.sums.slowdowns / tasks,
        }
    }

    fn shown(&self) -> usize {
        if self.is_over { 1 } else { self.waiting.count + 1 }
    }
}

impl Environment for Classroom {
    fn features(&self) -> &'static [&'static str] {
        &FEATURES
    }

    fn reset(&mut self, seed: u64) {
        let memory_mib = i32::try_from(self.setting.kind.memory_mib).unwrap_or(i32::MAX);
        let empty = Left { share: 1000, memory_mib, tasks: 0 };
        self.left.fill(empty);
        self.ends.fill(0);
        (self.now, self.running_count, self.taken, self.busy_seconds) = (0, 0, 0, 0);
        (self.sums, self.cost_so_far, self.is_over, self.shown_at) = (Sums::default(), 0.0, false, NEVER);
        self.waiting.count = 0;
        let config = Arc::clone(&self.setting.config);
        config.each_task(seed, |task| self.push(&task));
        self.tasks = self.waiting.count;
        self.fit();
        self.look();
    }

    fn view(&self) -> View<'_> {
        View { rows: &self.rows[..self.shown() * WIDTH], legal: &self.legal[..self.shown()] }
    }

    fn step(&mut self, choice: usize) -> Result<Step, BadChoice> {
        let rows = self.shown();
        if choice >= rows || !self.legal[choice] {
            return Err(BadChoice { choice, rows });
        }
        if self.is_over {
            return Ok(Step { reward: 0.0, done: true });
        }
        if choice == WAIT {
            self.go_on();
        } else {
            self.start(choice - 1);
            if self.waiting.count > 0 && self.fit() {
                self.look();
            } else {
                self.go_on();
            }
        }
        let cost = self.cost();
        let reward = std::mem::replace(&mut self.cost_so_far, cost) - cost;
        self.sums.reward += reward;
        Ok(Step { reward, done: self.is_over })
    }

    fn choice_of(&self, rule: usize, stream: &mut RandomStream) -> usize {
        if self.is_over {
            return WAIT;
        }
        let first = |fitting: u64| if fitting == 0 { WAIT } else { fitting.trailing_zeros() as usize + 1 };
        match queue::RULES.get(rule) {
            Some(&"fcfs") => first(self.fitting),
            Some(&"sjf") => {
                let jobs = (1..self.shown()).filter(|row| self.legal[*row]);
                jobs.min_by_key(|row| self.waiting.run[row - 1]).unwrap_or(WAIT)
            }
            _ => {
                let waits = u64::from(self.legal[WAIT]);
                let wanted = stream.below(waits + u64::from(self.fitting.count_ones()));
                if wanted < waits {
                    return WAIT;
                }
                first((waits..wanted).fold(self.fitting, |left, _| left & (left - 1)))
            }
        }
    }

    fn rules(&self) -> Vec<&'static str> {
        queue::RULES.to_vec()
    }

    fn outcome(&self) -> Outcome {
        let ended = (self.tasks - self.waiting.count - self.running_count).max(1) as f64;
        Outcome {
            reward: self.sums.reward,
            wait_mean_s: self.sums.wait_seconds / ended,
            makespan_s: self.sums.makespan_seconds,
            bsld_mean: self.sums.slowdowns / ended,
            jct_mean_s: (self.sums.wait_seconds + self.sums.run_seconds) / ended,
            energy_kwh: Some(self.sums.watt_hours / 1000.0),
            lost: (self.waiting.count + self.running_count) as u64,
        }
    }
}
