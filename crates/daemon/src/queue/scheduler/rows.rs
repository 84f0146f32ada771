//! The jobs of the queue as rows of the scheduler's tables, and the queue's events as the scheduler's.
//!
//! The scheduler numbers jobs by rows and GPUs by their place in the cluster; the journal has numbers that are never given twice and
//! UUIDs. An event is translated in one place, here, for a queue that runs and for one that is replayed after a restart.

use crate::forecast::learned::program;
use crate::machine::inventory::{CPU, Machine};
use crate::memory::sharing::group_of;
use crate::queue::estimates::Estimates;
use crate::store::journal::{QueueEvent, SLOT, Stamp};
use crate::store::record::JobRecord;
use rota_core::event::EventKind;
use rota_core::{Dependency, GpuId, GpuList, Hold, Job, JobId, MilliGpu, NewJob, Renumbering, Span, Time};
use smallvec::SmallVec;
use std::collections::HashMap;

/// The scheduler's events that follow from one of the queue's; nearly always one.
pub type Translated = SmallVec<[EventKind; 2]>;

/// The row of each job, and the job of each row.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    ids: Vec<u64>,
    row_of: HashMap<u64, JobId>,
}

impl Rows {
    /// Rows as they were written down.
    pub fn new(ids: Vec<u64>) -> Self {
        let row_of = ids.iter().enumerate().map(|(row, id)| (*id, JobId::from_index(row))).collect();
        Self { ids, row_of }
    }

    /// The job of each row.
    pub fn ids(&self) -> &[u64] {
        &self.ids
    }

    /// The row of a job.
    pub fn of(&self, id: u64) -> Option<JobId> {
        self.row_of.get(&id).copied()
    }

    /// The job of a row.
    pub fn id(&self, row: JobId) -> Option<u64> {
        self.ids.get(row.index()).copied()
    }

    /// Gives a new job the next row.
    pub fn add(&mut self, id: u64) -> JobId {
        let row = JobId::from_index(self.ids.len());
        self.ids.push(id);
        self.row_of.insert(id, row);
        row
    }

    /// Jobs have other rows from now on.
    pub fn renumber(&mut self, rows: &Renumbering) {
        let mut ids = std::mem::take(&mut self.ids);
        rows.keep(&mut ids);
        *self = Self::new(ids);
    }
}

/// What a job is to the scheduler.
#[derive(Clone, Copy)]
pub struct Translator<'a> {
    /// The GPUs and slots of this machine.
    pub machine: &'a Machine,
    /// What jobs are counted with where they do not say.
    pub estimates: &'a Estimates,
}

impl Translator<'_> {
    /// The scheduler's events. `after` is the record that the event leads to, if it is about a job.
    pub fn events(&self, rows: &mut Rows, event: &QueueEvent, stamp: Stamp, after: Option<&JobRecord>) -> Translated {
        let one = |event| Translated::from_iter([event]);
        let row = |rows: &Rows, id: u64| rows.of(id);
        match event {
            EventKind::Admitted { job, .. } => {
                let Some(new) = after.and_then(|record| self.new_job(record, rows, stamp)) else { return Translated::new() };
                let is_held = after.is_some_and(|record| record.user_hold);
                let job = rows.add(*job);
                let admitted = EventKind::Admitted { job, request: Box::new(new) };
                let held = is_held.then_some(EventKind::Held { job, hold: Hold::User, note: () });
                std::iter::once(admitted).chain(held).collect()
            }
            EventKind::Ended { job, end, report } => {
                let Some(job) = row(rows, *job) else { return Translated::new() };
                let delayed =
                    report.not_before.filter(|_| !end.is_over()).map(|_| EventKind::Held { job, hold: Hold::Delay, note: () });
                std::iter::once(EventKind::ended(job, *end)).chain(delayed).collect()
            }
            EventKind::Promised { job, gpus, after } => {
                let after = after.iter().filter_map(|id| row(rows, *id)).collect();
                row(rows, *job)
                    .zip(self.gpus(gpus))
                    .map_or_else(Translated::new, |(job, gpus)| one(EventKind::Promised { job, gpus, after }))
            }
            EventKind::Started { job, gpus, .. } => row(rows, *job)
                .zip(self.gpus(gpus))
                .map_or_else(Translated::new, |(job, gpus)| one(EventKind::started(job, gpus))),
            EventKind::Submitted { job } => row(rows, *job).map_or_else(Translated::new, |job| one(EventKind::Submitted { job })),
            EventKind::Changed { job, change, .. } => {
                row(rows, *job).map_or_else(Translated::new, |job| one(EventKind::Changed { job, change: *change, note: () }))
            }
            EventKind::Stopping { job, cause, .. } => row(rows, *job)
                .map_or_else(Translated::new, |job| one(EventKind::Stopping { job, cause: cause.clone(), note: () })),
            EventKind::Held { job, hold, .. } => {
                row(rows, *job).map_or_else(Translated::new, |job| one(EventKind::Held { job, hold: *hold, note: () }))
            }
            EventKind::Released { job, hold, .. } => {
                row(rows, *job).map_or_else(Translated::new, |job| one(EventKind::Released { job, hold: *hold, note: () }))
            }
            EventKind::Occupied { gpu, share, memory_mib } => self
                .gpu(gpu)
                .map_or_else(Translated::new, |gpu| one(EventKind::Occupied { gpu, share: *share, memory_mib: *memory_mib })),
            EventKind::Drained { gpu: None, .. } => one(EventKind::Drained { gpu: None, note: () }),
            EventKind::Resumed { gpu: None, .. } => one(EventKind::Resumed { gpu: None, note: () }),
            EventKind::RestartMeasured { job_type, cost, start } => {
                one(EventKind::RestartMeasured { job_type: job_type.clone(), cost: *cost, start: *start })
            }
            EventKind::SpeedMeasured { job_type, gpus, gpu_type, beside, steps, ran } => {
                let (job_type, gpu_type, beside) = (job_type.clone(), gpu_type.clone(), beside.clone());
                one(EventKind::SpeedMeasured { job_type, gpus: *gpus, gpu_type, beside, steps: *steps, ran: *ran })
            }
            EventKind::Committed { job, step, .. } => row(rows, *job)
                .map_or_else(Translated::new, |job| one(EventKind::Committed { job, step: *step, checkpoint: None })),
            EventKind::NodeLost { node } => {
                self.machine.node_named(node).map_or_else(Translated::new, |node| one(EventKind::NodeLost { node }))
            }
            EventKind::NodeReturned { node } => {
                self.machine.node_named(node).map_or_else(Translated::new, |node| one(EventKind::NodeReturned { node }))
            }
            EventKind::Decided { occasion } => one(EventKind::Decided { occasion: *occasion }),
            // What becomes of such a GPU is told as occupied; a policy is set by the loop.
            EventKind::Drained { .. }
            | EventKind::Resumed { .. }
            | EventKind::DeviceLost { .. }
            | EventKind::DeviceReturned { .. }
            | EventKind::Overused { .. }
            | EventKind::Leased { .. }
            | EventKind::Progress { .. }
            | EventKind::Extra { .. }
            | EventKind::PolicySet { .. } => Translated::new(),
        }
    }

    /// The job as the scheduler sees it; `None` if this machine has nothing it could run on.
    pub fn new_job(&self, record: &JobRecord, rows: &Rows, stamp: Stamp) -> Option<NewJob> {
        let ask = &record.spec.ask;
        let seconds = |value: f64| Span::from_seconds(value).unwrap_or(Span::from_whole_seconds(1)).max(Span(1));
        let (believed, share, memory_mib) = self.estimates.of(record);
        // A user who names the GPUs means these, whatever their types.
        let any_type = ask.gpus > 1 && (ask.any_type || !ask.gpu_ids.is_empty());
        let may_have = |kind: &str| ask.gpus == 1 || !is_slice(kind);
        let gpu_types = if ask.gpus == 0 {
            vec![CPU.into()]
        } else if ask.gpu_types.is_empty() {
            self.machine.gpu_types().filter(|kind| may_have(kind)).map(Into::into).collect()
        } else {
            ask.gpu_types.iter().filter(|kind| may_have(kind)).map(|kind| kind.as_str().into()).collect::<Vec<Box<str>>>()
        };
        if gpu_types.is_empty() || (ask.gpus > 0 && gpu_types.iter().any(|kind| &**kind == CPU)) {
            return None;
        }
        let only = ask.gpu_ids.iter().map(|index| self.machine.gpu_numbered(*index)).collect::<Option<Vec<_>>>()?;
        let after =
            ask.after.iter().filter_map(|after| Some(Dependency { job: rows.of(after.id)?, condition: after.condition.into() }));
        let job = Job {
            gpus: ask.gpus.max(1),
            share: MilliGpu(share),
            memory_mib,
            group: group_of(record),
            estimate: ask.estimate_seconds.or(ask.time_limit_seconds).map(seconds),
            usual: Some(seconds(believed)),
            program: program(ask, record.spec.profile.as_deref(), record.spec.program),
            priority: ask.priority,
            weight: ask.weight,
            tickets: ask.tickets,
            after: after.collect(),
            retries: ask.retries,
            preemptible: ask.preemptible,
            saves_progress: ask.saves_progress,
            only: only.into(),
            any_type,
            is_claim: record.is_claim(),
            deadline: ask.deadline.as_deref().and_then(|text| deadline(text, stamp)),
            ..Job::new(Time(record.arrived_at), seconds(believed))
        };
        let job_type = ask.job_type.as_deref().unwrap_or("").into();
        let project = ask.project.as_deref().unwrap_or("").into();
        Some(NewJob { job, user: record.user.as_str().into(), project, job_type, gpu_types })
    }

    /// The GPUs of these names, in ascending order; `None` if one is not there.
    pub fn gpus(&self, names: &[String]) -> Option<GpuList> {
        let mut gpus = names.iter().map(|name| self.gpu(name)).collect::<Option<GpuList>>()?;
        gpus.sort_unstable();
        Some(gpus)
    }

    fn gpu(&self, name: &str) -> Option<GpuId> {
        let slot = name.strip_prefix(SLOT).and_then(|number| number.parse::<u32>().ok());
        slot.map_or_else(|| self.machine.gpu_of(name), |slot| self.machine.slot(slot))
    }
}

/// Whether a type is a slice of a GPU (MIG). A process can use one slice only, so that slices are not part of gangs.
pub fn is_slice(kind: &str) -> bool {
    kind.contains("-mig-")
}

/// A wall-clock moment in the queue's time, by a moment of which both are known.
pub fn deadline(text: &str, stamp: Stamp) -> Option<Time> {
    let time: jiff::Timestamp = text.parse().ok()?;
    let ahead = time.as_nanosecond() - i128::from(stamp.wall_ns);
    Some(Time(stamp.at.saturating_add(u64::try_from(ahead).unwrap_or(0))))
}
