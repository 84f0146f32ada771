//! `rota sweep`: a grid of simulations on all cores, resumable, with the same results on any number of threads.
//!
//! Finished rows are added to `progress.csv` as they come; `results.csv` is written at the end, in the order of the grid and without
//! anything that depends on the machine, so that two sweeps of the same settings give the same bytes.

use crate::args::SweepArgs;
use crate::inputs::{bind, load_cluster, load_table, load_trace, mechanism, with_prices};
use crate::output::{make_directory, print, print_json, progress, remark, write_file};
use crate::simulate::gavel::Gavel;
use crate::simulate::sim::{Request, simulate_one};
use crate::sweep::charts::Results;
use crate::sweep::grid::{Point, Settings};
use crate::sweep::rows::{
    Row, cells, document, progress_line, read_progress, read_samples, write_progress, write_results, write_sample,
};
use anyhow::Context;
use indicatif::ProgressBar;
use rayon::prelude::*;
use rota_core::{Bound, Cluster, Span, ThroughputTable, Workload};
use rota_report::Sample;
use rota_sim::{Restart, SimOptions};
use rota_trace::generate::Generator;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::{Arc, Mutex};

pub fn run(args: &SweepArgs) -> anyhow::Result<()> {
    make_directory(&args.out)?;
    let settings = settle(args)?;
    make_directory(&args.out.join("samples"))?;
    let points = settings.points();
    let mut rows = if args.resume { read_progress(&args.out, points.len())? } else { BTreeMap::new() };
    if !rows.is_empty() {
        remark(&format!("{} of {} runs were done before", rows.len(), points.len()));
    }
    write_progress(&args.out, &rows)?;
    let left = points.iter().filter(|point| !rows.contains_key(&point.index)).collect::<Vec<_>>();
    rows.extend(run_points(args, &settings, &left, points.len())?);
    write_results(&args.out, &rows)?;
    let samples = read_samples(&args.out, &rows)?;
    let results = Results { settings: &settings, points: &points, rows: &rows, samples: &samples };
    let charts = results.write_charts(&args.out)?;
    remark(&format!("wrote results.csv and {charts} pictures to {}", args.out.display()));
    if args.json {
        return print_json(&rows.values().map(document).collect::<Vec<_>>());
    }
    print(&results.table()?)
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
    let table = load_table(settings.throughputs.as_deref())?;
    let traces = settings
        .trace
        .as_deref()
        .map(|path| load_trace(path, &crate::args::ReadArgs { format: None, skip_bad: false }, &table))
        .transpose()?;
    let trace = traces.map(|loaded| loaded.workload);
    let one = |point: &&Point| -> anyhow::Result<(usize, Row)> {
        let (row, sample) = run_point(point, settings, trace.as_ref(), &table)
            .with_context(|| format!("run {}: {} on {}", point.index, point.policy, point.cluster))?;
        write_sample(&args.out, point.index, &sample)?;
        let line = progress_line(point.index, &row)?;
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

fn run_point(
    point: &Point,
    settings: &Settings,
    trace: Option<&Workload>,
    table: &ThroughputTable,
) -> anyhow::Result<(Row, Sample)> {
    let cluster = load_cluster(&point.cluster, settings.gpus_per_node)?;
    let workload = match trace {
        Some(workload) => workload.clone(),
        None => generate(point, settings, table, &cluster)?,
    };
    let bound = with_prices(bind(workload, cluster, table, false)?, settings.prices.as_deref())?;
    let window = settings.window()?;
    if let Some((_, last)) = window.filter(|(_, last)| *last as usize >= bound.jobs.len()) {
        anyhow::bail!("window: the last job is {last}, there are jobs 0 to {}", bound.jobs.len() - 1);
    }
    let span = |seconds: f64| Span::from_seconds(seconds).unwrap_or_default();
    let options = SimOptions {
        mechanism: mechanism(settings.mechanism()?, settings.round),
        seed: point.seed,
        restart: Restart { cost: span(settings.restart_cost), checkpoint: None, ..Restart::default() },
        window,
        ..SimOptions::default()
    };
    let gavel = (settings.mechanism == "gavel").then_some(Gavel { table, ideal: settings.ideal });
    let request = Request {
        bound: &bound,
        policy: &point.policy,
        options: &options,
        gavel,
        learning: None,
        solver: None,
        timeline: false,
        events: None,
    };
    let (run, summary, meta) = simulate_one(&request, &ProgressBar::hidden())?;
    Ok((cells(point, &summary, offered_load(&bound)), Sample::of(&run, &bound, &meta)))
}

/// Makes the workload of a point: the model's defaults with the settings of the sweep over them.
fn generate(point: &Point, settings: &Settings, table: &ThroughputTable, cluster: &Cluster) -> anyhow::Result<Workload> {
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
            if settings.multi_priority {
                seeded.settings.high_priority_fraction = 0.2;
            }
            if settings.slo {
                seeded.settings.deadline_multiples = vec![1.2, 2.0, 10.0];
            }
        }
        Generator::GavelContinuous(seeded) => {
            (seeded.settings.jobs_per_hour, seeded.seed) = (rate, point.seed);
            seeded.settings.jobs = point.workload_jobs.unwrap_or(seeded.settings.jobs);
            seeded.settings.multi_gpu = settings.multi_gpu;
            seeded.settings.multi_priority = settings.multi_priority;
            seeded.settings.slo = settings.slo;
            if settings.steady_state {
                seeded.settings.steady_state = gpu_counts(cluster);
            }
        }
        Generator::GavelStatic(seeded) => {
            seeded.seed = point.seed;
            seeded.settings.jobs = point.workload_jobs.unwrap_or(seeded.settings.jobs);
            seeded.settings.multi_gpu = settings.multi_gpu;
            seeded.settings.multi_priority = settings.multi_priority;
            seeded.settings.slo = settings.slo;
        }
        Generator::GavelTrace(_) => anyhow::bail!("model: `{model}` is not one to sweep over"),
    }
    generator.validate()?;
    Ok(generator.run_with(table)?)
}

/// GPUs of each type.
fn gpu_counts(cluster: &Cluster) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for gpu in &cluster.gpus {
        *counts.entry(cluster.types[gpu.gpu_type.index()].name.clone()).or_insert(0) += 1;
    }
    counts
}

/// GPU time asked for over GPU time there is between the first and the last arrival.
fn offered_load(bound: &Arc<Bound>) -> Option<f64> {
    let asked =
        bound.jobs.iter().map(|job| bound.truth(job.id).work.seconds() * f64::from(job.gpus) * job.share.fraction()).sum::<f64>();
    let first = bound.jobs.first()?.arrival;
    let span = bound.jobs.last()?.arrival.since(first).seconds();
    (span > 0.0).then(|| asked / (span * bound.cluster.gpus.len() as f64))
}
