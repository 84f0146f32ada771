//! The past: the jobs of a trace or of this site, the GPUs they ran on, and what is recorded of their starts.

use super::alternatives::Past;
use super::words::counted;
use crate::args::WhatIfArgs;
use crate::inputs;
use crate::live::client::Client;
use crate::live::past;
use rota_core::{Cluster, Name, Span, Time, Workload};
use rota_daemon::Outside;
use rota_daemon::api::PastJob;
use rota_sim::{Restart, SimOptions};
use std::collections::BTreeMap;

/// A start that comes later after everything that could have caused it was not delayed by the daemon: the policy waited.
const DELAY_MAX_NS: u64 = 1_000_000_000;

/// What is known of the past beside its jobs.
pub struct Recorded {
    /// The policy that really ran.
    pub ran: String,
    /// How it is known which policy ran.
    pub ran_by: RanBy,
    /// How long each job waited for its first start, by row.
    pub waits: Vec<Option<Span>>,
    /// Jobs that their users held, or that waited for jobs that are left out, by row, and when they could start.
    pub held_until: Vec<(usize, Time)>,
    pub options: SimOptions,
    pub notes: Vec<String>,
}

/// How it is known which policy ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RanBy {
    /// `--ran` says so.
    Said,
    /// It is the policy that the daemon has now.
    InForce,
    /// Nothing says so.
    Assumed,
}

/// Jobs that ran on GPUs of one speed took their time on those, and lengths are kept as of a GPU of speed 1. Gives a note where some jobs may
/// have had GPUs of several speeds: nothing says what their lengths are lengths on.
fn as_recorded(workload: &mut Workload, cluster: &Cluster) -> Option<String> {
    let types = cluster.types.iter().map(|kind| (workload.names.find(&kind.name), kind.speed)).collect::<Vec<_>>();
    let mut unsure = 0;
    for job in workload.jobs.iter_mut().filter(|job| job.steps <= 0.0) {
        let is_asked_for =
            |name: Option<Name>| job.gpu_types.is_empty() || name.is_some_and(|name| job.gpu_types.contains(&name));
        let mut speeds = types.iter().filter(|(name, _)| is_asked_for(*name)).map(|(_, speed)| *speed);
        let Some(speed) = speeds.next() else { continue };
        if speeds.any(|other| (other - speed).abs() > f64::EPSILON) {
            unsure += 1;
            continue;
        }
        job.work = job.work.work_at_speed(speed);
        for span in [&mut job.estimate, &mut job.fails_at] {
            *span = span.map(|span| span.work_at_speed(speed));
        }
    }
    let (are, lengths) = if unsure == 1 { ("is", "its length") } else { ("are", "their lengths") };
    (unsure > 0).then(|| {
        format!(
            "{} may have run on GPUs of different speeds: {lengths} {are} taken to be of a GPU of speed 1",
            counted(unsure, "job")
        )
    })
}

/// The jobs and GPUs of a trace, or of this site's past.
pub fn the_past(args: &WhatIfArgs) -> anyhow::Result<(Past, Recorded)> {
    let restart_cost = args.restart_cost.and_then(Span::from_seconds);
    if let (Some(trace), Some(spec)) = (&args.trace, &args.cluster) {
        let table = inputs::load_table(None)?;
        let loaded = inputs::load_trace(trace, &args.read, &table)?;
        let cluster = inputs::load_cluster(spec, args.gpus_per_node)?;
        let mut workload = loaded.workload;
        let mut notes = loaded.notes;
        notes.extend(as_recorded(&mut workload, &cluster));
        let usual = inputs::usual_policy(&workload);
        let waits = workload.jobs.iter().map(|job| loaded.waits.get(&job.line).copied()).collect();
        let restart = Restart { cost: restart_cost.unwrap_or_default(), ..Restart::default() };
        let options = SimOptions { seed: args.seed.unwrap_or(0), restart, ..SimOptions::default() };
        let ran = args.ran.clone().unwrap_or_else(|| usual.to_owned());
        let ran_by = if args.ran.is_some() { RanBy::Said } else { RanBy::Assumed };
        let peaks_mib = vec![None; workload.jobs.len()];
        let past = Past { workload, cluster, table, peaks_mib, gpus_per_node: args.gpus_per_node };
        return Ok((past, Recorded { ran, ran_by, waits, held_until: Vec::new(), options, notes }));
    }
    // In UTC: the plus sign of another zone means a space in an address.
    let since =
        args.since.as_deref().map(|since| since.parse::<jiff::Timestamp>().map(|moment| moment.to_string())).transpose()?;
    let replay = past::replay_up_to_now(&Client::new(&args.state), since.as_deref())?;
    let not_held = replay.not_held(Outside::Held);
    let settings = past::settings_of(&replay)?;
    let options = past::as_set(settings, restart_cost, args.seed)?;
    let ran = args.ran.clone().unwrap_or_else(|| settings.policy.clone());
    let ran_by = if args.ran.is_some() { RanBy::Said } else { RanBy::InForce };
    let waits = replay.jobs.iter().map(|job| Some(Span(job.runs.first()?.start_ns.checked_sub(job.arrived_at_ns)?)));
    let waits = waits.collect();
    let released = replay.jobs.iter().enumerate().filter_map(|(row, job)| Some((row, job.released_at_ns?)));
    let released = released.map(|(row, at)| (row, Time(at.saturating_sub(replay.zero_ns))));
    let mut held_until = BTreeMap::<usize, Time>::new();
    for (row, at) in released.chain(replay.held_until.iter().copied()) {
        held_until.entry(row).and_modify(|until| *until = at.max(*until)).or_insert(at);
    }
    let held_until = held_until.into_iter().collect();
    let peaks_mib = replay.jobs.iter().map(|job| job.job.peak_memory_mib.and_then(|peak| u32::try_from(peak).ok())).collect();
    let cluster = match &args.cluster {
        Some(spec) => inputs::load_cluster(spec, args.gpus_per_node)?,
        None => past::given_out(replay.cluster.clone(), settings),
    };
    let mut workload = replay.workload;
    for (job, length) in workload.jobs.iter_mut().zip(lengths(&replay.jobs)) {
        (job.work, job.fails_at) = (length, job.fails_at.map(|_| length));
    }
    let past = Past { workload, cluster, table: inputs::load_table(None)?, peaks_mib, gpus_per_node: args.gpus_per_node };
    let notes = replay.left_out.into_iter().chain(not_held).collect();
    Ok((past, Recorded { ran, ran_by, waits, held_until, options, notes }))
}

/// How long each job had its GPUs, from the moment that decided its start. The daemon writes an end or an arrival to the disk, decides, and
/// writes the start; in the simulator no time passes in between. Counted with the run, that time shifts no later start.
fn lengths(jobs: &[PastJob]) -> Vec<Span> {
    let ends = jobs.iter().flat_map(|job| job.runs.iter().map(|run| run.end_ns));
    let arrivals = jobs.iter().flat_map(|job| [Some(job.arrived_at_ns), job.released_at_ns].into_iter().flatten());
    let awaited = jobs.iter().flat_map(|job| job.awaited_ends_ns.values().copied());
    let mut causes = ends.chain(arrivals).chain(awaited).collect::<Vec<_>>();
    causes.sort_unstable();
    let cause_of = |start: u64| {
        let place = causes.partition_point(|at| *at <= start);
        let cause = place.checked_sub(1).map_or(start, |place| causes[place]);
        if start - cause <= DELAY_MAX_NS { cause } else { start }
    };
    let length = |job: &PastJob| {
        let length_ns = job.length(|run| run.end_ns.saturating_sub(cause_of(run.start_ns)) as f64);
        Span((length_ns.round() as u64).max(1))
    };
    jobs.iter().map(length).collect()
}
