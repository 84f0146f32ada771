//! Speeds: what leased jobs tell of their steps becomes how fast their type is on a type of GPU, and with it what policies go by.

use crate::api;
use crate::machine::inventory::CPU;
use crate::machine::platform::Platform;
use crate::queue::commit::Entry;
use crate::queue::world::LiveWorld;
use crate::store::StoreError;
use crate::store::record::JobRecord;
use rota_core::event::EventKind;
use rota_core::{ClassId, Event, GpuTypeId, JobClass, JobId, MeasuredSpeeds, Span, SpeedEntry, SpeedSample, Time};
use rota_engine::State;

/// Fewer steps than this are not measured while a job runs on: the step in hand would count too much.
const STEPS_MIN: u64 = 10;
/// Fewer steps than this are not measured when a run ends.
const LAST_STEPS_MIN: u64 = 2;
/// Where the table is kept that was measured until the scheduler's image was made.
const META: &str = "speeds";

impl<P: Platform> LiveWorld<P> {
    /// When running jobs are measured next: twice a round (or lease), if any of them tells its steps.
    pub(crate) fn speeds_due(&self) -> Option<Time> {
        self.leases.as_ref()?;
        let half = self.half_round();
        self.running().find(|record| record.progress.is_leased && record.spec.ask.job_type.is_some())?;
        let next = self.pace.measured_half.map_or(self.platform.now().0 / half, |last| last + 1);
        Some(Time(next.saturating_mul(half)))
    }

    fn half_round(&self) -> u64 {
        (Span::from_seconds(self.config.round_seconds).unwrap_or_default().0 / 2).max(1)
    }

    /// Measures the jobs that run.
    pub(crate) fn measure_speeds(&mut self, state: &State, events: &mut Vec<Event>) {
        self.pace.measured_half = Some(self.platform.now().0 / self.half_round());
        let running = self.running().cloned().collect::<Vec<_>>();
        let seen = running.iter().filter_map(|record| self.speed_of(record, state, STEPS_MIN)).collect();
        // What the store refuses is measured again.
        _ = self.commit(seen, events);
    }

    /// How fast a run was until its end, and with it the job on the same GPUs, which is alone from then on.
    pub(crate) fn speeds_of_run(&self, record: &JobRecord, state: &State) -> impl Iterator<Item = Entry> {
        let partner = self.row(record.id).and_then(|row| state.jobs.get(row.index())?.partner);
        let partner = partner.and_then(|row| self.records.jobs.get(&self.rows.id(row)?));
        let beside = partner.and_then(|partner| self.speed_of(partner, state, STEPS_MIN));
        self.speed_of(record, state, LAST_STEPS_MIN).into_iter().chain(beside)
    }

    fn speed_of(&self, record: &JobRecord, state: &State, least_steps: u64) -> Option<Entry> {
        let job_type = record.spec.ask.job_type.as_deref()?;
        let Place { gpus, gpu_type, beside } = place_of(self.row(record.id)?, state)?;
        let SpeedSample { steps, ran } = self.leases.as_ref()?.speed(record.id, least_steps)?;
        let (gpu_type, beside) = (gpu_type.into(), beside.map(Into::into));
        Some(EventKind::SpeedMeasured { job_type: job_type.into(), gpus, gpu_type, beside, steps, ran }.into())
    }

    /// Puts the speeds that were measured on the board, with those that are believed of the other GPU types.
    pub(crate) fn show_speeds(&mut self, state: &State) {
        let samples = state.measured.entries().map(|entry| u64::from(entry.speed.samples)).sum::<u64>();
        let changes = samples + state.speed_changes;
        if std::mem::replace(&mut self.pace.shown_speeds, changes) == changes {
            return;
        }
        let types = state.bound.cluster.types.iter().filter(|kind| kind.name != CPU).cloned().collect::<Vec<_>>();
        let mut speeds = Vec::new();
        for (job_type, gpus) in state.measured.gangs() {
            let Some(believed) = state.measured.believed(job_type, gpus, &types, &self.table) else { continue };
            for (kind, steps_per_second) in types.iter().zip(believed) {
                let measured = state.measured.get(job_type, gpus, &kind.name);
                speeds.push(api::Speed {
                    job_type: job_type.to_owned(),
                    gpus,
                    gpu_type: kind.name.clone(),
                    beside: None,
                    steps_per_second,
                    measurements: measured.map_or(0, |speed| speed.samples),
                });
            }
        }
        speeds.extend(speeds_beside(state));
        self.board.write().speeds = speeds;
    }

    /// Writes down what was measured, for a scheduler that cannot take up the image: one on another machine, or of another version.
    pub(crate) fn keep_speeds(&mut self, measured: &MeasuredSpeeds) -> Result<(), StoreError> {
        if measured.is_empty() {
            return Ok(());
        }
        let text = serde_json::to_string(&measured.entries().collect::<Vec<_>>()).unwrap_or_default();
        self.journal.store.transaction(|writer| writer.set_meta(META, &text))
    }

    /// What was measured before: the table that was kept, and the events since.
    pub(crate) fn kept_speeds(&self) -> MeasuredSpeeds {
        let store = &self.journal.store;
        let mut measured = MeasuredSpeeds::default();
        let kept = store.meta(META).ok().flatten().and_then(|text| serde_json::from_str::<Vec<SpeedEntry>>(&text).ok());
        kept.unwrap_or_default().iter().for_each(|entry| measured.put(entry));
        let image = store.image().ok().flatten().map_or(0, |(seq, _)| seq);
        for (_, _, event) in store.journal_after(image).unwrap_or_default() {
            if let EventKind::SpeedMeasured { job_type, gpus, gpu_type, beside, steps, ran } = event {
                measured.take_in(&job_type, gpus, &gpu_type, beside.as_deref(), SpeedSample { steps, ran });
            }
        }
        measured
    }
}

/// The speeds of job types beside each other: those that were measured, and those that are expected of other pairs of measured types.
fn speeds_beside(state: &State) -> Vec<api::Speed> {
    let (bound, measured) = (&state.bound, &state.measured);
    let shown = |entry: SpeedEntry| api::Speed {
        job_type: entry.job_type.into(),
        gpus: entry.gpus,
        gpu_type: entry.gpu_type.into(),
        beside: entry.beside.map(Into::into),
        steps_per_second: entry.speed.steps_per_second,
        measurements: entry.speed.samples,
    };
    let mut speeds = measured.entries().filter(|entry| entry.beside.is_some()).map(shown).collect::<Vec<_>>();
    let is_known = |class: &JobClass| class.is_paired && class.is_measured;
    let classes = || bound.classes.iter().enumerate().filter(|(_, class)| is_known(class));
    for (first, class) in classes() {
        for (second, other) in classes().filter(|(_, other)| other.gpus == class.gpus) {
            let (job_type, beside) = (bound.names.text(class.kind), bound.names.text(other.kind));
            for (index, kind) in bound.cluster.types.iter().enumerate() {
                let parts = bound.pair_parts.of(ClassId(first as u32), ClassId(second as u32), GpuTypeId::from_index(index));
                let Some((part, _)) = parts else { continue };
                if measured.get_beside(job_type, beside, class.gpus, &kind.name).is_some() {
                    continue;
                }
                speeds.push(api::Speed {
                    job_type: job_type.to_owned(),
                    gpus: class.gpus,
                    gpu_type: kind.name.clone(),
                    beside: Some(beside.to_owned()),
                    steps_per_second: part * bound.speeds[class.speeds as usize][index] * class.steps_per_second,
                    measurements: 0,
                });
            }
        }
    }
    speeds
}

/// What a measured speed is the speed of, beside the job type.
struct Place<'s> {
    gpus: u32,
    gpu_type: &'s str,
    /// The type of the job on the same GPUs.
    beside: Option<&'s str>,
}

/// The gang size of a job, the type of its GPUs and the job that has them too, if they are whole GPUs close together. A job without a
/// type leaves nothing to measure beside it.
fn place_of(row: JobId, state: &State) -> Option<Place<'_>> {
    let (job, cluster) = (state.jobs.get(row.index())?, &state.bound.cluster);
    let first = &cluster.gpus[job.gpus.first()?.index()];
    let is_close = job.gpus.iter().all(|gpu| {
        let gpu = &cluster.gpus[gpu.index()];
        (gpu.node, gpu.gpu_type) == (first.node, first.gpu_type)
    });
    let kind = &cluster.types[first.gpu_type.index()].name;
    let beside = job.partner.map(|partner| state.bound.names.text(state.bound.job(partner).kind));
    let is_known = state.bound.shape(row).is_exclusive() && beside != Some("");
    (is_known && is_close && kind != CPU).then_some(Place { gpus: state.bound.job(row).gpus, gpu_type: kind, beside })
}
