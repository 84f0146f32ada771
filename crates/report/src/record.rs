//! The fold: events go in one by one, what became of every job and GPU comes out.
//!
//! An event costs as much as the gang it is about. Without a timeline nothing is kept but one short record a job
//! and one a GPU, so a run of a million jobs fits beside the simulator that makes it.

use crate::billing::Billing;
use rota_core::snapshot::gpu_time;
use rota_core::{Bound, Companions, End, Event, EventKind, GpuId, GpuList, JobId, NodeId, Span, Time};

/// What a recorder keeps besides totals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecorderOptions {
    /// Keep every bar of the schedule, for Gantt charts and curves over time.
    pub timeline: bool,
    /// What a job loses at the beginning of every run but its first.
    pub restart_cost: Span,
}

/// The state of a job when the run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobStatus {
    /// Never submitted: the run ended before its arrival.
    #[default]
    Pending,
    /// Submitted, without GPUs.
    Waiting,
    /// The job was on its GPUs.
    Running,
    /// The job did all its work.
    Completed,
    /// The job ended before its work was done.
    Failed(End),
}

impl JobStatus {
    /// The word that files and tables use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed(_) => "failed",
        }
    }
}

/// What became of one job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobOutcome {
    /// The moment the job was first given GPUs.
    pub first_start: Option<Time>,
    /// The moment the job ended, well or badly.
    pub end: Option<Time>,
    /// Time on GPUs, restarts included.
    pub running: Span,
    /// GPU time received: GPUs × share × time.
    pub service: Span,
    /// Energy of its share of its GPUs: what it made them draw, and their idle power while it held them.
    pub energy_joules: f64,
    /// How often the scheduler took the job's GPUs away.
    pub preemptions: u32,
    /// How often the job was started.
    pub starts: u32,
    /// The job's state when the run ended.
    pub status: JobStatus,
}

impl JobOutcome {
    /// The time from arrival to completion; `None` unless the job completed.
    pub fn jct(&self, arrival: Time) -> Option<Span> {
        (self.status == JobStatus::Completed).then_some(self.end?.since(arrival))
    }

    /// Time without GPUs between arrival and completion; `None` unless it completed.
    pub fn wait(&self, arrival: Time) -> Option<Span> {
        self.jct(arrival).map(|jct| jct.minus(self.running))
    }
}

/// What became of one GPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuRecord {
    /// Time it was allocated, weighted by shares.
    pub busy_seconds: f64,
    /// Energy drawn over the whole run, idle time included.
    pub energy_joules: f64,
    /// What it cost while it was allocated, at the prices then in force; `None` if its type has no price.
    pub cost_usd: Option<f64>,
}

/// How a bar of the schedule ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarEnd {
    /// The job was done.
    Finished,
    /// The scheduler took the GPUs.
    Preempted,
    /// A node was lost.
    Evicted,
    /// The attempt or the job failed.
    Failed,
    /// The run ended first.
    Cut,
}

/// One run of a job on its GPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// The job that ran.
    pub job: JobId,
    /// The start of the run.
    pub start: Time,
    /// The end of the run.
    pub end: Time,
    /// The time the restart took, at the beginning of the run.
    pub overhead: Span,
    /// How the run ended.
    pub ending: BarEnd,
    gpus_first: u32,
    gpus_count: u32,
}

/// Every bar of a schedule, in the order in which they ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// The bars; none is empty.
    pub bars: Vec<Bar>,
    gpus: Vec<GpuId>,
}

impl Timeline {
    /// The gang of a bar.
    pub fn gpus(&self, bar: &Bar) -> &[GpuId] {
        &self.gpus[bar.gpus_first as usize..(bar.gpus_first + bar.gpus_count) as usize]
    }
}

/// A time during which a node was away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absence {
    /// The node that was away.
    pub node: NodeId,
    /// The moment the node was lost.
    pub from: Time,
    /// The moment the node returned, or the run ended.
    pub until: Time,
}

/// What happened in a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// One record for each job, by id.
    pub jobs: Vec<JobOutcome>,
    /// One record for each GPU, by id.
    pub gpus: Vec<GpuRecord>,
    /// The first arrival.
    pub from: Time,
    /// The last end of a job; the end of the run where jobs were still active.
    pub until: Time,
    /// Nodes that were away.
    pub absences: Vec<Absence>,
    /// The bars, if the recorder was asked to keep them.
    pub timeline: Option<Timeline>,
}

impl Run {
    /// From the first arrival to the last end.
    pub fn makespan(&self) -> Span {
        self.until.since(self.from)
    }

    /// Energy drawn by all GPUs.
    pub fn energy_joules(&self) -> f64 {
        self.gpus.iter().map(|gpu| gpu.energy_joules).sum()
    }

    /// GPU time allocated, weighted by shares.
    pub fn busy_gpu_seconds(&self) -> f64 {
        self.gpus.iter().map(|gpu| gpu.busy_seconds).sum()
    }
}

/// A stay that has not ended.
struct OpenBar {
    job: JobId,
    start: Time,
    overhead: Span,
    gpus: GpuList,
    /// Since when another whole-GPU job is on the same GPUs.
    shared_from: Option<Time>,
    /// The time that others were there before.
    shared: Span,
}

const NOT_RUNNING: u32 = u32::MAX;

/// A fold over the events of one run.
pub struct Recorder<'a> {
    bound: &'a Bound,
    restart_cost: Span,
    run: Run,
    /// Row of each running job in `open`.
    open_of: Vec<u32>,
    open: Vec<OpenBar>,
    companions: Companions,
    billing: Billing<'a>,
}

impl<'a> Recorder<'a> {
    /// A recorder for a run of these jobs on their cluster.
    pub fn new(bound: &'a Bound, options: RecorderOptions) -> Self {
        let run = Run {
            jobs: vec![JobOutcome::default(); bound.jobs.len()],
            gpus: vec![GpuRecord::default(); bound.cluster.gpus.len()],
            from: bound.jobs.first().map_or(Time::ZERO, |job| job.arrival),
            timeline: options.timeline.then(Timeline::default),
            ..Run::default()
        };
        let open_of = vec![NOT_RUNNING; bound.jobs.len()];
        let companions = Companions::new(bound.cluster.gpus.len());
        let billing = Billing::new(bound);
        Self { bound, restart_cost: options.restart_cost, run, open_of, open: Vec::new(), companions, billing }
    }

    /// Takes in the next event, whose ids must be those of the bound jobs and cluster.
    pub fn observe(&mut self, event: &Event) {
        let now = event.time_ns;
        match event.kind {
            EventKind::Submitted { job } => self.run.jobs[job.index()].status = JobStatus::Waiting,
            EventKind::Started { job, ref gpus, .. } => self.open(job, now, gpus),
            EventKind::Ended { job, end, .. } => {
                let (bar, status) = match end {
                    End::Finished => (BarEnd::Finished, JobStatus::Completed),
                    End::Preempted => (BarEnd::Preempted, JobStatus::Waiting),
                    End::Evicted => (BarEnd::Evicted, JobStatus::Waiting),
                    End::Retried => (BarEnd::Failed, JobStatus::Waiting),
                    End::Crashed | End::Dependency | End::NeverFits | End::Cancelled | End::Lost => {
                        (BarEnd::Failed, JobStatus::Failed(end))
                    }
                };
                self.close(job, now, bar, status);
                let job = &mut self.run.jobs[job.index()];
                job.preemptions += u32::from(end == End::Preempted);
                job.end = end.is_over().then_some(now);
            }
            // Holds show as waiting, a job that is stopping is still on its GPUs, and what strangers do is not the schedule's doing.
            EventKind::Admitted { .. }
            | EventKind::Changed { .. }
            | EventKind::Stopping { .. }
            | EventKind::Promised { .. }
            | EventKind::Held { .. }
            | EventKind::Released { .. }
            | EventKind::Occupied { .. }
            | EventKind::Drained { .. }
            | EventKind::Resumed { .. }
            | EventKind::DeviceLost { .. }
            | EventKind::DeviceReturned { .. }
            | EventKind::Overused { .. }
            | EventKind::PolicySet { .. }
            | EventKind::RestartMeasured { .. }
            | EventKind::SpeedMeasured { .. }
            | EventKind::Leased { .. }
            | EventKind::Committed { .. }
            | EventKind::Progress { .. }
            | EventKind::Extra { .. }
            | EventKind::Decided { .. } => {}
            EventKind::NodeLost { node } => {
                self.run.absences.push(Absence { node, from: now, until: Time::FAR_FUTURE });
            }
            EventKind::NodeReturned { node } => {
                if let Some(absence) = self.run.absences.iter_mut().rev().find(|absence| absence.node == node) {
                    absence.until = now;
                }
            }
        }
    }

    /// Ends the fold at the run's last moment; stays that are still open are cut there.
    pub fn finish(mut self, end: Time) -> Run {
        while let Some(open) = self.open.last() {
            let (job, end) = (open.job, end.max(open.start));
            self.close(job, end, BarEnd::Cut, JobStatus::Running);
        }
        let mut run = self.run;
        let is_active = |record: &JobOutcome| matches!(record.status, JobStatus::Waiting | JobStatus::Running);
        let last_end = run.jobs.iter().filter_map(|record| record.end).max().unwrap_or(run.from);
        run.until = if run.jobs.iter().any(is_active) { last_end.max(end) } else { last_end }.max(run.from);
        for absence in &mut run.absences {
            absence.until = absence.until.min(run.until.max(absence.from));
        }
        // Until here the energy of a GPU is only what jobs added to its idle power.
        let seconds = run.makespan().seconds();
        for (index, gpu) in run.gpus.iter_mut().enumerate() {
            gpu.energy_joules += self.bound.cluster.type_of(GpuId::from_index(index)).idle_watts * seconds;
            gpu.cost_usd = self.billing.usd(self.bound, GpuId::from_index(index));
        }
        run
    }

    fn open(&mut self, job: JobId, now: Time, gpus: &GpuList) {
        let record = &mut self.run.jobs[job.index()];
        record.first_start.get_or_insert(now);
        let overhead = if record.starts > 0 { self.restart_cost } else { Span::ZERO };
        record.starts += 1;
        record.status = JobStatus::Running;
        self.open_of[job.index()] = self.open.len() as u32;
        let share = self.bound.job(job).share;
        gpus.iter().for_each(|&gpu| self.billing.take(self.bound, gpu, share, now));
        let host = if self.bound.shape(job).is_exclusive() { self.companions.start(job, gpus) } else { None };
        if let Some(host) = host {
            self.open[self.open_of[host.index()] as usize].shared_from = Some(now);
        }
        let shared_from = host.map(|_| now);
        self.open.push(OpenBar { job, start: now, overhead, gpus: gpus.clone(), shared_from, shared: Span::ZERO });
    }

    /// Ends the stay of a job, if it has one, and adds it to the totals.
    fn close(&mut self, job_id: JobId, now: Time, ending: BarEnd, status: JobStatus) {
        let record = &mut self.run.jobs[job_id.index()];
        record.status = status;
        let position = std::mem::replace(&mut self.open_of[job_id.index()], NOT_RUNNING);
        if position == NOT_RUNNING {
            return;
        }
        let open = self.open.swap_remove(position as usize);
        if let Some(moved) = self.open.get(position as usize) {
            self.open_of[moved.job.index()] = position;
        }
        if self.bound.shape(job_id).is_exclusive()
            && let Some(partner) = self.companions.leave(job_id, &open.gpus)
        {
            let other = &mut self.open[self.open_of[partner.index()] as usize];
            other.shared += other.shared_from.take().map_or(Span::ZERO, |from| now.since(from));
        }
        let job = self.bound.job(job_id);
        let span = now.since(open.start);
        record.running += span;
        record.service += gpu_time(job, span);
        // Two whole-GPU jobs that share their GPUs stand for half of them each.
        let shared = open.shared + open.shared_from.map_or(Span::ZERO, |from| now.since(from));
        let held_seconds = (span.seconds() - 0.5 * shared.seconds()) * job.share.fraction();
        for gpu in &open.gpus {
            let kind = self.bound.cluster.type_of(*gpu);
            let dynamic_joules = (kind.full_watts - kind.idle_watts) * job.utilisation * held_seconds;
            record.energy_joules += dynamic_joules + kind.idle_watts * held_seconds;
            let totals = &mut self.run.gpus[gpu.index()];
            totals.busy_seconds += held_seconds;
            totals.energy_joules += dynamic_joules;
            self.billing.give_back(self.bound, *gpu, job.share, now);
        }
        if let Some(timeline) = &mut self.run.timeline
            && span > Span::ZERO
        {
            timeline.bars.push(Bar {
                job: job_id,
                start: open.start,
                end: now,
                overhead: open.overhead.min(span),
                ending,
                gpus_first: timeline.gpus.len() as u32,
                gpus_count: open.gpus.len() as u32,
            });
            timeline.gpus.extend_from_slice(&open.gpus);
        }
    }
}
