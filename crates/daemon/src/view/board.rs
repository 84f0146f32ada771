//! The board: what other threads may read while the queue works: jobs that are not over, GPUs, and a stream of events.

use crate::access::tokens::Tokens;
use crate::api;
use crate::clock::{rfc3339, wall_ns};
use crate::store::record::JobRecord;
use crate::view::recent_ends::RecentEnds;
use crate::watchmen::clients::Clients;
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::broadcast;

/// Events that a slow reader may fall behind before it misses some.
const EVENTS_KEPT: usize = 4096;

/// The shared view. The queue's thread writes it, all others read it.
pub struct Board {
    /// The daemon's counters.
    pub metrics: crate::view::metrics::Metrics,
    view: RwLock<View>,
    events: broadcast::Sender<Arc<BroadcastEvent>>,
    told: AtomicU64,
    /// The tokens that are good on the port.
    pub tokens: Tokens,
}

/// An event, and the bytes that listeners are sent of it: made once, however many listeners there are.
pub struct BroadcastEvent {
    event: api::LiveEvent,
    frame: OnceLock<Bytes>,
}

impl BroadcastEvent {
    /// As it goes over the wire.
    pub fn frame(&self) -> Bytes {
        self.frame.get_or_init(|| frame(&self.event)).clone()
    }
}

impl std::ops::Deref for BroadcastEvent {
    type Target = api::LiveEvent;

    fn deref(&self) -> &api::LiveEvent {
        &self.event
    }
}

/// One event in the form of server-sent events. JSON has no line breaks, and kinds are words.
pub fn frame(event: &api::LiveEvent) -> Bytes {
    let data = serde_json::to_string(event).unwrap_or_default();
    format!("id: {}\nevent: {}\ndata: {data}\n\n", event.seq, event.kind).into()
}

/// What is on the board.
#[derive(Default)]
pub struct View {
    /// Jobs that are not over.
    pub jobs: BTreeMap<u64, Arc<JobRecord>>,
    /// Jobs that ended last.
    pub recent_ends: RecentEnds,
    /// The GPUs as last seen.
    pub gpus: Vec<api::Gpu>,
    /// The machines whose GPUs are used.
    pub nodes: Vec<api::NodeView>,
    /// The policy in force.
    pub policy: String,
    /// Whether nothing is started.
    pub draining: bool,
    /// Whether an administrator has asked for the daemon's end: it is not about to be started again.
    pub is_down_asked: bool,
    /// Starts that waiting jobs can count on, in nanoseconds since 1970.
    pub promises: HashMap<u64, i64>,
    /// The reasons of jobs that wait for something other than GPUs.
    pub notes: HashMap<u64, String>,
    /// What an administrator should look at.
    pub warnings: BTreeMap<&'static str, String>,
    /// What a cluster manager says of the GPUs that were asked for, if there is one and it says something.
    pub engine: Option<String>,
    /// Decisions of the scheduler since the daemon started.
    pub decisions: u64,
    /// The longest of them.
    pub decision_seconds_max: f64,
    /// Energy and memory of running jobs, newer than their records.
    pub measured: HashMap<u64, Measured>,
    /// Speeds that were measured while jobs ran, and what is believed of other GPU types.
    pub speeds: Vec<api::Speed>,
    /// Clients of watchmen, also those that are done.
    pub clients: Clients,
    /// When waiting jobs are expected to start.
    pub predictions: api::Predictions,
    /// Where each job stands in that list.
    predicted: HashMap<u64, usize>,
}

/// What was measured of a running job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// Energy of all attempts.
    pub energy_joules: f64,
    /// The most memory seen on one GPU.
    pub peak_memory_mib: u64,
    /// Memory now, on all its GPUs.
    pub memory_mib: u64,
    /// Use of its GPUs now, 0 to 100, where known.
    pub utilisation_percent: Option<f64>,
    /// Power it draws now.
    pub power_watts: Option<f64>,
}

impl Default for Board {
    fn default() -> Self {
        Self {
            metrics: crate::view::metrics::Metrics::default(),
            view: RwLock::default(),
            events: broadcast::channel(EVENTS_KEPT).0,
            told: AtomicU64::new(0),
            tokens: Tokens::default(),
        }
    }
}

impl Board {
    /// Locks the view for reading.
    pub fn read(&self) -> RwLockReadGuard<'_, View> {
        self.view.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the view for a change.
    pub fn write(&self) -> RwLockWriteGuard<'_, View> {
        self.view.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends an event to all listeners.
    pub fn tell(&self, event: api::LiveEvent) {
        self.told.fetch_add(1, Ordering::Release);
        // An event without listeners is no fault.
        _ = self.events.send(Arc::new(BroadcastEvent { event, frame: OnceLock::new() }));
    }

    /// Shows when waiting jobs are expected to start.
    pub fn predict(&self, predictions: api::Predictions) {
        let mut view = self.write();
        view.predicted = predictions.jobs.iter().enumerate().map(|(place, job)| (job.id, place)).collect();
        view.predictions = predictions;
    }

    /// How much was told so far: what was made of the board before the last of it is out of date.
    pub fn told(&self) -> u64 {
        self.told.load(Ordering::Acquire)
    }

    /// Listens from now on.
    pub fn listen(&self) -> broadcast::Receiver<Arc<BroadcastEvent>> {
        self.events.subscribe()
    }
}

impl View {
    /// Why a job that is not over is where it is, in one line.
    pub fn reason(&self, record: &JobRecord) -> Option<String> {
        if record.state != api::JobState::Waiting {
            return None;
        }
        if let Some(note) = self.notes.get(&record.id) {
            return Some(note.clone());
        }
        if let Some(after) = record.spec.ask.after.iter().find(|after| self.jobs.contains_key(&after.id)) {
            return Some(format!("waits for job {}", after.id));
        }
        if record.not_before.is_some() {
            let why = record.reason.as_deref().unwrap_or("it failed");
            return Some(format!("attempt {} ended: {why}; it is tried again soon", record.attempts));
        }
        if self.draining {
            return Some("the queue is drained; `rota resume` starts it again".to_owned());
        }
        let ask = &record.spec.ask;
        if ask.gpus == 0 {
            // Whether one is free changes from moment to moment; `rota explain` looks.
            return Some("needs no GPU; it waits for its turn on a processor slot".to_owned());
        }
        let free = self.free_gpus(ask);
        // A promise is the latest start by what users said; what is expected goes by what jobs did.
        let expected = self.prediction(record.id).map(|expected| expected.start_p50);
        let start = expected.unwrap_or_else(|| self.promises.get(&record.id).map(|at| rfc3339(*at)));
        let promised = start.map(|at| format!("; starts about {at}"));
        let memory = ask.memory_mib.map_or(String::new(), |memory| format!(" with {memory} MiB"));
        let engine = self.engine.as_ref().map_or_else(String::new, |said| format!("; {said}"));
        let promised = promised.unwrap_or_default();
        Some(format!("needs {} GPU{}{memory}; {free}{promised}{engine}", ask.gpus, plural(ask.gpus)))
    }

    /// How many of the GPUs that a job may use are free, as `0 of 4 free`; of a gang, those of the type that has most of what it needs.
    fn free_gpus(&self, ask: &api::Submit) -> String {
        let mut kinds: Vec<(&str, u32, u32)> = Vec::new();
        for gpu in self.gpus.iter().filter(|gpu| {
            (ask.gpu_ids.is_empty() || ask.gpu_ids.contains(&gpu.index))
                && (ask.gpu_types.is_empty() || ask.gpu_types.contains(&gpu.kind))
        }) {
            let is_free = u32::from(gpu.state == api::GpuState::Free);
            match kinds.iter_mut().find(|(kind, ..)| *kind == gpu.kind) {
                Some((_, all, free)) => (*all, *free) = (*all + 1, *free + is_free),
                None => kinds.push((&gpu.kind, 1, is_free)),
            }
        }
        let may_span = ask.any_type || !ask.gpu_ids.is_empty();
        if ask.gpus > 1 && !may_span && kinds.len() > 1 {
            let enough = kinds.iter().filter(|(_, all, _)| *all >= ask.gpus);
            if let Some((kind, all, free)) = enough.max_by_key(|(_, _, free)| *free) {
                return format!("{free} of {all} {kind} free");
            }
        }
        let (all, free) = kinds.iter().fold((0, 0), |(all, free), kind| (all + kind.1, free + kind.2));
        format!("{free} of {all} free")
    }

    /// When a job is expected to start.
    pub fn prediction(&self, id: u64) -> Option<api::Prediction> {
        let expected = self.predictions.jobs.get(*self.predicted.get(&id)?)?;
        Some(expected.at(&rfc3339(wall_ns())))
    }

    /// What users see of a job.
    pub fn job(&self, record: &JobRecord, state_dir: &std::path::Path) -> api::Job {
        let mut job = record.view(state_dir, self.reason(record), None);
        if let Some(expected) = self.prediction(record.id).filter(|_| record.state == api::JobState::Waiting) {
            (job.start_p10, job.start_p50, job.start_p90) = (expected.start_p10, expected.start_p50, expected.start_p90);
        }
        if let Some(measured) = self.measured.get(&record.id) {
            job.energy_wh = Some(measured.energy_joules / 3600.0);
            job.peak_memory_mib = Some(measured.peak_memory_mib).filter(|peak| *peak > 0);
        }
        job
    }
}

/// An s, where there are several.
pub fn plural(count: u32) -> &'static str {
    if count == 1 { "" } else { "s" }
}
