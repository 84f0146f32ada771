//! From what was typed to what a simulation takes: traces, clusters, tables and options.

use crate::args::{MechanismWord, ModelArgs, ReadArgs};
use crate::output::remark;
use crate::simulate::sim::build_policy;
use rota_core::bind::BadJobs;
use rota_core::{Bound, Cluster, Durations, Span, ThroughputTable, Workload};
use rota_gpu::PowerCap;
use rota_sim::{Mechanism, NodeFaults, Restart, SimOptions};
use rota_trace::{Loaded, ReadOptions};
use std::collections::BTreeSet;
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

/// Says what was skipped, and lists the first few.
pub fn remark_skipped<Problem: std::fmt::Display>(what: &str, count: usize, problems: &[Problem]) {
    if count > 0 {
        remark(&format!("skipped {count} bad {what}:"));
        problems.iter().take(SKIPPED_SHOWN).for_each(|problem| remark(&format!("  {problem}")));
        if count > SKIPPED_SHOWN {
            remark(&format!("  and {} more", count - SKIPPED_SHOWN));
        }
    }
}

/// What a cluster manager does where nobody has set it: by priority if its log has priorities, otherwise first come, first served; with
/// backfill.
pub fn usual_policy(workload: &Workload) -> &'static str {
    let has_priorities = workload.jobs.windows(2).any(|pair| pair[0].priority != pair[1].priority);
    if has_priorities { "priority:backfill=easy" } else { "fcfs:backfill=easy" }
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
    let users = bound.jobs.iter().map(|job| bound.names.text(job.user)).collect::<BTreeSet<_>>();
    if let Some(entity) = bound.cluster.entities.iter().find(|entity| !users.contains(entity.name.as_str())) {
        let known = users.iter().take(8).copied().collect::<Vec<_>>().join("`, `");
        anyhow::bail!(
            "cluster file: entity `{}`: {} has no job of that user; its users are `{known}`",
            entity.name,
            bound.source
        );
    }
    Ok(Arc::new(bound))
}

/// Puts the prices of a file, if one is given, in the place of the list prices.
pub fn with_prices(bound: Arc<Bound>, path: Option<&Path>) -> anyhow::Result<Arc<Bound>> {
    let Some(path) = path else { return Ok(bound) };
    let prices = rota_trace::read_prices(path, &bound.cluster)?;
    Ok(Arc::new(Arc::unwrap_or_clone(bound).with_prices(prices)))
}

/// Puts GPUs under a power cap: they are slower and draw less, as was measured. Says what was assumed of each type.
pub fn with_power_cap(bound: Arc<Bound>, cap: &PowerCap) -> anyhow::Result<(Arc<Bound>, Vec<String>)> {
    let names = bound.cluster.types.iter().map(|kind| kind.name.clone()).collect::<Vec<_>>();
    if let [unknown, ..] = cap.unknown_among(&names.iter().map(String::as_str).collect::<Vec<_>>())[..] {
        anyhow::bail!("--power-cap: the cluster has no `{unknown}`; it has {}", names.join(", "));
    }
    let mut bound = Arc::unwrap_or_clone(bound);
    let mut lines = Vec::new();
    for (place, name) in names.iter().enumerate() {
        let Some(watts) = cap.watts(name) else {
            if *cap != PowerCap::None {
                lines.push(format!("power cap {cap}: {name} is not capped"));
            }
            continue;
        };
        let Some(effect) = rota_gpu::effect_of(name, watts) else {
            let known = rota_gpu::measured_kinds().join(", ");
            anyhow::bail!("--power-cap: how {name} slows down under a cap was not measured; measured are {known}");
        };
        let kind = &mut bound.cluster.types[place];
        kind.full_watts = (kind.full_watts * effect.power).max(kind.idle_watts);
        bound.speeds.iter_mut().for_each(|speeds| speeds[place] *= effect.speed);
        lines.push(format!(
            "power cap {cap}: {name} at {watts} W has {:.3} of its speed and {:.3} of its power (means of measured trainings)",
            effect.speed, effect.power
        ));
    }
    Ok((Arc::new(bound), lines))
}

/// The options of a simulation.
pub fn sim_options(args: &ModelArgs, seed: u64, window: Option<(u32, u32)>) -> anyhow::Result<SimOptions> {
    let span = |seconds: f64| Span::from_seconds(seconds).unwrap_or_default();
    Ok(SimOptions {
        mechanism: mechanism(args.mechanism, args.round),
        seed,
        score: args.place.parse()?,
        restart: Restart { cost: span(args.restart_cost), checkpoint: args.checkpoint.map(span), ..Restart::default() },
        stop_time: span(args.stop_seconds),
        faults: args
            .node_mtbf
            .map(|hours| NodeFaults { mean_uptime: span(hours * 3600.0), mean_repair: span(args.node_repair * 3600.0) }),
        window,
    })
}

/// How decisions are timed.
pub fn mechanism(word: MechanismWord, round_seconds: f64) -> Mechanism {
    match word {
        MechanismWord::Event => Mechanism::Event,
        MechanismWord::Rounds | MechanismWord::Gavel => {
            Mechanism::Rounds { length: Span::from_seconds(round_seconds).unwrap_or_default() }
        }
    }
}

/// The run in a few lines: what runs where, and how.
pub fn setting(bound: &Bound, args: &ModelArgs) -> Vec<String> {
    let mechanism = match args.mechanism {
        MechanismWord::Event => "mechanism event: decisions on every arrival, completion and release".to_owned(),
        MechanismWord::Rounds => format!("mechanism rounds of {} s: running jobs keep their GPUs until a round ends", args.round),
        MechanismWord::Gavel => format!("mechanism gavel: its own rounds of {} s, defects included", args.round),
    };
    vec![
        format!("{} jobs from {} on {}", bound.jobs.len(), bound.source, bound.cluster.describe()),
        format!("{mechanism}; a restart costs {} s", args.restart_cost),
    ]
}

/// What else a reader must know to believe the numbers.
pub fn assumptions(bound: &Bound, args: &ModelArgs, policies: &[String], notes: &[String]) -> anyhow::Result<Vec<String>> {
    let place = if args.mechanism == MechanismWord::Gavel { "Gavel's" } else { &args.place };
    let mut lines = vec![format!("placement: {place}")];
    // Gavel's own policies have names of Gavel's, and know what they know there.
    if args.mechanism != MechanismWord::Gavel {
        lines.extend(known_of_lengths(bound, policies)?);
    }
    if let Some(source) = &bound.throughput_source {
        lines.push(format!("speeds of jobs given in steps: {source}"));
    }
    if args.prices.is_some() {
        let changes = bound.prices.changes().len();
        let over_time = if changes > 0 { format!(", changing at {changes} moments") } else { String::new() };
        lines.push(format!("prices: {}{over_time}", bound.prices.source));
    }
    lines.extend(without_figures(&bound.cluster));
    if let Some(hours) = args.node_mtbf {
        let saved = args.checkpoint.map_or("no checkpoints".to_owned(), |every| format!("a checkpoint every {every} s"));
        lines.push(format!("nodes are lost every {hours} h on average and return after {} h; {saved}", args.node_repair));
    }
    lines.extend(notes.iter().cloned());
    Ok(lines)
}

/// What policies that go by the lengths of jobs know of them, in words. `None` if no policy does.
pub fn known_of_lengths(bound: &Bound, policies: &[String]) -> anyhow::Result<Option<String>> {
    let mut told = Vec::new();
    for policy in policies {
        let name = format!("`{policy}`");
        if build_policy(policy, None)?.durations == Durations::Known && !told.contains(&name) {
            told.push(name);
        }
    }
    let (go, know) = if told.len() == 1 { ("goes", "knows") } else { ("go", "know") };
    let names = told.join(", ");
    let with_estimate = bound.jobs.iter().filter(|job| job.estimate.or(job.usual).is_some()).count();
    let line = match with_estimate {
        0 => format!("the trace has no estimates: {names} {know} the true lengths"),
        count if count == bound.jobs.len() => format!("{names} {go} by the estimates of the trace"),
        count => {
            format!("{count} of {} jobs have an estimate: {names} {know} the true lengths of the others", bound.jobs.len())
        }
    };
    Ok((!told.is_empty()).then_some(line))
}

/// What is assumed of GPU types that nothing is known of, in words. `None` if there are none.
pub fn without_figures(cluster: &Cluster) -> Option<String> {
    let unknown = cluster.types.iter().filter(|kind| !kind.known).map(|kind| kind.name.as_str()).collect::<Vec<_>>();
    (!unknown.is_empty())
        .then(|| format!("no figures for GPU type {}: power taken as 30 W idle, 300 W full; no price", unknown.join(", ")))
}

/// GPU types of the cluster that the throughput table has no speeds for, in words, if jobs in steps are about to go without them.
pub fn unknown_to_table(bound: &Bound, table: &ThroughputTable) -> Option<String> {
    let known = table.gpu_types();
    let missing = bound.cluster.types.iter().map(|kind| kind.name.as_str()).filter(|name| !known.contains(name));
    let missing = missing.collect::<Vec<_>>().join(", ");
    let knows_one = bound.cluster.types.iter().any(|kind| known.contains(&kind.name.as_str()));
    (bound.throughput_source.is_some() && !missing.is_empty()).then(|| {
        if knows_one {
            format!("the throughput table has no GPU type {missing}: jobs given in steps run on the other types only")
        } else {
            format!("the throughput table has no GPU type {missing}: jobs given in steps go by the durations that the trace has")
        }
    })
}
