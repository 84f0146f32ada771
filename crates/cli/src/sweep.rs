//! `rota sweep`: a grid of simulations on all cores, resumable, with the same results on any number of threads.
//!
//! Finished rows are added to `progress.csv` as they come; `results.csv` is written at the end, in the order of the grid and without
//! anything that depends on the machine, so that two sweeps of the same settings give the same bytes.

use crate::args::SweepArgs;
use crate::inputs::{bind, load_cluster, load_table, load_trace};
use crate::output::{make_directory, print, print_json, progress, remark, write_file};
use crate::sim::{Request, simulate_one};
use crate::sweep_grid::{Point, Settings};
use anyhow::Context;
use indicatif::ProgressBar;
use rayon::prelude::*;
use rota_core::{Bound, Span, ThroughputTable, Workload};
use rota_report::{Line, LinePoint, Summary};
use rota_sim::{Mechanism, Restart, SimOptions};
use rota_trace::generate::Generator;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Columns of results.csv: where in the grid, then what came out.
const COLUMNS: &[&str] = &[
    "cluster",
    "workload_jobs",
    "rate_jobs_per_h",
    "seed",
    "policy",
    "load",
    "mechanism",
    "jobs",
    "completed",
    "failed",
    "makespan_s",
    "jct_mean_s",
    "jct_p50_s",
    "jct_p90_s",
    "jct_p99_s",
    "wait_mean_s",
    "wait_p99_s",
    "turnaround_mean_s",
    "throughput_jobs_per_h",
    "utilisation",
    "energy_kwh",
    "cost_usd",
    "preemptions",
    "ftf_worst",
    "ftf_unfair_fraction",
    "slo_violations",
    "allocations",
    "events",
];
const JCT_COLUMN: &str = "jct_mean_s";

/// The cells of one finished run.
type Row = Vec<String>;

pub fn run(args: &SweepArgs) -> anyhow::Result<()> {
    make_directory(&args.out)?;
    let settings = settle(args)?;
    let points = settings.points();
    let mut rows = if args.resume { read_progress(&args.out, points.len())? } else { BTreeMap::new() };
    if !rows.is_empty() {
        remark(&format!("{} of {} runs were done before", rows.len(), points.len()));
    }
    write_progress(&args.out, &rows)?;
    let left = points.iter().filter(|point| !rows.contains_key(&point.index)).collect::<Vec<_>>();
    rows.extend(run_points(args, &settings, &left, points.len())?);
    write_results(&args.out, &rows)?;
    let charts = write_charts(&args.out, &settings, &points, &rows)?;
    remark(&format!("wrote results.csv and {charts} pictures to {}", args.out.display()));
    if args.json {
        let documents = rows.values().map(|row| {
            COLUMNS
                .iter()
                .map(|column| (*column).to_owned())
                .zip(row.iter().map(|cell| cell_value(cell)))
                .collect::<serde_json::Map<String, serde_json::Value>>()
        });
        return print_json(&documents.collect::<Vec<_>>());
    }
    print(&table(&settings, &points, &rows)?)
}

/// The settings of this sweep, agreed with those the folder was begun with.
fn settle(args: &SweepArgs) -> anyhow::Result<Settings> {
    let path = args.out.join("sweep.toml");
    let begun = match std::fs::read_to_string(&path) {
        Ok(text) => Some(toml::from_str::<Settings>(&text).with_context(|| format!("`{}` is not a sweep", path.display()))?),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(|| format!("cannot read `{}`", path.display())),
    };
    let folder = args.out.display();
    let asks_nothing = args.file.is_none() && args.policies.is_empty();
    match (begun, args.resume) {
        (Some(_), false) => anyhow::bail!("`{folder}` already holds a sweep; go on with it by --resume, or name another --out"),
        (None, true) if asks_nothing => anyhow::bail!("`{folder}` holds no sweep to resume; begin one without --resume"),
        (Some(begun), true) if asks_nothing => Ok(begun),
        (Some(begun), true) => {
            let asked = Settings::from_args(args)?;
            anyhow::ensure!(
                asked == begun,
                "`{folder}` was begun with other settings (see its sweep.toml); resume with --resume alone"
            );
            Ok(begun)
        }
        (None, _) => {
            let asked = Settings::from_args(args)?;
            let text = toml::to_string(&asked)?;
            write_file(&path, |output| Ok(output.write_all(text.as_bytes())?))?;
            Ok(asked)
        }
    }
}

/// Runs the points that are left, noting each as it is done.
fn run_points(args: &SweepArgs, settings: &Settings, left: &[&Point], total: usize) -> anyhow::Result<Vec<(usize, Row)>> {
    let bar = progress(total as u64, "runs");
    bar.set_message("sweeping");
    bar.inc((total - left.len()) as u64);
    bar.reset_eta();
    let path = args.out.join("progress.csv");
    let file = OpenOptions::new().append(true).open(&path).with_context(|| format!("cannot write `{}`", path.display()))?;
    let notes = Mutex::new(file);
    let table = load_table(None)?;
    let traces = settings
        .trace
        .as_deref()
        .map(|path| load_trace(path, &crate::args::ReadArgs { format: None, skip_bad: false }, &table))
        .transpose()?;
    let trace = traces.map(|loaded| loaded.workload);
    let one = |point: &&Point| -> anyhow::Result<(usize, Row)> {
        let row = run_point(point, settings, trace.as_ref(), &table)
            .with_context(|| format!("run {}: {} on {}", point.index, point.policy, point.cluster))?;
        let line = csv_line(std::iter::once(point.index.to_string()).chain(row.iter().cloned()))?;
        // One write a line, so that a sweep that is killed leaves at most one torn line.
        notes.lock().map_err(|_| anyhow::anyhow!("another run failed"))?.write_all(&line)?;
        bar.inc(1);
        Ok((point.index, row))
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(args.jobs_parallel.unwrap_or(0) as usize).build()?;
    let rows = pool.install(|| left.par_iter().map(one).collect::<anyhow::Result<Vec<_>>>());
    bar.finish_and_clear();
    rows
}

fn run_point(point: &Point, settings: &Settings, trace: Option<&Workload>, table: &ThroughputTable) -> anyhow::Result<Row> {
    let workload = match trace {
        Some(workload) => workload.clone(),
        None => generate(point, settings, table)?,
    };
    let cluster = load_cluster(&point.cluster, settings.gpus_per_node)?;
    let bound = bind(workload, cluster, table, false)?;
    let span = |seconds: f64| Span::from_seconds(seconds).unwrap_or_default();
    let options = SimOptions {
        mechanism: if settings.mechanism == "rounds" {
            Mechanism::Rounds { length: span(settings.round) }
        } else {
            Mechanism::Event
        },
        seed: point.seed,
        restart: Restart { cost: span(settings.restart_cost), checkpoint: None },
        ..SimOptions::default()
    };
    let request = Request { bound: &bound, policy: &point.policy, options: &options, timeline: false, events: None };
    let (_, summary, _) = simulate_one(&request, &ProgressBar::hidden())?;
    Ok(cells(point, &summary, offered_load(&bound)))
}

fn generate(point: &Point, settings: &Settings, table: &ThroughputTable) -> anyhow::Result<Workload> {
    let model = settings.model.as_deref().unwrap_or_default();
    let mut generator = Generator::named(model).with_context(|| format!("model: `{model}` is not known"))?;
    let rate = point.rate.unwrap_or(1.0);
    match &mut generator {
        Generator::Classroom(seeded) => {
            (seeded.settings.jobs, seeded.settings.jobs_per_hour, seeded.seed) = (point.workload_jobs, rate, point.seed);
        }
        Generator::Poisson(seeded) => {
            (seeded.settings.jobs_per_hour, seeded.seed) = (rate, point.seed);
            seeded.settings.jobs = point.workload_jobs.unwrap_or(seeded.settings.jobs);
            seeded.settings.multi_gpu = settings.multi_gpu;
        }
        Generator::GavelContinuous(seeded) => {
            (seeded.settings.jobs_per_hour, seeded.seed) = (rate, point.seed);
            seeded.settings.jobs = point.workload_jobs.unwrap_or(seeded.settings.jobs);
            seeded.settings.multi_gpu = settings.multi_gpu;
        }
        Generator::GavelStatic(_) | Generator::GavelTrace(_) => {
            anyhow::bail!("model: `{model}` has no arrival rate to sweep over")
        }
    }
    generator.validate()?;
    Ok(generator.run_with(table)?)
}

/// GPU time asked for over GPU time there is between the first and the last arrival.
fn offered_load(bound: &Arc<Bound>) -> Option<f64> {
    let asked = bound.jobs.iter().map(|job| job.work.seconds() * f64::from(job.gpus) * job.share.fraction()).sum::<f64>();
    let first = bound.jobs.first()?.arrival;
    let span = bound.jobs.last()?.arrival.since(first).seconds();
    (span > 0.0).then(|| asked / (span * bound.cluster.gpus.len() as f64))
}

fn cells(point: &Point, summary: &Summary, load: Option<f64>) -> Row {
    fn cell(value: Option<impl ToString>) -> String {
        value.map(|value| value.to_string()).unwrap_or_default()
    }
    vec![
        point.cluster.clone(),
        cell(point.workload_jobs),
        cell(point.rate),
        point.seed.to_string(),
        point.policy.clone(),
        cell(load),
        summary.mechanism.clone(),
        summary.jobs.to_string(),
        summary.completed.to_string(),
        summary.failed.to_string(),
        cell(summary.makespan_s),
        cell(summary.jct_mean_s),
        cell(summary.jct_p50_s),
        cell(summary.jct_p90_s),
        cell(summary.jct_p99_s),
        cell(summary.wait_mean_s),
        cell(summary.wait_p99_s),
        cell(summary.turnaround_mean_s),
        cell(summary.throughput_jobs_per_h),
        cell(summary.utilisation),
        cell(summary.energy_kwh),
        cell(summary.cost_usd),
        summary.preemptions.to_string(),
        cell(summary.ftf_worst),
        cell(summary.ftf_unfair_fraction),
        summary.slo_violations.to_string(),
        summary.allocations.to_string(),
        summary.events.to_string(),
    ]
}

fn cell_value(text: &str) -> serde_json::Value {
    match text.parse::<serde_json::Number>() {
        Ok(number) => serde_json::Value::Number(number),
        Err(_) if text.is_empty() => serde_json::Value::Null,
        Err(_) => serde_json::Value::String(text.to_owned()),
    }
}

fn csv_line(cells: impl Iterator<Item = String>) -> anyhow::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(cells)?;
    Ok(writer.into_inner()?)
}

/// Rows finished before. A line torn by a kill, or not of this sweep, is left out and its run made again.
fn read_progress(folder: &Path, points: usize) -> anyhow::Result<BTreeMap<usize, Row>> {
    let path = folder.join("progress.csv");
    if !path.exists() {
        return Ok(BTreeMap::new());
    }
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_path(&path)?;
    let whole = reader.records().filter_map(Result::ok).filter(|record| record.len() == COLUMNS.len() + 1);
    let rows = whole.filter_map(|record| {
        let index = record[0].parse::<usize>().ok().filter(|index| *index < points)?;
        Some((index, record.iter().skip(1).map(str::to_owned).collect()))
    });
    Ok(rows.collect())
}

fn write_progress(folder: &Path, rows: &BTreeMap<usize, Row>) -> anyhow::Result<()> {
    write_file(&folder.join("progress.csv"), |output| {
        for (index, row) in rows {
            output.write_all(&csv_line(std::iter::once(index.to_string()).chain(row.iter().cloned()))?)?;
        }
        Ok(())
    })
}

fn write_results(folder: &Path, rows: &BTreeMap<usize, Row>) -> anyhow::Result<()> {
    write_file(&folder.join("results.csv"), |output| {
        let mut writer = csv::Writer::from_writer(output);
        writer.write_record(COLUMNS)?;
        rows.values().try_for_each(|row| writer.write_record(row))?;
        Ok(writer.flush()?)
    })
}

fn value(row: &Row, column: &str) -> Option<f64> {
    let position = COLUMNS.iter().position(|known| *known == column)?;
    row.get(position)?.parse().ok()
}

/// Mean JCT over the seeds of each policy at each x, for one cluster and number of jobs.
fn lines(settings: &Settings, cluster: &str, jobs: Option<u32>, points: &[Point], rows: &BTreeMap<usize, Row>) -> Vec<Line> {
    let line = |policy: &String| {
        let here =
            points.iter().filter(|point| point.cluster == cluster && point.workload_jobs == jobs && point.policy == *policy);
        let mut by_rate: Vec<(f64, Vec<f64>)> = Vec::new();
        for point in here {
            let Some(jct) = rows.get(&point.index).and_then(|row| value(row, JCT_COLUMN)) else { continue };
            let rate = point.rate.unwrap_or(0.0);
            match by_rate.iter_mut().find(|(known, _)| known.total_cmp(&rate).is_eq()) {
                Some((_, values)) => values.push(jct),
                None => by_rate.push((rate, vec![jct])),
            }
        }
        by_rate.sort_by(|a, b| a.0.total_cmp(&b.0));
        let points = by_rate.into_iter().map(|(x, values)| LinePoint::over(x, &values)).collect();
        Line { name: policy.clone(), points }
    };
    settings.policies.iter().map(line).collect()
}

/// Number of jobs in the workloads of each chart; one chart for a trace.
fn chart_sizes(settings: &Settings) -> Vec<Option<u32>> {
    if settings.trace.is_some() { vec![None] } else { settings.jobs.iter().copied().map(Some).collect() }
}

fn write_charts(folder: &Path, settings: &Settings, points: &[Point], rows: &BTreeMap<usize, Row>) -> anyhow::Result<usize> {
    let mut charts = 0;
    let sizes = chart_sizes(settings);
    for (number, cluster) in settings.clusters.iter().enumerate() {
        for (position, jobs) in sizes.iter().enumerate() {
            let mut name = "jct-against-load".to_owned();
            if settings.clusters.len() > 1 {
                write!(name, "-cluster-{number}")?;
            }
            if sizes.len() > 1 {
                write!(name, "-jobs-{position}")?;
            }
            let workload = jobs.map_or_else(|| "the trace".to_owned(), |jobs| format!("{jobs} jobs"));
            let title = format!("Mean job completion time on {cluster}, {workload}, {} seeds", settings.seeds.len());
            let lines = lines(settings, cluster, *jobs, points, rows);
            rota_report::write_lines(folder, &name, &title, "jobs per hour", &lines)?;
            charts += 1;
        }
    }
    Ok(charts)
}

/// Mean JCT with one row a load and one column a policy.
fn table(settings: &Settings, points: &[Point], rows: &BTreeMap<usize, Row>) -> anyhow::Result<String> {
    let mut text = String::new();
    let width = settings.policies.iter().map(String::len).max().unwrap_or(0).max(10);
    for cluster in &settings.clusters {
        for jobs in chart_sizes(settings) {
            let workload = jobs.map_or_else(|| "the trace".to_owned(), |jobs| format!("{jobs} jobs"));
            writeln!(text, "mean JCT on {cluster}, {workload}")?;
            write!(text, "{:>12}", "jobs/h")?;
            settings.policies.iter().try_for_each(|policy| write!(text, "  {policy:>width$}"))?;
            text.push('\n');
            let lines = lines(settings, cluster, jobs, points, rows);
            for row in 0..lines.iter().map(|line| line.points.len()).max().unwrap_or(0) {
                let rate = lines.iter().find_map(|line| line.points.get(row)).map_or(0.0, |point| point.x);
                write!(text, "{:>12}", if settings.trace.is_some() { "trace".to_owned() } else { rate.to_string() })?;
                for line in &lines {
                    let shown =
                        line.points.get(row).and_then(|point| Span::from_seconds(point.mean)).map(|span| span.to_string());
                    write!(text, "  {:>width$}", shown.unwrap_or_default())?;
                }
                text.push('\n');
            }
            text.push('\n');
        }
    }
    Ok(text)
}
