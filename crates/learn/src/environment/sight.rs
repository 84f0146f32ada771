//! What a chooser sees of the simulator's queue: the rows that the policy `learned` would look at, kept from one choice to the next.
//!
//! Of a row only what changed is made anew: what time changes when time has gone on, what the cluster changes at every choice, and the rest
//! (what earlier jobs of its user and kind taught) when [`RENEW_AFTER`] more things were learned about run times. What is free is followed event by event. Where that is not possible (several
//! GPU types, nodes that come and go) every row is made as the policy makes it.

use crate::features::{self, ALIGNMENT, COUNT, EARLIEST, FITS, FREE, QUEUE, SLOWDOWN, WAIT, log};
use crate::model::{Header, Model, Use, VERSION};
use crate::policy::Learned;
use rota_core::{Bound, End, Event, EventKind, GpuList, JobId, MilliGpu, Snapshot, Time};
use rota_nn::{Activation, BadSizes, Network};
use std::sync::Arc;

/// What earlier jobs taught is asked again when so much more was learned.
const RENEW_AFTER: u64 = 512;
/// A job without a row.
const NOWHERE: u32 = u32::MAX;

/// The row of a job, and what it is renewed from.
#[derive(Clone)]
struct Kept {
    row: [f32; COUNT],
    arrival: Time,
    /// The estimate in seconds, where the chooser may know one.
    estimate_seconds: Option<f64>,
    gpus: u32,
    share: MilliGpu,
    memory_mib: u32,
    /// When the row was renewed last.
    renewed: Option<Time>,
    /// How much had been learned when it was made.
    version: u64,
    /// Whether the job takes whole GPUs, any of them.
    takes_any: bool,
}

/// A GPU as a chooser sees it.
#[derive(Clone, Copy)]
struct Left {
    share: i32,
    memory_mib: i64,
}

/// A job that runs.
#[derive(Clone)]
struct Run {
    job: JobId,
    gpus: GpuList,
    /// When it is believed to end.
    end: Time,
}

/// What is free, followed event by event.
struct Room {
    left: Vec<Left>,
    largest_mib: f64,
    idle: u32,
    busy_milli: i64,
    /// Running jobs, the first that is believed to end before the others.
    runs: Vec<Run>,
}

impl Room {
    /// The room of an empty cluster; `None` where it cannot be followed.
    fn new(bound: &Bound) -> Option<Self> {
        let [kind] = &bound.cluster.types[..] else { return None };
        if !bound.cluster.outages.is_empty() {
            return None;
        }
        let whole = Left { share: i32::from(MilliGpu::WHOLE.0), memory_mib: i64::from(kind.memory_mib) };
        let gpus = bound.cluster.gpus.len();
        Some(Self {
            left: vec![whole; gpus],
            largest_mib: f64::from(kind.memory_mib.max(1)),
            idle: gpus as u32,
            busy_milli: 0,
            runs: Vec::new(),
        })
    }

    fn take(&mut self, gpus: &GpuList, share: MilliGpu, memory_mib: u32, sign: i32) {
        let whole = i32::from(MilliGpu::WHOLE.0);
        let share = i32::from(share.0) * sign;
        for gpu in gpus {
            self.busy_milli += i64::from(share);
            let left = &mut self.left[gpu.index()];
            let was_idle = left.share == whole;
            left.share -= share;
            left.memory_mib -= i64::from(memory_mib) * i64::from(sign);
            self.idle = (self.idle + u32::from(left.share == whole)) - u32::from(was_idle);
        }
    }

    /// How well a job goes with the GPU that suits it best; `None` if there is no room for it.
    fn alignment(&self, kept: &Kept, free: f64) -> Option<f64> {
        if kept.share == MilliGpu::WHOLE {
            return (kept.gpus <= self.idle).then_some(free);
        }
        let (share, memory_mib) = (i32::from(kept.share.0), i64::from(kept.memory_mib));
        let fitting = self.left.iter().filter(|left| share <= left.share && memory_mib <= left.memory_mib);
        let memory = f64::from(kept.memory_mib) / self.largest_mib;
        let value = |left: &Left| {
            kept.share.fraction() * f64::from(left.share) / 1000.0 + memory * left.memory_mib as f64 / self.largest_mib
        };
        fitting.map(value).reduce(f64::max)
    }

    /// Seconds until so many GPUs are believed to be free; 0 if that is not known.
    fn seconds_until(&self, gpus: u32, now: Time) -> f64 {
        let mut free = self.idle;
        let enough = self.runs.iter().find(|run| {
            free += run.gpus.len() as u32;
            free >= gpus
        });
        enough.map_or(0.0, |run| run.end.since(now).seconds())
    }
}

/// What a chooser sees.
pub(super) struct Sight {
    watcher: Learned,
    estimates: bool,
    room: Option<Room>,
    kept: Vec<Kept>,
    /// The place of each job's row among the kept ones.
    places: Vec<u32>,
    /// The jobs that are seen, in order of arrival.
    pub jobs: Vec<JobId>,
    /// Features, row by row, without the row of waiting.
    pub rows: Vec<f32>,
    /// Which jobs are known to fit or not to fit; `None` where placement has to be asked.
    pub fits: Vec<Option<bool>>,
}

impl Sight {
    /// What is seen of an episode before it begins.
    pub fn new(bound: &Bound, estimates: bool) -> Result<Self, BadSizes> {
        Ok(Self {
            watcher: watcher(estimates)?,
            estimates,
            room: Room::new(bound),
            kept: Vec::new(),
            places: Vec::new(),
            jobs: Vec::new(),
            rows: Vec::new(),
            fits: Vec::new(),
        })
    }

    /// Makes every row as the policy makes it from now on.
    #[cfg(test)]
    pub fn follow_no_room(&mut self) {
        self.room = None;
    }

    /// Forgets everything, before another episode.
    pub fn reset(&mut self, bound: &Bound) {
        self.watcher = self.watcher.anew();
        self.room = Room::new(bound);
        self.kept.clear();
        self.places.clear();
        self.jobs.clear();
        self.rows.clear();
        self.fits.clear();
    }

    /// Takes in an event.
    pub fn record(&mut self, event: &Event, bound: &Bound) {
        let Some(room) = &mut self.room else { return };
        match &event.kind {
            EventKind::Started { job, gpus, .. } => {
                let row = bound.job(*job);
                room.take(gpus, row.share, row.memory_mib, 1);
                let work = row.estimate.unwrap_or(bound.truth(*job).work);
                let end = event.time_ns + work.at_speed(bound.best_speed(*job));
                let place = room.runs.partition_point(|run| run.end <= end);
                room.runs.insert(place, Run { job: *job, gpus: gpus.clone(), end });
            }
            EventKind::Ended { job, end: End::Finished | End::Crashed, .. } => {
                let row = bound.job(*job);
                if let Some(place) = room.runs.iter().position(|run| run.job == *job) {
                    let run = room.runs.remove(place);
                    room.take(&run.gpus, row.share, row.memory_mib, -1);
                }
            }
            EventKind::Submitted { .. } | EventKind::Decided { .. } => {}
            // Whatever else happens may change what is free in ways that are not followed here.
            _ => self.room = None,
        }
    }

    /// Makes the rows of this moment, `most` of them at the most. If no job can fit it says so and makes none.
    pub fn look(&mut self, snapshot: &Snapshot<'_>, most: usize) -> bool {
        if self.room.is_none() {
            let (jobs, rows) = self.watcher.see(snapshot, most);
            self.rows.clear();
            self.rows.extend_from_slice(rows);
            self.jobs = jobs;
            self.fits.clear();
            self.fits.resize(self.jobs.len(), None);
            return true;
        }
        let waiting = self.watcher.keep_up(snapshot, most, &mut self.jobs);
        self.places.resize(snapshot.states.len(), NOWHERE);
        let version = self.watcher.version();
        let idle = self.room.as_ref().map_or(0, |room| room.idle);
        let mut any = false;
        for place in 0..self.jobs.len() {
            let job = self.jobs[place];
            let kept = self.kept.get(self.places[job.index()] as usize);
            let is_good = kept.is_some_and(|kept| version.saturating_sub(kept.version) < RENEW_AFTER);
            if !is_good {
                self.make(job, version, snapshot);
            }
            let kept = &self.kept[self.places[job.index()] as usize];
            any |= !kept.takes_any || kept.gpus <= idle;
        }
        if any {
            self.show(waiting, snapshot.now);
        }
        any
    }

    /// Makes the row of a job anew.
    fn make(&mut self, job: JobId, version: u64, snapshot: &Snapshot<'_>) {
        let (row, estimate_seconds) = self.watcher.still_row(job, snapshot);
        let (spec, shape) = (snapshot.bound.job(job), snapshot.bound.shape(job));
        let takes_any = shape.is_exclusive() && shape.only.is_none() && shape.nodes_max == 0 && !shape.is_mixed;
        let made = Kept {
            row,
            arrival: spec.arrival,
            estimate_seconds,
            gpus: spec.gpus,
            share: spec.share,
            memory_mib: spec.memory_mib,
            renewed: None,
            version,
            takes_any,
        };
        match self.places[job.index()] {
            NOWHERE => {
                self.places[job.index()] = self.kept.len() as u32;
                self.kept.push(made);
            }
            place => self.kept[place as usize] = made,
        }
    }

    /// Writes the rows out, with what the cluster changes.
    fn show(&mut self, waiting: usize, now: Time) {
        let Self { room: Some(room), kept, places, jobs, rows, fits, estimates, .. } = self else { return };
        let gpus = room.left.len().max(1) as f64;
        let free = (1.0 - room.busy_milli as f64 / 1000.0 / gpus).max(0.0);
        let queue = log(waiting as f64, 6.0);
        rows.resize(jobs.len() * COUNT, 0.0);
        fits.clear();
        // Most jobs ask for one of a few numbers of GPUs.
        let mut last = (0, 0.0);
        let (shown, _) = rows.as_chunks_mut::<COUNT>();
        for (job, row) in jobs.iter().zip(shown) {
            let kept = &mut kept[places[job.index()] as usize];
            if kept.renewed != Some(now) {
                let waited = now.since(kept.arrival).seconds();
                kept.row[WAIT] = log(waited, 10.0);
                kept.row[SLOWDOWN] = kept.estimate_seconds.map_or(0.0, |estimate| log(waited / estimate.max(10.0), 5.0));
                kept.renewed = Some(now);
            }
            let alignment = room.alignment(kept, free);
            *row = kept.row;
            row[FREE] = free as f32;
            row[QUEUE] = queue;
            row[FITS] = f32::from(u8::from(alignment.is_some()));
            row[ALIGNMENT] = alignment.unwrap_or(0.0) as f32;
            row[EARLIEST] = 0.0;
            if alignment.is_none() {
                if last.0 != kept.gpus {
                    let seconds = if *estimates { room.seconds_until(kept.gpus, now) } else { 0.0 };
                    last = (kept.gpus, log(seconds, 10.0));
                }
                row[EARLIEST] = last.1;
            }
            fits.push(kept.takes_any.then_some(alignment.is_some()));
        }
    }
}

/// The policy that looks, with a model that has no say.
fn watcher(estimates: bool) -> Result<Learned, BadSizes> {
    let network = Network::zero(&[COUNT, 1], Activation::Relu)?;
    let header = Header {
        version: VERSION,
        environment: String::new(),
        objective: String::new(),
        algorithm: String::new(),
        seed: 0,
        steps: 0,
        used: Use { preempt: false, pass: true, reserve: false, estimates },
        features: features::NAMES.map(str::to_owned).to_vec(),
        low: vec![0.0; COUNT],
        high: vec![0.0; COUNT],
        activation: Activation::Relu,
        power_limits: std::collections::BTreeMap::new(),
    };
    Ok(Learned::seeing_all(Arc::new(Model { header, network })))
}
