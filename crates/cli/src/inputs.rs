//! From what was typed to what a simulation takes: traces, clusters, tables and options.

use crate::args::{MechanismWord, ModelArgs, ReadArgs};
use crate::output::remark;
use rota_core::bind::BadJobs;
use rota_core::{Bound, Cluster, Span, ThroughputTable, Workload};
use rota_sim::{Mechanism, NodeFaults, Restart, SimOptions};
use rota_trace::{Loaded, ReadOptions};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// Skipped lines and jobs that are listed one by one; the rest are counted.
const SKIPPED_SHOWN: usize = 5;

/// Reads a trace and remarks on what was skipped. The table gives the lengths of generated jobs that are drawn in steps.
pub fn load_trace(path: &Path, args: &ReadArgs, table: &ThroughputTable) -> anyhow::Result<Loaded> {
    let format = args.format.as_deref().map(rota_trace::Format::from_str).transpose()?;
    let loaded = rota_trace::read_with(path, &ReadOptions { format, skip_bad: args.skip_bad, ..ReadOptions::default() }, table)?;
    remark_skipped("lines", loaded.skipped_count as usize, &loaded.skipped);
    Ok(loaded)
}

fn remark_skipped<Problem: std::fmt::Display>(what: &str, count: usize, problems: &[Problem]) {
    if count > 0 {
        remark(&format!("skipped {count} bad {what}:"));
        problems.iter().take(SKIPPED_SHOWN).for_each(|problem| remark(&format!("  {problem}")));
        if count > SKIPPED_SHOWN {
            remark(&format!("  and {} more", count - SKIPPED_SHOWN));
        }
    }
}

/// Reads a cluster: a specification, or the name of a file.
pub fn load_cluster(spec: &str, gpus_per_node: u32) -> anyhow::Result<Cluster> {
    let path = Path::new(spec);
    let looks_like_file = path.extension().is_some_and(|ending| ending == "toml" || ending == "csv") || path.exists();
    if looks_like_file { Ok(rota_trace::read_cluster(path)?) } else { Ok(Cluster::from_spec(spec, gpus_per_node)?) }
}

/// The throughput table: a file, or the one that comes with Rota.
pub fn load_table(path: Option<&Path>) -> anyhow::Result<ThroughputTable> {
    Ok(path.map(rota_trace::read_throughputs).transpose()?.unwrap_or_else(rota_trace::default_throughputs))
}

/// Binds a workload to a cluster, remarking on jobs that were skipped.
pub fn bind(workload: Workload, cluster: Cluster, table: &ThroughputTable, skip_bad: bool) -> anyhow::Result<Arc<Bound>> {
    let bad_jobs = if skip_bad { BadJobs::Skip } else { BadJobs::Refuse };
    let bound = Bound::new(workload, cluster, table, bad_jobs).map_err(|error| {
        anyhow::anyhow!("{error}\n  leave out jobs that cannot run with --skip-bad, or give a larger --cluster")
    })?;
    remark_skipped("jobs", bound.skipped.len(), &bound.skipped);
    if bound.jobs.is_empty() {
        anyhow::bail!("{}: there is no job left to simulate", bound.source);
    }
    Ok(Arc::new(bound))
}

/// The options of a simulation.
pub fn sim_options(args: &ModelArgs, seed: u64, window: Option<(u32, u32)>) -> anyhow::Result<SimOptions> {
    let span = |seconds: f64| Span::from_seconds(seconds).unwrap_or_default();
    Ok(SimOptions {
        mechanism: match args.mechanism {
            MechanismWord::Event => Mechanism::Event,
            MechanismWord::Rounds => Mechanism::Rounds { length: span(args.round) },
        },
        seed,
        score: args.place.parse()?,
        restart: Restart { cost: span(args.restart_cost), checkpoint: args.checkpoint.map(span) },
        faults: args
            .node_mtbf
            .map(|hours| NodeFaults { mean_uptime: span(hours * 3600.0), mean_repair: span(args.node_repair * 3600.0) }),
        window,
    })
}

/// The run in a few lines: what runs where, and how.
pub fn setting(bound: &Bound, args: &ModelArgs) -> Vec<String> {
    let mechanism = match args.mechanism {
        MechanismWord::Event => "mechanism event: decisions on every arrival, completion and release".to_owned(),
        MechanismWord::Rounds => format!("mechanism rounds of {} s: running jobs keep their GPUs until a round ends", args.round),
    };
    vec![
        format!("{} jobs from {} on {}", bound.jobs.len(), bound.source, bound.cluster.describe()),
        format!("{mechanism}; a restart costs {} s", args.restart_cost),
    ]
}

/// What else a reader must know to believe the numbers.
pub fn assumptions(bound: &Bound, args: &ModelArgs, notes: &[String]) -> Vec<String> {
    let mut lines = vec![format!("placement: {}", args.place)];
    let with_estimate = bound.jobs.iter().filter(|job| job.estimate.is_some()).count();
    lines.push(match with_estimate {
        0 => "the trace has no estimates: policies and reservations that use them know the true lengths".to_owned(),
        count if count == bound.jobs.len() => "policies and reservations go by the estimates of the trace".to_owned(),
        count => format!("{count} jobs have an estimate; for the others policies know the true length"),
    });
    if let Some(source) = &bound.throughput_source {
        lines.push(format!("speeds of jobs given in steps: {source}"));
    }
    let unknown = bound.cluster.types.iter().filter(|kind| !kind.known).map(|kind| kind.name.as_str()).collect::<Vec<_>>();
    if !unknown.is_empty() {
        lines.push(format!("no figures for GPU type {}: power taken as 30 W idle, 300 W full; no price", unknown.join(", ")));
    }
    if let Some(hours) = args.node_mtbf {
        let saved = args.checkpoint.map_or("no checkpoints".to_owned(), |every| format!("a checkpoint every {every} s"));
        lines.push(format!("nodes are lost every {hours} h on average and return after {} h; {saved}", args.node_repair));
    }
    lines.extend(notes.iter().cloned());
    lines
}
