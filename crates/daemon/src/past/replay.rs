//! A replay: the past as the simulator can run it: jobs with their measured lengths, and the machine they ran on.

use crate::api::{Gpu, History, PastJob, PastRun, SchedulerSettings};
use crate::forecast::learned::program;
use crate::memory::profiles::program_of;
use rota_core::cluster::{Gpu as ClusterGpu, Node};
use rota_core::{
    Cluster, Dependency, End, Event, EventKind, GpuCatalog, GpuId, GpuList, GpuType, GpuTypeId, Job, JobId, MilliGpu, NodeId,
    Span, Time, Workload, mark,
};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// The history has no job that the simulator could run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no job with a GPU has ended in that time")]
pub struct NothingEnded;

/// The past as a workload and a cluster that the simulator can run.
pub struct Replay {
    /// The jobs, as they came.
    pub workload: Workload,
    /// The machine that the jobs ran on.
    pub cluster: Cluster,
    /// The jobs of the workload, in its order.
    pub jobs: Vec<PastJob>,
    /// Jobs that are not in it, and why.
    pub left_out: Vec<String>,
    /// Jobs that waited for jobs that are not in it, by row, and when the last of those had ended.
    pub held_until: Vec<(usize, Time)>,
    /// How many jobs waited for a job that is not in it and whose end is not known.
    pub unknown_ends: usize,
    /// The moment that is zero in it.
    pub zero_ns: u64,
    /// How the scheduler is set.
    pub scheduler: Option<SchedulerSettings>,
    /// The UUIDs of the machine's GPUs, in their order.
    pub gpu_uuids: Vec<String>,
}

/// How a run ended that has not.
pub(crate) const RUNNING: &str = "running";

/// What becomes of jobs that waited for jobs that are not in the replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// They are held until [`Replay::held_until`].
    Held,
    /// They wait for none of those.
    Ignored,
}

impl Replay {
    /// Turns a history into a replay.
    pub fn of(history: History) -> Result<Self, NothingEnded> {
        let cluster = cluster_of(&history.host, &history.gpus);
        let gpu_uuids = history.gpus.iter().map(|gpu| gpu.uuid.clone()).collect();
        let mut left_out: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        let mut jobs = Vec::new();
        for job in history.jobs {
            let why = if job.job.claim {
                ("claim of a process, whose length nobody chose", "claims of processes, whose lengths nobody chose")
            } else if job.ask.gpus == 0 {
                ("job without a GPU", "jobs without a GPU")
            } else if job.runs.is_empty() {
                ("job that never started", "jobs that never started")
            } else {
                jobs.push(job);
                continue;
            };
            *left_out.entry(why).or_default() += 1;
        }
        if jobs.is_empty() {
            return Err(NothingEnded);
        }
        jobs.sort_by_key(|job| (job.arrived_at_ns, job.job.id));
        let zero_ns = jobs.first().map_or(0, |job| job.arrived_at_ns);
        let mut workload = Workload::new(format!("history of {}", history.host));
        let rows = jobs.iter().enumerate().map(|(row, job)| (job.job.id, JobId::from_index(row))).collect::<HashMap<_, _>>();
        let (mut held_until, mut unknown_ends) = (Vec::new(), 0);
        for (row, job) in jobs.iter().enumerate() {
            let mut entry = job_of(job, zero_ns, &mut workload);
            entry.after = dependencies(job, &rows);
            let outside = job.ask.after.iter().filter(|after| !rows.contains_key(&after.id));
            let ends = outside.map(|after| job.awaited_ends_ns.get(&after.id).copied()).collect::<Vec<_>>();
            unknown_ends += usize::from(ends.contains(&None));
            let last = ends.into_iter().flatten().max().filter(|end| *end > job.arrived_at_ns);
            held_until.extend(last.map(|end| (row, Time(end - zero_ns))));
            let place = |index: &u32| history.gpus.iter().position(|gpu| gpu.index == *index).map(GpuId::from_index);
            // A GPU that is not there any more cannot be asked for.
            entry.only = job.ask.gpu_ids.iter().map(place).collect::<Option<_>>().unwrap_or_default();
            workload.push(entry);
        }
        workload.finish();
        let running = jobs.iter().filter(|job| job.runs.last().is_some_and(|run| run.end == RUNNING)).count();
        let running = match running {
            0 => None,
            1 => Some("1 job still runs: here it ends now".to_owned()),
            _ => Some(format!("{running} jobs still run: here they end now")),
        };
        let earlier = history.truncated.then(|| "left out: earlier jobs, because one answer has only the latest".to_owned());
        let counted = left_out.into_iter().map(|((one, several), count)| match count {
            1 => format!("left out: 1 {one}"),
            _ => format!("left out: {count} {several}"),
        });
        let left_out = counted.chain(earlier).chain(running).collect();
        Ok(Self { workload, cluster, jobs, left_out, held_until, unknown_ends, zero_ns, scheduler: history.scheduler, gpu_uuids })
    }

    /// Says that jobs do not wait for jobs that are not in the replay; `None` if there are none.
    pub fn not_held(&self, outside: Outside) -> Option<String> {
        let jobs = match outside {
            Outside::Held => self.unknown_ends,
            Outside::Ignored => self.unknown_ends + self.held_until.len(),
        };
        let (counted, wait, they) = match jobs {
            0 => return None,
            1 => ("1 job".to_owned(), "waits", "it"),
            several => (format!("{several} jobs"), "wait", "they"),
        };
        Some(format!("{counted} waited for jobs that are not in this past: here {they} {wait} for none of those"))
    }

    /// What really happened: the runs as the events of one world.
    pub fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for (index, past) in self.jobs.iter().enumerate() {
            let job = JobId::from_index(index);
            let at = |ns: u64| Time(ns.saturating_sub(self.zero_ns));
            events.push((0, Event { time_ns: at(past.arrived_at_ns), kind: EventKind::Submitted { job } }));
            for (position, run) in past.runs.iter().enumerate() {
                let place = |uuid: &String| self.gpu_uuids.iter().position(|known| known == uuid).map(GpuId::from_index);
                let gpus = run.gpu_uuids.iter().filter_map(place).collect::<GpuList>();
                // A GPU that is not there any more cannot be drawn.
                if gpus.len() != past.ask.gpus as usize {
                    continue;
                }
                events.push((2, Event { time_ns: at(run.start_ns), kind: EventKind::started(job, gpus) }));
                events.push((1, Event { time_ns: at(run.end_ns), kind: end_of(job, run, position + 1 == past.runs.len()) }));
            }
        }
        events.sort_by_key(|(order, event)| (event.time_ns, *order));
        events.into_iter().map(|(_, event)| event).collect()
    }
}

fn end_of(job: JobId, run: &PastRun, is_last: bool) -> EventKind {
    // A job whose last attempt was to be tried again was not tried again in the stretch that is looked at.
    let end = crate::end_of_word(&run.end).filter(|end| end.is_over() || !is_last || *end != End::Retried);
    EventKind::ended(job, end.unwrap_or(End::Crashed))
}

/// The jobs that must end before this one, of those in the replay.
fn dependencies(past: &PastJob, rows: &HashMap<u64, JobId>) -> Box<[Dependency]> {
    let dependency =
        |after: &crate::api::After| Some(Dependency { job: *rows.get(&after.id)?, condition: after.condition.into() });
    past.ask.after.iter().filter_map(dependency).collect()
}

fn job_of(past: &PastJob, zero_ns: u64, workload: &mut Workload) -> Job {
    let work = Span::from_seconds(past.length(|run| run.work_seconds)).unwrap_or_default().max(Span(1));
    let kind = past.ask.job_type.as_deref().or(past.job.name.as_deref());
    let failed = !matches!(past.runs.last().map(|run| run.end.as_str()), Some("finished" | RUNNING));
    Job {
        label: Some(past.job.id.to_string().into()),
        user: workload.names.intern(&past.job.user),
        project: past.ask.project.as_deref().map_or(rota_core::Name::NONE, |project| workload.names.intern(project)),
        kind: kind.map_or(rota_core::Name::NONE, |kind| workload.names.intern(kind)),
        gpus: past.ask.gpus,
        gpu_types: past.ask.gpu_types.iter().map(|kind| workload.names.intern(kind)).collect(),
        share: MilliGpu(past.share_milli),
        memory_mib: past.memory_mib,
        estimate: past.ask.estimate_seconds.or(past.ask.time_limit_seconds).and_then(Span::from_seconds),
        usual: Span::from_seconds(past.believed_seconds),
        program: program(&past.ask, past.job.profile.as_deref(), Some(mark(&program_of(&past.ask)))),
        priority: past.ask.priority,
        weight: past.ask.weight,
        tickets: past.ask.tickets,
        fails_at: failed.then_some(work),
        preemptible: past.ask.preemptible,
        saves_progress: past.ask.saves_progress,
        any_type: past.ask.gpus > 1 && (past.ask.any_type || !past.ask.gpu_ids.is_empty()),
        ..Job::new(Time(past.arrived_at_ns - zero_ns), work)
    }
}

/// A machine with these GPUs.
pub fn cluster_of(host: &str, present: &[Gpu]) -> Cluster {
    let catalog = GpuCatalog::default();
    let mut types: Vec<GpuType> = Vec::new();
    let mut gpus = Vec::new();
    let mut nodes: Vec<Node> = Vec::new();
    for gpu in present {
        let known = types.iter().position(|kind| kind.name == gpu.kind).unwrap_or_else(|| {
            let memory_mib = u32::try_from(gpu.memory_total_mib).unwrap_or(u32::MAX);
            types.push(GpuType { name: gpu.kind.clone(), memory_mib, ..catalog.find(&gpu.kind) });
            types.len() - 1
        });
        let name = if gpu.node.is_empty() { host } else { &gpu.node };
        if nodes.last().is_none_or(|last| last.name != name) {
            nodes.push(Node { name: name.to_owned(), gpus: gpus.len() as u32..gpus.len() as u32 });
        }
        gpus.push(ClusterGpu { node: NodeId::from_index(nodes.len() - 1), gpu_type: GpuTypeId::from_index(known) });
        if let Some(last) = nodes.last_mut() {
            last.gpus.end = gpus.len() as u32;
        }
    }
    Cluster { types, nodes, gpus, outages: Vec::new(), entities: Vec::new() }
}

#[derive(Serialize)]
struct ClusterFile<'a> {
    gpu_type: Vec<TypeTable<'a>>,
    node: Vec<NodeTable<'a>>,
}

#[derive(Serialize)]
struct TypeTable<'a> {
    name: &'a str,
    memory_mib: u32,
    idle_watts: f64,
    full_watts: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    usd_per_hour: Option<f64>,
    speed: f64,
}

#[derive(Serialize)]
struct NodeTable<'a> {
    name: &'a str,
    gpus: String,
}

/// A cluster as the file that `--cluster` reads.
pub fn cluster_toml(cluster: &Cluster) -> Result<String, toml::ser::Error> {
    // What is only assumed of a type stays unsaid, so that the simulation says that it is assumed.
    let is_told = |kind: &&GpuType| kind.known || kind.memory_mib != GpuType::unknown(&kind.name).memory_mib;
    let types = cluster.types.iter().filter(is_told).map(|kind| TypeTable {
        name: &kind.name,
        memory_mib: kind.memory_mib,
        idle_watts: kind.idle_watts,
        full_watts: kind.full_watts,
        usd_per_hour: kind.usd_per_hour,
        speed: kind.speed,
    });
    let gpus_of = |node: &Node| {
        let mut counts: Vec<(GpuTypeId, u32)> = Vec::new();
        for gpu in &cluster.gpus[node.gpus.start as usize..node.gpus.end as usize] {
            match counts.last_mut() {
                Some((kind, count)) if *kind == gpu.gpu_type => *count += 1,
                _ => counts.push((gpu.gpu_type, 1)),
            }
        }
        let counts = counts.iter().map(|(kind, count)| format!("{}:{count}", cluster.types[kind.index()].name));
        counts.collect::<Vec<_>>().join(",")
    };
    let nodes = cluster.nodes.iter().map(|one| NodeTable { name: &one.name, gpus: gpus_of(one) });
    toml::to_string(&ClusterFile { gpu_type: types.collect(), node: nodes.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{After, AfterCondition, Submit};
    use crate::store::journal::{Stamp, Submission};
    use crate::store::record::{JobRecord, Spec};
    use std::sync::Arc;

    /// A job that arrived at second 10 and ran from second 20 on, for so many seconds at a time.
    fn past(id: u64, ask: &Submit, runs: &[(f64, &str, Option<f64>)]) -> PastJob {
        let spec = Spec { ask: Arc::new(ask.clone()), ..Spec::default() };
        let request = Submission { uid: 1, gpus: 1, spec: Some(Arc::new(spec)), ..Submission::default() };
        let record = JobRecord::new(id, &request, Stamp { at: 0, wall_ns: 0 });
        let mut start = 20.0;
        let runs = runs.iter().map(|&(seconds, end, kept_part)| {
            let (start_ns, end_ns) = ((start * 1e9) as u64, ((start + seconds) * 1e9) as u64);
            start += seconds;
            PastRun { gpu_uuids: Vec::new(), start_ns, end_ns, work_seconds: seconds, kept_part, end: end.to_owned() }
        });
        PastJob {
            job: record.view(std::path::Path::new("/"), None, None),
            ask: ask.clone(),
            arrived_at_ns: 10_000_000_000,
            believed_seconds: 60.0,
            share_milli: 1000,
            memory_mib: 0,
            released_at_ns: None,
            steps: None,
            awaited_ends_ns: BTreeMap::new(),
            runs: runs.collect(),
        }
    }

    fn replay(jobs: Vec<PastJob>) -> Replay {
        let (host, gpus, samples) = ("gauss".to_owned(), Vec::new(), Vec::new());
        Replay::of(History { host, gpus, jobs, running: Vec::new(), samples, scheduler: None, truncated: false }).unwrap()
    }

    #[test]
    fn work_that_was_lost_when_a_job_was_stopped_is_not_part_of_its_length() {
        let (saves, begins_anew) =
            (Submit { gpus: 1, saves_progress: true, ..Submit::default() }, Submit { gpus: 1, ..Submit::default() });
        let length = |ask: &Submit, runs: &[(f64, &str, Option<f64>)]| {
            replay(vec![past(1, ask, runs)]).workload.jobs[0].work.seconds().round() as u64
        };
        let stopped = |kept| [(8.0, "preempted", kept), (16.0, "finished", Some(1.0))];
        assert_eq!(length(&begins_anew, &stopped(Some(0.0))), 16);
        assert_eq!(length(&saves, &stopped(Some(1.0))), 24);
        assert_eq!(length(&saves, &stopped(Some(0.25))), 18, "it committed after 2 s");
        // Runs that an earlier version wrote down.
        assert_eq!((length(&begins_anew, &stopped(None)), length(&saves, &stopped(None))), (16, 24));
        // It would have failed under every policy, and had its GPUs until then.
        assert_eq!(length(&begins_anew, &[(8.0, "retried", Some(0.0)), (16.0, "finished", Some(1.0))]), 24);
    }

    #[test]
    fn a_job_is_held_until_a_job_that_is_not_in_the_past_had_ended() {
        let waits = |id: u64| Submit { gpus: 1, after: vec![After { id, condition: AfterCondition::Any }], ..Submit::default() };
        let runs = [(16.0, "finished", None)];
        let first = past(5, &Submit { gpus: 1, ..Submit::default() }, &runs);
        let with_end = |id, after: u64, end: u64| PastJob {
            awaited_ends_ns: [(after, end * 1_000_000_000)].into(),
            ..past(id, &waits(after), &runs)
        };
        let known = with_end(6, 2, 19);
        let over_before = with_end(7, 1, 9);
        let inside = with_end(8, 5, 36);
        let of_no_known_end = past(9, &waits(3), &runs);
        let replay = replay(vec![first, known, over_before, inside, of_no_known_end]);
        assert_eq!(replay.held_until, [(1, Time(9_000_000_000))], "in the time of the replay, which begins at second 10");
        let waits_for = replay.workload.jobs.iter().map(|job| job.after.len()).collect::<Vec<_>>();
        assert_eq!(waits_for, [0, 0, 0, 1, 0]);
        assert!(replay.not_held(Outside::Held).unwrap().starts_with("1 job waited"));
        assert!(replay.not_held(Outside::Ignored).unwrap().starts_with("2 jobs waited"));
    }

    #[test]
    fn a_cluster_is_written_as_it_is_read() {
        for spec in ["a100:2,t4:2", "v100:20", "strange-type:3,k80:1"] {
            let cluster = Cluster::from_spec(spec, 8).unwrap();
            let read = Cluster::from_toml(&cluster_toml(&cluster).unwrap()).unwrap();
            assert_eq!(read, cluster, "{spec}");
        }
        let mut odd = Cluster::from_spec("mystery:1", 8).unwrap();
        odd.types[0].memory_mib = 5000;
        let read = Cluster::from_toml(&cluster_toml(&odd).unwrap()).unwrap();
        assert_eq!(read.types[0].memory_mib, 5000);
    }
}
