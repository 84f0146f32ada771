//! Looks at the GPUs: who is on them, what they draw, what each job takes of that; samples for the store, thinned with age.

use crate::api::{self, GpuState};
use crate::config::OnLoss;
use crate::machine::inventory::Machine;
use crate::machine::platform::{Look, Platform};
use crate::memory::sharing::group_of;
use crate::past::runs::{IDLE_PERCENT, Measure, measured_between};
use crate::queue::world::LiveWorld;
use crate::store::record::JobRecord;
use rota_core::event::EventKind;
use rota_core::{Event, GpuId, MilliGpu, Slice, StopCause};
use rota_engine::State;
use rusqlite::params;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A device that gave no answer so often in a row is lost even if the driver does not say so.
const SILENT_LOOKS_MAX: u32 = 3;
/// Seconds of samples that are written together.
const WRITE_SECONDS: i64 = 30;
/// Seconds a thinned sample stands for.
const COARSE_SECONDS: i64 = 60;

/// What is kept from look to look.
pub(crate) struct Telemetry {
    /// What strangers hold of each GPU.
    pub strangers: Vec<Slice>,
    /// What jobs take of each GPU's memory beyond what they were given.
    pub overused_mib: Vec<u32>,
    /// Attempts whose overuse was written down.
    pub marked: HashSet<(u64, u32)>,
    /// The last look.
    pub looks: Vec<Look>,
    energy_joules: Vec<Option<f64>>,
    silent: Vec<u32>,
    looked_ns: Vec<Option<u64>>,
    gpu_sums: Vec<Sum>,
    job_sums: HashMap<u64, Sum>,
    /// What was measured of the runs under way, by job and attempt.
    runs: HashMap<(u64, u32), Measure>,
    sample_began_s: Option<i64>,
    pending: Vec<Sample>,
    thinned_s: i64,
}

/// Sums of what was seen since the last sample.
#[derive(Clone, Default)]
struct Sum {
    /// Of a job with several GPUs, one for each of them.
    looks: f64,
    memory_mib: Option<f64>,
    utilisation: Option<f64>,
    memory_utilisation: Option<f64>,
    power_watts: Option<f64>,
    temperature_c: Option<f64>,
}

enum Whose {
    Gpu(String),
    Job(u64),
}

struct Sample {
    whose: Whose,
    wall_s: i64,
    span_s: i64,
    mean: Sum,
}

fn add(sum: &mut Option<f64>, value: Option<f64>) {
    if let Some(value) = value {
        *sum.get_or_insert(0.0) += value;
    }
}

impl Telemetry {
    pub fn new(gpus: usize) -> Self {
        Self {
            strangers: vec![Slice::default(); gpus],
            overused_mib: vec![0; gpus],
            marked: HashSet::new(),
            looks: vec![Look::default(); gpus],
            energy_joules: vec![None; gpus],
            silent: vec![0; gpus],
            looked_ns: vec![None; gpus],
            gpu_sums: vec![Sum::default(); gpus],
            job_sums: HashMap::new(),
            runs: HashMap::new(),
            sample_began_s: None,
            pending: Vec::new(),
            thinned_s: 0,
        }
    }

    /// The same for other GPUs: what is known of those that are still there is kept.
    pub fn moved(mut self, before: &Machine, now: &Machine) -> Self {
        let mut moved = Self::new(now.devices.len());
        for (index, device) in now.devices.iter().enumerate() {
            let Some(old) = before.gpu_of(&device.uuid).map(GpuId::index) else { continue };
            moved.strangers[index] = self.strangers[old];
            moved.overused_mib[index] = self.overused_mib[old];
            moved.looks[index] = std::mem::take(&mut self.looks[old]);
            moved.energy_joules[index] = self.energy_joules[old];
            moved.silent[index] = self.silent[old];
            moved.looked_ns[index] = self.looked_ns[old];
            moved.gpu_sums[index] = std::mem::take(&mut self.gpu_sums[old]);
        }
        Self {
            marked: self.marked,
            job_sums: self.job_sums,
            runs: self.runs,
            sample_began_s: self.sample_began_s,
            pending: self.pending,
            thinned_s: self.thinned_s,
            ..moved
        }
    }

    /// What was measured of the present run of a job.
    pub fn measure_of(&self, record: &JobRecord) -> Measure {
        self.runs.get(&(record.id, record.attempts)).copied().unwrap_or_default()
    }

    /// A job has left its GPUs: what was seen of it since the last sample is a sample of its own, so that a short job has one.
    pub fn end_run(&mut self, record: &JobRecord, now_s: i64) {
        self.runs.remove(&(record.id, record.attempts));
        if let Some(sum) = self.job_sums.remove(&record.id) {
            let sample = self.sample_of(record, &sum, now_s);
            self.pending.push(sample);
        }
    }

    /// What a job did since the last sample, or since it began if that was later.
    fn sample_of(&self, record: &JobRecord, sum: &Sum, now_s: i64) -> Sample {
        let started_s = record.started_ns.map_or(i64::MIN, |started| started / 1_000_000_000);
        let span_s = (now_s - self.sample_began_s.unwrap_or(now_s).max(started_s)).max(1);
        let mut mean = sum.mean();
        let gpus = record.gpu_uuids.len() as f64;
        mean.power_watts = mean.power_watts.map(|watts| watts * gpus);
        Sample { whose: Whose::Job(record.id), wall_s: now_s, span_s, mean }
    }
}

impl Sum {
    fn mean(&self) -> Self {
        let mean = |sum: Option<f64>| sum.map(|sum| sum / self.looks);
        Self {
            looks: 1.0,
            memory_mib: mean(self.memory_mib),
            utilisation: mean(self.utilisation),
            memory_utilisation: mean(self.memory_utilisation),
            power_watts: mean(self.power_watts),
            temperature_c: mean(self.temperature_c),
        }
    }
}

impl<P: Platform> LiveWorld<P> {
    /// The jobs that have each GPU, by its UUID.
    fn runs_by_gpu(&self) -> HashMap<String, Vec<Arc<JobRecord>>> {
        let mut runs = HashMap::<String, Vec<Arc<JobRecord>>>::new();
        for record in self.running() {
            for uuid in &record.gpu_uuids {
                runs.entry(uuid.clone()).or_default().push(Arc::clone(record));
            }
        }
        runs
    }

    /// Takes in looks at some GPUs, or at all. A look at a GPU that is not there any more says nothing.
    pub(crate) fn take_looks(&mut self, looks: Vec<(String, Look)>, state: &State, events: &mut Vec<Event>) {
        let now_ns = self.platform.now().0;
        let runs = self.runs_by_gpu();
        let on = |uuid: &str| runs.get(uuid).map_or(&[][..], Vec::as_slice);
        let mut gpus = Vec::with_capacity(looks.len());
        for (uuid, mut look) in looks {
            let Some(gpu) = self.devices.machine.gpu_of(&uuid) else { continue };
            self.bring_home(&uuid, &mut look);
            let before_ns = self.devices.telemetry.looked_ns[gpu.index()].replace(now_ns);
            let seconds = before_ns.map_or(0.0, |before| now_ns.saturating_sub(before) as f64 / 1e9);
            self.note_loss(gpu, &look, events);
            self.devices.telemetry.strangers[gpu.index()] = self.strangers_on(gpu, &look);
            self.measure(gpu, &look, seconds, on(&uuid));
            self.devices.telemetry.looks[gpu.index()] = look;
            self.devices.unseen.remove(&gpu);
            gpus.push((gpu, uuid));
        }
        self.tend_clients();
        for (gpu, uuid) in &gpus {
            self.watch_overuse(*gpu, on(uuid), events);
        }
        self.occupy_all(gpus.into_iter().map(|(gpu, _)| gpu), state, events);
        let running = self.running().map(|record| (record.id, record.attempts)).collect::<HashSet<_>>();
        self.devices.telemetry.marked.retain(|run| running.contains(run));
        self.devices.telemetry.runs.retain(|run, _| running.contains(run));
        self.pace.awaits_look = false;
        self.show_gpus(state);
        self.sample();
    }

    /// A device that went or came back.
    fn note_loss(&mut self, gpu: GpuId, look: &Look, events: &mut Vec<Event>) {
        let silent = &mut self.devices.telemetry.silent[gpu.index()];
        *silent = if look.reading.is_some() { 0 } else { *silent + 1 };
        let is_lost = look.is_lost || *silent >= SILENT_LOOKS_MAX;
        let index = self.devices.machine.devices[gpu.index()].index;
        if !is_lost && look.reading.is_some() && self.devices.lost.remove(&gpu) {
            // What the store refuses is known until the daemon ends.
            let uuid = self.devices.machine.name(gpu);
            _ = self.commit(vec![EventKind::DeviceReturned { gpu: uuid }.into()], events);
        }
        if !is_lost || !self.devices.lost.insert(gpu) {
            return;
        }
        let uuid = self.devices.machine.devices[gpu.index()].uuid.clone();
        _ = self.commit(vec![EventKind::DeviceLost { gpu: uuid.clone() }.into()], events);
        let affected = self.running().filter(|record| record.gpu_uuids.contains(&uuid)).cloned();
        for record in affected.collect::<Vec<_>>() {
            let cause = match self.config.jobs.on_gpu_loss {
                OnLoss::Requeue => StopCause::Evict,
                OnLoss::Fail => StopCause::Fail(format!("GPU {index} was lost under it")),
            };
            self.stop(&record, cause, true, events);
        }
    }

    /// The free-GPU rule: what processes that are not of the jobs on a GPU hold of it.
    fn strangers_on(&self, gpu: GpuId, look: &Look) -> Slice {
        let Some(reading) = &look.reading else { return Slice::default() };
        let rule = &self.config.gpus;
        let uuid = &self.devices.machine.devices[gpu.index()].uuid;
        let is_at_home = |job: u64| self.records.jobs.get(&job).is_some_and(|record| record.is_on(uuid));
        let mut memory_mib = 0;
        let mut present = false;
        let mut known_mib = 0;
        for process in &look.processes {
            known_mib += process.memory_mib.unwrap_or(0);
            // Anybody can call a program `Xorg`; a small one does no harm.
            let is_small = process.memory_mib.is_none_or(|memory| memory <= rule.ignore_memory_mib);
            let ignored = process.name.as_ref().is_some_and(|name| is_small && rule.ignore_processes.contains(name))
                || process.user.as_ref().is_some_and(|user| rule.ignore_users.contains(user))
                || process.memory_mib.is_some_and(|memory| rule.stranger_memory_mib > 0 && memory <= rule.stranger_memory_mib);
            if process.job.is_some_and(is_at_home) {
                continue;
            }
            memory_mib += process.memory_mib.unwrap_or(0);
            present |= !ignored;
        }
        let unowned = reading.memory_used_mib.saturating_sub(known_mib);
        if unowned > rule.unowned_memory_mib {
            memory_mib += unowned;
            present = true;
        }
        present |= look.processes.is_empty() && reading.utilisation_percent.is_some_and(|busy| busy > rule.busy_percent);
        let share = match (present, rule.share_with_strangers) {
            (false, _) => MilliGpu(0),
            (true, true) => MilliGpu(1),
            (true, false) => MilliGpu::WHOLE,
        };
        Slice { share, memory_mib: if present { u32::try_from(memory_mib).unwrap_or(u32::MAX) } else { 0 }, ..Slice::default() }
    }

    /// Energy and memory of the jobs on a GPU. What it drew is shared by their use of it where the driver tells, and equally otherwise.
    fn measure(&mut self, gpu: GpuId, look: &Look, seconds: f64, on_it: &[Arc<JobRecord>]) {
        let Some(reading) = &look.reading else { return };
        let counter = reading.energy_joules;
        let before = std::mem::replace(&mut self.devices.telemetry.energy_joules[gpu.index()], counter);
        let by_power = reading.power_watts.map(|watts| watts * seconds);
        let drawn = match (before, counter) {
            // A counter that went back was reset with the driver.
            (Some(before), Some(now)) if now >= before => Some(now - before),
            _ => by_power,
        };
        let uuid = self.devices.machine.devices[gpu.index()].uuid.clone();
        self.board.metrics.drew(&uuid, drawn);
        let use_of = |job: u64| {
            let of_job = |process: &&rota_gpu::Process| {
                look.processes.iter().any(|known| known.pid == process.pid && known.job == Some(job))
            };
            let uses = reading.processes.iter().filter(of_job).map(|process| process.utilisation_percent).collect::<Vec<_>>();
            if uses.is_empty() || uses.iter().any(Option::is_none) {
                None
            } else {
                Some(f64::from(uses.iter().flatten().sum::<u32>()))
            }
        };
        let uses = on_it.iter().map(|record| use_of(record.id)).collect::<Vec<_>>();
        let total = uses.iter().copied().sum::<Option<f64>>().filter(|total| *total > 0.0);
        let mut view = self.board.write();
        for (record, used) in on_it.iter().zip(&uses) {
            let part = match (total, used) {
                (Some(total), Some(part)) => part / total,
                _ => 1.0 / on_it.len() as f64,
            };
            let own = look.processes.iter().filter(|process| process.job == Some(record.id));
            let (mut memory, mut is_memory_known) = (0, true);
            for process in own {
                memory += process.memory_mib.unwrap_or(0);
                is_memory_known &= process.memory_mib.is_some();
            }
            let measured = view.measured.entry(record.id).or_insert_with(|| crate::view::board::Measured {
                energy_joules: record.energy_joules.unwrap_or(0.0),
                ..Default::default()
            });
            measured.energy_joules += drawn.unwrap_or(0.0) * part;
            measured.peak_memory_mib = measured.peak_memory_mib.max(memory);
            measured.memory_mib = memory;
            // Where the driver tells only what all jobs on a GPU make of it, a GPU that is busy is no waste of any of them.
            measured.utilisation_percent = used.or(reading.utilisation_percent.map(f64::from));
            measured.power_watts = reading.power_watts.map(|watts| watts * part);
            let is_new = !self.devices.telemetry.runs.contains_key(&(record.id, record.attempts));
            let run = self.devices.telemetry.runs.entry((record.id, record.attempts)).or_insert_with(|| {
                // An earlier daemon may have seen the beginning of it.
                let began_s = record.started_ns.unwrap_or(0) / 1_000_000_000;
                let seen = self.journal.store.read(|connection| measured_between(connection, record.id, began_s, i64::MAX));
                let ran_s = (self.platform.wall_ns() / 1_000_000_000 - began_s) as f64;
                let gpus = record.gpu_uuids.len() as f64;
                seen.ok().and_then(|seen| seen.over(ran_s.min(seen.powered_s.max(seen.known_s)), gpus)).unwrap_or_default()
            });
            add(&mut run.energy_joules, drawn.map(|drawn| drawn * part));
            // The first look at a run may tell of the time before it.
            if let Some(percent) = measured.utilisation_percent.filter(|_| !is_new) {
                run.known_s += seconds;
                run.idle_s += if percent < IDLE_PERCENT { seconds } else { 0.0 };
            }
            let sum = self.devices.telemetry.job_sums.entry(record.id).or_default();
            sum.looks += 1.0;
            add(&mut sum.memory_mib, is_memory_known.then_some(memory as f64));
            add(&mut sum.utilisation, measured.utilisation_percent);
            add(&mut sum.power_watts, measured.power_watts);
        }
        let sum = &mut self.devices.telemetry.gpu_sums[gpu.index()];
        sum.looks += 1.0;
        add(&mut sum.memory_mib, Some(reading.memory_used_mib as f64));
        add(&mut sum.utilisation, reading.utilisation_percent.map(f64::from));
        add(&mut sum.memory_utilisation, reading.memory_utilisation_percent.map(f64::from));
        add(&mut sum.power_watts, reading.power_watts);
        add(&mut sum.temperature_c, reading.temperature_c.map(f64::from));
    }

    /// Puts the GPUs on the board.
    pub(crate) fn show_gpus(&self, state: &State) {
        let mut gpus = Vec::with_capacity(self.devices.machine.devices.len());
        let runs = self.runs_by_gpu();
        let with_extras = self.running().filter(|record| !record.progress.extras.is_empty()).collect::<Vec<_>>();
        for (index, device) in self.devices.machine.devices.iter().enumerate() {
            let gpu = GpuId::from_index(index);
            if crate::slurm::nodes::is_promise(self.devices.machine.node_of(gpu)) {
                continue;
            }
            let look = self.devices.telemetry.looks.get(index);
            let reading = look.and_then(|look| look.reading.as_ref());
            let on_it = runs.get(device.uuid.as_str()).map_or(&[][..], Vec::as_slice);
            let lent = with_extras.iter().filter(|record| record.is_on(&device.uuid));
            let mut jobs = on_it.iter().chain(lent.copied()).map(|record| record.id).collect::<Vec<_>>();
            jobs.sort_unstable();
            jobs.dedup();
            let is_node_up = state.nodes_up[self.devices.machine.cluster.gpus[index].node.index()];
            let state = if self.devices.lost.contains(&gpu) || !is_node_up {
                GpuState::Lost
            } else if self.devices.drained.contains(&gpu) || self.switches.is_draining {
                GpuState::Drained
            } else if self.devices.telemetry.strangers[index].share.0 > 0 {
                GpuState::Stranger
            } else if jobs.is_empty() {
                GpuState::Free
            } else if state.pool.has_room(
                &[gpu],
                Slice {
                    share: MilliGpu(1),
                    memory_mib: 1,
                    group: on_it.first().map_or(0, |record| group_of(record)),
                    class: None,
                },
            ) {
                GpuState::Shared
            } else {
                GpuState::Full
            };
            gpus.push(api::Gpu {
                index: device.index,
                uuid: device.uuid.clone(),
                name: device.name.clone(),
                kind: self.devices.machine.kinds[index].clone(),
                node: self.devices.machine.node_of(gpu).to_owned(),
                state,
                memory_total_mib: device.memory_total_mib,
                memory_used_mib: reading.map(|reading| reading.memory_used_mib),
                utilisation_percent: reading.and_then(|reading| reading.utilisation_percent),
                memory_utilisation_percent: reading.and_then(|reading| reading.memory_utilisation_percent),
                power_watts: reading.and_then(|reading| reading.power_watts),
                temperature_c: reading.and_then(|reading| reading.temperature_c),
                jobs,
                processes: look.map(|look| look.processes.clone()).unwrap_or_default(),
            });
        }
        let nodes = self.nodes_of(&gpus, state);
        let mut view = self.board.write();
        (view.gpus, view.nodes) = (gpus, nodes);
    }

    /// The machines that have these GPUs, and the daemon's own.
    fn nodes_of(&self, gpus: &[api::Gpu], state: &State) -> Vec<api::NodeView> {
        let machine = &self.devices.machine;
        let mut own = HashMap::<&str, (u64, Vec<u64>)>::new();
        for gpu in gpus {
            let (count, jobs) = own.entry(&gpu.node).or_default();
            *count += 1;
            jobs.extend(&gpu.jobs);
        }
        let mut nodes = Vec::new();
        for (node, is_up) in machine.cluster.nodes.iter().zip(&state.nodes_up) {
            // The last is that of the processors.
            let Some((gpus, mut jobs)) = own.remove(node.name.as_str()) else { continue };
            jobs.sort_unstable();
            jobs.dedup();
            let (name, is_home) = (node.name.clone(), node.name == machine.host);
            nodes.push(api::NodeView { name, gpus, answers: *is_up, is_home, jobs });
        }
        nodes
    }

    /// Ends a sample when its time is over, and writes what has gathered.
    fn sample(&mut self) {
        let now_s = self.platform.wall_ns() / 1_000_000_000;
        let interval = (self.config.telemetry.interval_seconds.round() as i64).max(1);
        let began = *self.devices.telemetry.sample_began_s.get_or_insert(now_s);
        if now_s - began < interval && now_s >= began {
            return;
        }
        let span_s = (now_s - began).max(1);
        for (device, sum) in self.devices.machine.devices.iter().zip(&mut self.devices.telemetry.gpu_sums) {
            let sum = std::mem::take(sum);
            if sum.looks > 0.0 {
                let whose = Whose::Gpu(device.uuid.clone());
                self.devices.telemetry.pending.push(Sample { whose, wall_s: now_s, span_s, mean: sum.mean() });
            }
        }
        for (job, sum) in std::mem::take(&mut self.devices.telemetry.job_sums) {
            if let Some(record) = self.records.jobs.get(&job) {
                let sample = self.devices.telemetry.sample_of(record, &sum, now_s);
                self.devices.telemetry.pending.push(sample);
            }
        }
        self.devices.telemetry.sample_began_s = Some(now_s);
        let oldest = self.devices.telemetry.pending.first().map_or(now_s, |sample| sample.wall_s);
        if now_s - oldest >= WRITE_SECONDS {
            self.write_samples(now_s);
        }
    }

    /// Writes samples, and thins old ones once an hour.
    pub(crate) fn write_samples(&mut self, now_s: i64) {
        let pending = std::mem::take(&mut self.devices.telemetry.pending);
        let thin = now_s - self.devices.telemetry.thinned_s >= 3600;
        if pending.is_empty() && !thin {
            return;
        }
        // A minute is thinned whole.
        let fine_from = (now_s - (self.config.telemetry.fine_hours * 3600.0) as i64) / COARSE_SECONDS * COARSE_SECONDS;
        let keep_from = now_s - (self.config.telemetry.keep_days * 86_400.0) as i64;
        let outcome = self.journal.store.transaction(|writer| {
            let connection = writer.connection();
            for Sample { whose, wall_s, span_s, mean } in &pending {
                match whose {
                    Whose::Gpu(uuid) => connection
                        .prepare_cached("INSERT OR REPLACE INTO gpu_samples VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?
                        .execute(params![
                            uuid,
                            wall_s,
                            span_s,
                            mean.memory_mib,
                            mean.utilisation,
                            mean.memory_utilisation,
                            mean.power_watts,
                            mean.temperature_c
                        ])?,
                    Whose::Job(job) => connection
                        .prepare_cached("INSERT OR REPLACE INTO job_samples VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?
                        .execute(params![job, wall_s, span_s, mean.memory_mib, mean.utilisation, mean.power_watts])?,
                };
            }
            if thin {
                connection.execute_batch(&thinning(fine_from, keep_from))?;
            }
            Ok(())
        });
        // Samples are worth less than jobs: a store that refuses them drops them, and says so on the board.
        self.note_store(&outcome);
        if outcome.is_ok() && thin {
            self.devices.telemetry.thinned_s = now_s;
        }
    }
}

/// Means over a minute in place of fine samples, and nothing in place of old ones.
fn thinning(fine_from: i64, keep_from: i64) -> String {
    // A sample stands for the time before it: the minute that ends with it, or after it.
    let minute = format!("(wall_s + {COARSE_SECONDS} - 1) / {COARSE_SECONDS} * {COARSE_SECONDS}");
    let fine = format!("wall_s <= {fine_from} AND span_s < {COARSE_SECONDS}");
    format!(
        "CREATE TEMP TABLE coarse AS SELECT gpu, {minute} AS wall_s, {COARSE_SECONDS} AS span_s, avg(memory_used_mib), avg(utilisation),
           avg(memory_utilisation), avg(power_watts), avg(temperature_c) FROM gpu_samples WHERE {fine} GROUP BY 1, 2;
         DELETE FROM gpu_samples WHERE {fine};
         INSERT OR REPLACE INTO gpu_samples SELECT * FROM coarse;
         DROP TABLE coarse;
         CREATE TEMP TABLE coarse AS SELECT job, {minute} AS wall_s, {COARSE_SECONDS} AS span_s, avg(memory_mib), avg(utilisation),
           avg(power_watts) FROM job_samples WHERE {fine} GROUP BY 1, 2;
         DELETE FROM job_samples WHERE {fine};
         INSERT OR REPLACE INTO job_samples SELECT * FROM coarse;
         DROP TABLE coarse;
         DELETE FROM gpu_samples WHERE wall_s < {keep_from};
         DELETE FROM job_samples WHERE wall_s < {keep_from};"
    )
}
