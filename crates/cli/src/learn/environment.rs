//! From what was typed to a task.

use crate::args::EnvArgs;
use crate::inputs::{load_cluster, load_table};
use anyhow::Context;
use rota_core::{Cluster, Span, Workload};
use rota_learn::environment::batch::{BatchTrace, Choosing};
use rota_learn::simulated::Scenario;
use rota_learn::task::{Objective, Task};
use rota_sim::{Restart, SimOptions};
use rota_trace::ReadOptions;
use std::path::Path;
use std::sync::Arc;

/// A task with what is usual for it.
pub struct Chosen {
    pub task: Task,
    pub objective: Objective,
    /// Episodes that a model is judged by.
    pub episodes: u64,
    /// Steps of a training.
    pub steps: u64,
}

/// The cluster of an environment.
pub fn cluster(args: &EnvArgs) -> anyhow::Result<Cluster> {
    let kind = args.env.split_once(':').map_or(args.env.as_str(), |(kind, _)| kind);
    let usual = match kind {
        "trace" => None,
        _ => Some("gpu:4"),
    };
    let spec = args.cluster.as_deref().or(usual).context("--env trace needs a cluster: give --cluster")?;
    load_cluster(spec, args.gpus_per_node)
}

/// The task of an environment.
pub fn task(args: &EnvArgs) -> anyhow::Result<Chosen> {
    let (kind, file) = args.env.split_once(':').map_or((args.env.as_str(), None), |(kind, file)| (kind, Some(Path::new(file))));
    if kind != "swf-compat" && (args.backfill || args.resort) {
        anyhow::bail!("--backfill and --resort go with swf-compat");
    }
    if kind != "trace" && (args.window.is_some() || args.stretch.is_some()) {
        anyhow::bail!("--window and --stretch go with trace");
    }
    match (kind, file) {
        ("classroom", None) => {
            let cluster = cluster(args)?;
            let scenario = Scenario::classroom(cluster, options(args)?);
            Ok(Chosen { task: Task::Simulated(Box::new(scenario)), objective: Objective::Wait, episodes: 200, steps: 4_000_000 })
        }
        ("classroom-compat", None) => {
            let task = Task::ClassroomCompat { gpus: cluster(args)?.gpus.len() };
            Ok(Chosen { task, objective: Objective::Reward, episodes: 200, steps: 50_000 })
        }
        ("swf-compat", Some(file)) => batch(args, file),
        ("trace", Some(file)) => trace(args, file),
        ("swf-compat" | "trace", None) => anyhow::bail!("--env {kind} needs a file: `{kind}:FILE`"),
        ("classroom" | "classroom-compat", Some(_)) => anyhow::bail!("--env {kind} takes no file"),
        _ => anyhow::bail!("unknown environment `{kind}`; known are classroom, classroom-compat, swf-compat:FILE, trace:FILE"),
    }
}

fn options(args: &EnvArgs) -> anyhow::Result<SimOptions> {
    let cost = Span::from_seconds(args.restart_cost).unwrap_or_default();
    let restart = Restart { cost, ..Restart::default() };
    Ok(SimOptions { score: args.place.parse()?, restart, ..SimOptions::default() })
}

/// The processors of a machine whose trace does not say.
const PROCESSORS: u32 = 256;

/// The processors that the head of a trace in the Standard Workload Format tells: `; MaxProcs: 256`, or else `; MaxNodes: 256`.
fn processors_told(file: &Path) -> anyhow::Result<Option<u32>> {
    let text = std::fs::read(file).with_context(|| file.display().to_string())?;
    let head = text.split(|byte| *byte == b'\n').map(String::from_utf8_lossy).take_while(|line| line.starts_with(';'));
    let head = head.collect::<Vec<_>>();
    let told = |wanted: &str| {
        head.iter().find_map(|line| {
            let (word, value) = line.trim_start_matches([';', ' ', '\t']).split_once(':')?;
            let count = value.trim().parse::<u32>().ok()?;
            (word.trim() == wanted && count > 0).then_some(count)
        })
    };
    Ok(told("MaxProcs").or_else(|| told("MaxNodes")))
}

fn batch(args: &EnvArgs, file: &Path) -> anyhow::Result<Chosen> {
    let loaded = rota_trace::read(file, &ReadOptions::default())?;
    let processors = match &args.cluster {
        None => processors_told(file)?.unwrap_or(PROCESSORS),
        Some(_) => cluster(args)?.gpus.len() as u32,
    };
    let trace = Arc::new(BatchTrace::new(&loaded, processors)?);
    let choosing = match (args.backfill, args.resort) {
        (true, _) => Choosing::CommitWithBackfill,
        (false, true) => Choosing::Resort,
        (false, false) => Choosing::Commit,
    };
    // A sorted queue needs a longer search to get beyond the best rule, and its steps cost less.
    let steps = if choosing == Choosing::Resort { 60_000_000 } else { 20_000_000 };
    Ok(Chosen { task: Task::Batch { trace, choosing }, objective: Objective::Bsld, episodes: 10, steps })
}

fn trace(args: &EnvArgs, file: &Path) -> anyhow::Result<Chosen> {
    let cluster = cluster(args)?;
    let table = load_table(None)?;
    let mut workload = rota_trace::read_with(file, &ReadOptions::default(), &table)?.workload;
    if let Some((first, last)) = args.window {
        let Workload { source, names, jobs } = workload;
        let kept = jobs.into_iter().skip(first as usize).take((last - first) as usize + 1).collect::<Vec<_>>();
        if kept.is_empty() {
            anyhow::bail!("--window {first}:{last}: {source} has no such jobs");
        }
        workload = Workload { source, names, jobs: kept };
        for job in &mut workload.jobs {
            // Jobs outside the window are not there to be waited for.
            job.after = Box::default();
        }
        workload.finish();
    }
    let jobs = workload.jobs.len();
    let length = args.stretch.map_or(jobs, |stretch| stretch as usize).min(jobs);
    let scenario = Scenario::trace(workload, table, length, cluster, options(args)?);
    let episodes = (jobs / length.max(1)).max(1) as u64;
    Ok(Chosen { task: Task::Simulated(Box::new(scenario)), objective: Objective::Jct, episodes, steps: 4_000_000 })
}
