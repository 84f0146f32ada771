//! `rota sim`: one or several policies on one workload.

use crate::args::{MechanismWord, SimArgs, SolverWord};
use crate::inputs::{
    assumptions, bind, load_cluster, load_table, load_trace, setting, sim_options, unknown_to_table, with_power_cap, with_prices,
};
use crate::output::{make_directory, print, print_json, progress, remark, width, write_file};
use crate::simulate::explain;
use crate::simulate::gavel::Gavel;
use crate::simulate::served;
use anyhow::Context;
use indicatif::ProgressBar;
use rayon::prelude::*;
use rota_core::event::{EVENT_VERSION, EventKind};
use rota_core::{Bound, Event, Span, ThroughputTable};
use rota_gpu::PowerCap;
use rota_report::{Recorder, RecorderOptions, Run, RunMeta, Summary};
use rota_sim::{Learning, Mechanism, SimOptions, Tally};
use rota_trace::estimate::PairFiller;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// A Gantt chart is drawn in the terminal for runs this small; larger ones are better looked at in the report.
const GANTT_JOBS_MAX: usize = 400;
const GANTT_ROWS_MAX: usize = 24;
/// How many jobs end between two steps of the progress bar.
const PROGRESS_STEP: u64 = 1024;

pub fn run(args: &SimArgs) -> anyhow::Result<()> {
    let is_gavel = args.model.mechanism == MechanismWord::Gavel;
    for policy in &args.policies {
        if is_gavel { rota_gavel::check_policy(policy)? } else { drop(rota_learn::registry().build(policy)?) }
    }
    if args.model.ideal && !is_gavel {
        anyhow::bail!("--ideal goes with --mechanism gavel: other mechanisms put whole jobs on GPUs");
    }
    if is_gavel && args.model.solver == Some(SolverWord::Price) {
        anyhow::bail!("--mechanism gavel solves with `interior`, as Gavel does; leave --solver out");
    }
    if is_gavel && args.model.node_mtbf.is_some() {
        anyhow::bail!("--node-mtbf does not go with --mechanism gavel, whose nodes are never lost");
    }
    if is_gavel && args.learn_speeds {
        anyhow::bail!("--learn-speeds does not go with --mechanism gavel, which has speeds of its own");
    }
    if args.jobs_csv.is_some() && args.policies.len() > 1 {
        anyhow::bail!("--jobs-csv goes with one policy; for several give --out, which writes jobs.csv for each");
    }
    if args.explain.is_some() && (is_gavel || args.policies.len() > 1) {
        anyhow::bail!("--explain goes with one policy of the mechanism `event` or `rounds`");
    }
    if is_gavel && (args.power_cap.is_some() || args.pareto.is_some()) {
        anyhow::bail!("power caps do not go with --mechanism gavel, which has speeds of its own");
    }
    if let Some(directory) = &args.out {
        make_directory(directory)?;
    }
    if args.served.is_some() {
        served::take_rights_of_owner(args.served.as_deref())?;
        served::end_with_stdin();
    }
    let (bound, table, assumptions) = prepare(args)?;
    if let Some(file) = &args.pareto {
        return super::pareto::run(args, &bound, file);
    }
    let waits = args.explain.map(|job| explain::waits_of(args, &bound, job)).transpose()?;
    if let (Some(waits), true) = (&waits, args.json) {
        return print_json(waits);
    }
    let runs = simulate_all(args, &bound, &table, &assumptions)?;
    let summaries = runs.iter().map(|(_, summary, _)| summary.clone()).collect::<Vec<_>>();
    if let Some(path) = &args.jobs_csv {
        write_file(path, |output| Ok(rota_report::write_jobs_csv(&runs[0].0, &bound, output)?))?;
    }
    if let Some(directory) = &args.served {
        served::write_charts(directory, &runs, &bound)?;
        served::write_happened(directory, args, &table, runs.len())?;
    }
    if let Some(directory) = &args.out {
        let written = rota_report::write_report(directory, &runs, &bound)?;
        remark(&format!(
            "wrote {} files to {}: open {}",
            written.len(),
            directory.display(),
            directory.join("report.html").display()
        ));
    }
    match (args.json, runs.as_slice()) {
        (true, [(_, summary, _)]) => print_json(summary),
        (true, _) => print_json(&summaries),
        (false, _) => {
            let mut lines = setting(&bound, &args.model);
            lines.extend(assumptions);
            let mut text = describe(&runs, &summaries, &lines, &bound);
            if let Some(waits) = &waits {
                text.push_str(&explain::describe(waits));
            }
            print(&text)
        }
    }
}

fn prepare(args: &SimArgs) -> anyhow::Result<(Arc<Bound>, ThroughputTable, Vec<String>)> {
    let cluster = load_cluster(&args.cluster, args.model.gpus_per_node)?;
    let table = load_table(args.model.throughputs.as_deref())?;
    let loaded = load_trace(&args.trace, &args.read, &table)?;
    let bound = bind(loaded.workload, cluster, &table, args.read.skip_bad)?;
    let bound = with_prices(bound, args.model.prices.as_deref())?;
    if let Some((_, last)) = args.window
        && last as usize >= bound.jobs.len()
    {
        anyhow::bail!("--window: the last job is {}, the trace has jobs 0 to {}", last, bound.jobs.len() - 1);
    }
    let (bound, capped) = with_power_cap(bound, args.power_cap.as_ref().unwrap_or(&PowerCap::None))?;
    let mut assumptions = assumptions(&bound, &args.model, &args.policies, &loaded.notes)?;
    assumptions.extend(unknown_to_table(&bound, &table));
    assumptions.extend(capped);
    if args.learn_speeds {
        assumptions.push("policies learn the speeds of jobs given in steps while they run".to_owned());
    }
    Ok((bound, table, assumptions))
}

/// Simulates every policy, several at a time, in the order given.
fn simulate_all(
    args: &SimArgs,
    bound: &Arc<Bound>,
    table: &ThroughputTable,
    assumptions: &[String],
) -> anyhow::Result<Vec<(Run, Summary, RunMeta)>> {
    let options = sim_options(&args.model, args.seed, args.window)?;
    let gavel = (args.model.mechanism == MechanismWord::Gavel).then_some(Gavel { table, ideal: args.model.ideal });
    let learning = args.learn_speeds.then(|| Learning {
        every: Span::from_seconds(args.model.round / 2.0).unwrap_or_default(),
        estimator: Arc::new(PairFiller::new(&ThroughputTable::default())),
    });
    let bar = progress(bound.jobs.len() as u64 * args.policies.len() as u64, "jobs");
    bar.set_message("simulating");
    let _teller = args.served.as_ref().map(|_| served::tell_progress(&bar));
    let folders = event_folders(args);
    let draws_gantt = !args.json && args.policies.len() == 1 && bound.jobs.len() <= GANTT_JOBS_MAX;
    let timeline = args.out.is_some() || args.served.is_some() || draws_gantt;
    let simulate = |(policy, folder): (&String, &Option<PathBuf>)| -> anyhow::Result<_> {
        let request = Request {
            bound,
            policy,
            options: &options,
            gavel,
            learning: learning.as_ref(),
            solver: args.model.solver,
            timeline,
            events: folder.as_deref(),
        };
        let mut done = simulate_one(&request, &bar)?;
        done.2.assumptions = assumptions.to_vec();
        Ok(done)
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(args.jobs_parallel.unwrap_or(0) as usize).build()?;
    let runs =
        pool.install(|| args.policies.par_iter().zip(folders.par_iter()).map(simulate).collect::<anyhow::Result<Vec<_>>>());
    bar.finish_and_clear();
    runs
}

/// Where the events of each policy go.
fn event_folders(args: &SimArgs) -> Vec<Option<PathBuf>> {
    let policies = args.policies.iter().map(String::as_str).collect::<Vec<_>>();
    match &args.out {
        None => vec![None; policies.len()],
        Some(directory) if policies.len() == 1 => vec![Some(directory.clone())],
        Some(directory) => rota_report::folder_names(&policies).iter().map(|name| Some(directory.join(name))).collect(),
    }
}

/// One simulation to make.
pub struct Request<'a> {
    pub bound: &'a Arc<Bound>,
    pub policy: &'a str,
    pub options: &'a SimOptions,
    /// What Gavel needs beside that, where it is Gavel that simulates.
    pub gavel: Option<Gavel<'a>>,
    /// How policies learn speeds, where they do not know them.
    pub learning: Option<&'a Learning>,
    /// What solves allocations, where the policy's own parameters do not say.
    pub solver: Option<SolverWord>,
    /// Whether to keep the timeline of jobs on GPUs.
    pub timeline: bool,
    /// The folder for events.jsonl.
    pub events: Option<&'a Path>,
}

/// Simulates one policy.
pub fn simulate_one(request: &Request<'_>, bar: &ProgressBar) -> anyhow::Result<(Run, Summary, RunMeta)> {
    let started = Instant::now();
    let (run, tally) = match request.events {
        None => observe(request, bar, &mut |_| {})?,
        Some(folder) => {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder `{}`", folder.display()))?;
            let mut recorded = None;
            write_file(&folder.join("events.jsonl"), |output| {
                writeln!(output, "{{\"version\":{EVENT_VERSION}}}")?;
                let mut written = Ok(());
                let mut write = |event: &Event| {
                    if written.is_ok() {
                        written = write_event(output, event);
                    }
                };
                recorded = Some(observe(request, bar, &mut write)?);
                written
            })?;
            recorded.context("the simulation was not run")?
        }
    };
    let round_seconds = match request.options.mechanism {
        Mechanism::Event => None,
        Mechanism::Rounds { length } => Some(length.seconds()),
    };
    let meta = RunMeta {
        policy: request.policy.to_owned(),
        mechanism: match (request.gavel, round_seconds) {
            (Some(_), _) => "gavel",
            (None, Some(_)) => "rounds",
            (None, None) => "event",
        }
        .to_owned(),
        seed: request.options.seed,
        round_seconds,
        restart_cost_seconds: request.options.restart.cost.seconds(),
        assumptions: Vec::new(),
        window: request.options.window,
        allocations: tally.decisions,
        allocation_seconds_mean: tally.decision_seconds / tally.decisions.max(1) as f64,
        allocation_seconds_max: tally.decision_seconds_max,
        wall_seconds: started.elapsed().as_secs_f64(),
        events: tally.events,
    };
    let summary = rota_report::summarise(&run, request.bound, &meta);
    Ok((run, summary, meta))
}

fn write_event(output: &mut dyn Write, event: &Event) -> anyhow::Result<()> {
    serde_json::to_writer(&mut *output, event)?;
    Ok(output.write_all(b"\n")?)
}

/// A policy, with what solves its allocations where its own parameters do not say.
pub fn build_policy(policy: &str, solver: Option<SolverWord>) -> anyhow::Result<rota_policy::Configured> {
    let registry = rota_learn::registry();
    Ok(match solver {
        Some(SolverWord::Interior) => registry.build(&registry.with_param(policy, "solver", "interior"))?,
        Some(SolverWord::Price) | None => registry.build(policy)?,
    })
}

fn observe(request: &Request<'_>, bar: &ProgressBar, also: &mut dyn FnMut(&Event)) -> anyhow::Result<(Run, Tally)> {
    let clock = Instant::now();
    let recorder_options = RecorderOptions { timeline: request.timeline, restart_cost: request.options.restart.cost };
    let mut recorder = Recorder::new(request.bound, recorder_options);
    let mut over = 0;
    let mut observe = |event: &Event| {
        recorder.observe(event);
        also(event);
        if matches!(event.kind, EventKind::Ended { end, .. } if end.is_over()) {
            over += 1;
            if over % PROGRESS_STEP == 0 {
                bar.inc(PROGRESS_STEP);
            }
        }
    };
    let tally = if let Some(gavel) = request.gavel {
        gavel.simulate(request.bound, request.policy, request.options, &mut observe)?
    } else {
        // Built for each run, because a policy remembers.
        let policy = build_policy(request.policy, request.solver)?;
        let seconds = || clock.elapsed().as_secs_f64();
        match request.learning {
            None => rota_sim::simulate(request.bound, policy, request.options, &mut observe, &seconds),
            Some(learning) => {
                rota_sim::simulate_learning(request.bound, policy, request.options, learning, &mut observe, &seconds)?
            }
        }
    };
    bar.inc(over % PROGRESS_STEP);
    Ok((recorder.finish(tally.end), tally))
}

/// What a person sees: the assumptions, the numbers, and for a small run a Gantt chart.
fn describe(runs: &[(Run, Summary, RunMeta)], summaries: &[Summary], setting: &[String], bound: &Bound) -> String {
    let mut text = setting.join("\n");
    text.push_str("\n\n");
    if let [(run, summary, _)] = runs {
        text.push_str(&rota_report::summary_table(summary));
        if run.timeline.is_some() && bound.jobs.len() <= GANTT_JOBS_MAX {
            text.push('\n');
            text.push_str(&rota_report::terminal_gantt(run, bound, width(), GANTT_ROWS_MAX));
        }
    } else {
        text.push_str(&rota_report::comparison_table(summaries, width()));
        text.push('\n');
        text.push_str(&rota_report::verdict(summaries));
        text.push('\n');
    }
    text
}
