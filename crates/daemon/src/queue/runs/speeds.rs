//! Speeds: what leased jobs tell of their steps becomes how fast their type is on a type of GPU, and with it what policies go by.

use crate::api;
use crate::machine::inventory::CPU;
use crate::machine::platform::Platform;
use crate::queue::commit::Entry;
use crate::queue::world::LiveWorld;
use crate::store::StoreError;
use crate::store::record::JobRecord;
use rota_core::event::EventKind;
use rota_core::{Event, JobId, MeasuredSpeeds, Span, SpeedEntry, SpeedSample, Time};
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

    /// How fast a run was until its end.
    pub(crate) fn speed_of_run(&self, record: &JobRecord, state: &State) -> Option<Entry> {
        self.speed_of(record, state, LAST_STEPS_MIN)
    }

    fn speed_of(&self, record: &JobRecord, state: &State, least_steps: u64) -> Option<Entry> {
        let job_type = record.spec.ask.job_type.as_deref()?;
        let (gpus, gpu_type) = place_alone(self.row(record.id)?, state)?;
        let SpeedSample { steps, ran } = self.leases.as_ref()?.speed(record.id, least_steps)?;
        Some(EventKind::SpeedMeasured { job_type: job_type.into(), gpus, gpu_type: gpu_type.into(), steps, ran }.into())
    }

    /// Puts the speeds that were measured on the board, with those that are believed of the other GPU types.
    pub(crate) fn show_speeds(&mut self, state: &State) {
        let samples = state.measured.entries().map(|entry| u64::from(entry.speed.samples)).sum();
        if std::mem::replace(&mut self.pace.shown_samples, samples) == samples {
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
                    steps_per_second,
                    measurements: measured.map_or(0, |speed| speed.samples),
                });
            }
        }
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
            if let EventKind::SpeedMeasured { job_type, gpus, gpu_type, steps, ran } = event {
                measured.take_in(&job_type, gpus, &gpu_type, SpeedSample { steps, ran });
            }
        }
        measured
    }
}

/// The gang size of a job and the type of its GPUs, if it is alone on them and they are close together.
fn place_alone(row: JobId, state: &State) -> Option<(u32, &str)> {
    let (job, cluster) = (state.jobs.get(row.index())?, &state.bound.cluster);
    let first = &cluster.gpus[job.gpus.first()?.index()];
    let is_close = job.gpus.iter().all(|gpu| {
        let gpu = &cluster.gpus[gpu.index()];
        (gpu.node, gpu.gpu_type) == (first.node, first.gpu_type)
    });
    let kind = &cluster.types[first.gpu_type.index()].name;
    let is_alone = job.partner.is_none() && state.bound.shape(row).is_exclusive();
    (is_alone && is_close && kind != CPU).then_some((state.bound.job(row).gpus, kind))
}
