//! `rota alloc`: one allocation of time shares, with its proof and its time.

use crate::allocate::inputs::{Inputs, from_table, from_trace, invented};
use crate::args::{AllocArgs, ReadArgs, SolverWord};
use crate::inputs::{load_cluster, load_table};
use crate::output::{print, print_json};
use anyhow::Context;
use rota_core::{Cluster, ThroughputTable};
use rota_policy::allocation::{Allocation, Allocator, Demand, NAMES, Solver, allocator};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Instant;

/// Rows of the table that are printed; the rest are counted.
const ROWS_SHOWN: usize = 24;

#[derive(Serialize)]
struct AllocDocument<'a> {
    policy: &'a str,
    jobs: usize,
    rows: usize,
    types: usize,
    objective: f64,
    upper_bound: f64,
    gap: f64,
    solve_seconds: f64,
    solve_cpu_seconds: f64,
    solver: &'a str,
    seed: Option<u64>,
    gpu_types: Vec<GpuTypeUse<'a>>,
    pairs: usize,
}

#[derive(Serialize)]
struct GpuTypeUse<'a> {
    name: &'a str,
    gpus: f64,
    used: f64,
}

pub fn run(args: &AllocArgs) -> anyhow::Result<()> {
    let name = rota_policy::find(&args.policy).map_or(args.policy.as_str(), |info| info.name);
    let solver = match args.solver {
        SolverWord::Price => Solver::Price,
        SolverWord::Interior => Solver::Interior,
    };
    let mut allocator = allocator(name, solver).with_context(|| unknown_policy(&args.policy))?;
    let cluster = load_cluster(&args.cluster, 8)?;
    let table = load_table(args.throughputs.as_deref())?;
    let inputs = inputs(args, cluster, &table)?;
    let pairs = inputs.pairs(&table);
    let demand =
        Demand { claims: &inputs.claims, gpus: &inputs.gpus, prices: &inputs.prices, pairs: &pairs, entities: &inputs.entities };
    needs(name, &inputs)?;
    let (allocation, taken) = timed(allocator.as_mut(), &demand).with_context(|| format!("policy `{name}`"))?;
    let used = used(&inputs, &allocation);
    if args.json {
        let gpu_types = inputs.gpu_types.iter().zip(&inputs.gpus).zip(&used);
        return print_json(&AllocDocument {
            policy: name,
            jobs: inputs.claims.len(),
            rows: allocation.rows,
            types: inputs.gpus.len(),
            objective: allocation.objective,
            upper_bound: allocation.upper_bound,
            gap: allocation.gap,
            solve_seconds: taken.wall_seconds,
            solve_cpu_seconds: taken.cpu_seconds,
            solver: allocation.solver,
            seed: args.random.is_some().then_some(args.seed),
            gpu_types: gpu_types.map(|((name, &gpus), &used)| GpuTypeUse { name, gpus, used }).collect(),
            pairs: allocation.pairs.len(),
        });
    }
    print(&describe(name, &inputs, &allocation, &used, taken.wall_seconds)?)
}

/// How long a solve took.
struct Taken {
    wall_seconds: f64,
    /// Time this thread really ran, where the system tells it finely enough; else the wall's.
    cpu_seconds: f64,
}

fn timed(allocator: &mut dyn Allocator, demand: &Demand<'_>) -> anyhow::Result<(Allocation, Taken)> {
    let (start, cpu_start) = (Instant::now(), thread_seconds());
    let allocation = allocator.allocate(demand)?;
    let wall_seconds = start.elapsed().as_secs_f64();
    let ran = thread_seconds().zip(cpu_start).map(|(end, start)| end - start);
    // The system counts in ticks of some milliseconds: short solves are better told by the wall.
    let cpu_seconds = ran.filter(|seconds| *seconds > 0.05 && *seconds < wall_seconds).unwrap_or(wall_seconds);
    Ok((allocation, Taken { wall_seconds, cpu_seconds }))
}

/// Seconds this thread has been running on a CPU.
fn thread_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(text.split_whitespace().next()?.parse::<f64>().ok()? / 1e9)
}

fn unknown_policy(given: &str) -> String {
    let known = NAMES.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match rota_policy::find(given) {
        Ok(_) => format!("policy `{given}` gives no time shares; those that do are {known}"),
        Err(_) => match rota_core::nearest(given, NAMES.iter().copied()) {
            Some(meant) => format!("unknown policy `{given}`; did you mean `{meant}`?"),
            None => format!("unknown policy `{given}`; those that give time shares are {known}"),
        },
    }
}

/// The jobs: those of a file, or drawn.
fn inputs(args: &AllocArgs, cluster: Cluster, table: &ThroughputTable) -> anyhow::Result<Inputs> {
    if let Some(path) = &args.jobs {
        let read = ReadArgs { format: None, skip_bad: false };
        return from_trace(path, &read, cluster, table);
    }
    let count = args.random.unwrap_or_default() as usize;
    let known = table.gpu_types();
    let all_known = cluster.types.iter().all(|kind| known.contains(kind.name.as_str()));
    if args.distinct || !all_known {
        Ok(invented(count, args.seed, &cluster))
    } else {
        from_table(count, args.seed, &cluster, table)
    }
}

/// What some objectives cannot do without, said in the words of the command line.
fn needs(name: &str, inputs: &Inputs) -> anyhow::Result<()> {
    if name.starts_with("max-throughput-cost") {
        let without = inputs.gpu_types.iter().zip(&inputs.prices).find(|(_, price)| **price <= 0.0);
        if let Some((gpu_type, _)) = without {
            anyhow::bail!(
                "policy `{name}` needs prices, and none is known of GPU type `{gpu_type}`; give a TOML cluster with usd_per_hour"
            );
        }
    }
    Ok(())
}

/// GPUs of each type that the shares use.
fn used(inputs: &Inputs, allocation: &Allocation) -> Vec<f64> {
    let types = inputs.gpus.len();
    let mut used = vec![0.0; types];
    for (claim, shares) in inputs.claims.iter().zip(allocation.shares.chunks_exact(types)) {
        for (used, share) in used.iter_mut().zip(shares) {
            *used += share * claim.gang;
        }
    }
    for pair in &allocation.pairs {
        used[pair.gpu_type] += pair.share * inputs.claims[pair.first].gang;
    }
    used
}

/// What jobs of one class get on average.
#[derive(Default)]
struct ClassRow {
    jobs: usize,
    alone: Vec<f64>,
    paired: f64,
}

fn describe(name: &str, inputs: &Inputs, allocation: &Allocation, used: &[f64], seconds: f64) -> Result<String, std::fmt::Error> {
    let types = inputs.gpus.len();
    let mut rows: BTreeMap<u32, ClassRow> = BTreeMap::new();
    for (claim, shares) in inputs.claims.iter().zip(allocation.shares.chunks_exact(types)) {
        let row = rows.entry(claim.class).or_default();
        row.jobs += 1;
        row.alone.resize(types, 0.0);
        row.alone.iter_mut().zip(shares).for_each(|(sum, share)| *sum += share);
    }
    for pair in &allocation.pairs {
        for claim in [pair.first, pair.second] {
            if let Some(row) = rows.get_mut(&inputs.claims[claim].class) {
                row.paired += pair.share;
            }
        }
    }
    let mut text = String::new();
    writeln!(text, "{} jobs on {}", inputs.claims.len(), inputs.cluster)?;
    write!(text, "\n{:<40} {:>6}", "mean part of their time", "jobs")?;
    inputs.gpu_types.iter().try_for_each(|gpu_type| write!(text, " {gpu_type:>8}"))?;
    writeln!(text, "{}", if allocation.pairs.is_empty() { "" } else { "   shared" })?;
    for (&class, row) in rows.iter().take(ROWS_SHOWN) {
        write!(text, "{:<40} {:>6}", inputs.class_name(class), row.jobs)?;
        row.alone.iter().try_for_each(|sum| write!(text, " {:>8.4}", sum / row.jobs as f64))?;
        if !allocation.pairs.is_empty() {
            write!(text, " {:>8.4}", row.paired / row.jobs as f64)?;
        }
        writeln!(text)?;
    }
    if rows.len() > ROWS_SHOWN {
        writeln!(text, "and {} more", rows.len() - ROWS_SHOWN)?;
    }
    write!(text, "{:<47}", "part of the GPUs used")?;
    for (used, gpus) in used.iter().zip(&inputs.gpus) {
        write!(text, " {:>8.4}", if *gpus > 0.0 { used / gpus } else { 0.0 })?;
    }
    writeln!(text, "\n")?;
    writeln!(text, "policy       {name}")?;
    writeln!(text, "objective    {}", significant(allocation.objective))?;
    writeln!(text, "bound        {}", significant(allocation.upper_bound))?;
    writeln!(text, "gap          {:.1e} (proven)", allocation.gap)?;
    writeln!(text, "solver       {}, {} rows", allocation.solver, allocation.rows)?;
    writeln!(text, "solve time   {:.3} ms", seconds * 1e3)?;
    Ok(text)
}

/// A number with nine significant digits.
fn significant(number: f64) -> String {
    let digits = if number == 0.0 { 0 } else { (8 - number.abs().log10().floor() as i32).clamp(0, 15) };
    format!("{number:.*}", digits as usize)
}
