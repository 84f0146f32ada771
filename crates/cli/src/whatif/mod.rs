//! `rota whatif`: what other policies, GPUs or habits would have changed about jobs that really ran.
//!
//! The past is first simulated as it was, and compared with what really happened: that says how far the rest can be believed. Then each
//! alternative is simulated, and its waits are compared job by job with those of the simulated past.

mod alternatives;
mod clusters;
mod fidelity;
mod intervals;
mod page;
mod recorded;

use crate::args::WhatIfArgs;
use crate::live::text::columns;
use crate::output;
use crate::simulate::sim::build_policy;
use alternatives::{Alternative, Past, alternatives, bind};
use fidelity::{Fidelity, Replayed, fidelity};
use intervals::{Difference, Pieces, difference};
use rayon::prelude::*;
use recorded::{Recorded, the_past};
use rota_core::{Bound, JobId};
use rota_engine::{Engine, Session};
use rota_report::{Recorder, RecorderOptions, Run, RunMeta, Summary, summarise};
use rota_sim::{Mechanism, RestrainedWorld, Restraints, SimulatedWorld};
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// What came of it all.
#[derive(Serialize)]
pub struct WhatIf {
    /// The answer, in a sentence.
    pub answer: String,
    pub source: String,
    pub jobs: usize,
    pub cluster: String,
    /// How well the simulator repeats what happened; null where it is not recorded when jobs started.
    pub fidelity: Option<Fidelity>,
    /// What really happened first, then each alternative.
    pub alternatives: Vec<Outcome>,
    pub notes: Vec<String>,
    #[serde(skip)]
    recorded_waits_s: Vec<f64>,
}

/// What came of one alternative.
#[derive(Serialize)]
pub struct Outcome {
    pub name: String,
    #[serde(flatten)]
    pub summary: Summary,
    /// The wait of a job minus its wait in the simulated past: mean over all jobs, and interval.
    pub wait_change: Difference,
    /// The same of the time from arrival to end.
    pub jct_change: Difference,
    #[serde(skip)]
    waits_s: Vec<f64>,
}

/// Runs the command.
pub fn run(args: &WhatIfArgs) -> anyhow::Result<()> {
    let (past, recorded) = the_past(args)?;
    let ran = recorded.ran.clone();
    let choices =
        std::iter::once(Alternative::as_it_was(&ran)).chain(alternatives(args, &ran, &past.cluster)).collect::<Vec<_>>();
    for choice in &choices {
        drop(build_policy(&choice.policy, None)?);
    }
    let bar = output::progress(choices.len() as u64, "alternatives");
    let simulated = choices.par_iter().map(|choice| {
        let done = simulate(&past, &recorded, choice);
        bar.inc(1);
        done
    });
    let simulated = simulated.collect::<anyhow::Result<Vec<_>>>()?;
    bar.finish_and_clear();
    let whatif = compare(&past, &recorded, &choices, simulated);
    if let Some(path) = &args.out {
        output::write_file(path, |file| Ok(file.write_all(page::page(&whatif).as_bytes())?))?;
        output::remark(&format!("wrote {}: open it in a browser", path.display()));
    }
    if args.json { output::print_json(&whatif) } else { output::print(&describe(&whatif)) }
}

/// One alternative, simulated: its run, its summary, and the row of the past of each of its jobs.
struct Simulated {
    run: Run,
    summary: Summary,
    bound: Arc<Bound>,
    row_of: Vec<usize>,
    notes: Vec<String>,
}

fn simulate(past: &Past, recorded: &Recorded, choice: &Alternative) -> anyhow::Result<Simulated> {
    let started = Instant::now();
    let (bound, notes) = bind(past, choice)?;
    let row_of = rows(past, &bound);
    let new_rows = row_of.iter().enumerate().map(|(new, row)| (*row, JobId::from_index(new))).collect::<HashMap<_, _>>();
    let factor = choice.arrivals_factor();
    let held = recorded.held_until.iter().filter_map(|(row, at)| {
        // A user who held a job for an hour would have held it for an hour.
        let shift = past.workload.jobs[*row].arrival;
        let new = *new_rows.get(row)?;
        Some((new, if (factor - 1.0).abs() < f64::EPSILON { *at } else { bound.job(new).arrival + at.since(shift) }))
    });
    let restraints = Restraints { gpus_per_user_max: choice.quota(), held_until: held.collect() };
    let mut measures = Recorder::new(&bound, RecorderOptions { timeline: false, restart_cost: recorded.options.restart.cost });
    let policy = build_policy(&choice.policy, None)?;
    let mut observe = |event: &rota_core::Event| measures.observe(event);
    let seconds = || started.elapsed().as_secs_f64();
    let engine = Engine::new(Arc::clone(&bound), policy, &recorded.options.engine());
    let world = SimulatedWorld::new(Arc::clone(&bound), &recorded.options);
    let tally = if restraints == Restraints::default() {
        Session::new(engine, world).run(&mut observe, &seconds)
    } else {
        Session::new(engine, RestrainedWorld::new(world, &restraints)).run(&mut observe, &seconds)
    };
    let run = measures.finish(tally.end);
    let meta = RunMeta {
        policy: choice.policy.clone(),
        mechanism: if recorded.options.mechanism == Mechanism::Event { "event" } else { "rounds" }.to_owned(),
        seed: recorded.options.seed,
        restart_cost_seconds: recorded.options.restart.cost.seconds(),
        allocations: tally.decisions,
        allocation_seconds_mean: tally.decision_seconds / tally.decisions.max(1) as f64,
        allocation_seconds_max: tally.decision_seconds_max,
        wall_seconds: started.elapsed().as_secs_f64(),
        events: tally.events,
        ..RunMeta::default()
    };
    let summary = summarise(&run, &bound, &meta);
    Ok(Simulated { run, summary, bound, row_of, notes })
}

/// The row of the past of each bound job. Jobs that do not fit are left out in between.
fn rows(past: &Past, bound: &Bound) -> Vec<usize> {
    let mut next = past.workload.jobs.iter().enumerate();
    let mut row_of = Vec::with_capacity(bound.jobs.len());
    for job in &bound.jobs {
        let is_same = |old: &rota_core::Job| (old.line, &old.label, old.gpus) == (job.line, &job.label, job.gpus);
        row_of.extend(next.by_ref().find(|(_, old)| is_same(old)).map(|(row, _)| row));
    }
    row_of
}

/// Time without GPUs and time until the end of each row of the past, in seconds; `None` for jobs that did not end.
fn times(simulated: &Simulated, rows: usize) -> Vec<Option<(f64, f64)>> {
    let mut times = vec![None; rows];
    for ((record, job), row) in simulated.run.jobs.iter().zip(&simulated.bound.jobs).zip(&simulated.row_of) {
        times[*row] = record.end.map(|end| {
            let whole = end.since(job.arrival);
            (whole.minus(record.running).seconds(), whole.seconds())
        });
    }
    times
}

fn compare(past: &Past, recorded: &Recorded, choices: &[Alternative], simulated: Vec<Simulated>) -> WhatIf {
    let rows = past.workload.jobs.len();
    let arrivals = past.workload.jobs.iter().map(|job| job.arrival.seconds()).collect::<Vec<_>>();
    let span_s = arrivals.last().copied().unwrap_or(0.0);
    let pieces = Pieces::of(span_s);
    let base = simulated.first().map(|base| times(base, rows)).unwrap_or_default();
    let replayed = simulated.first().map(|base| replayed(base, recorded)).unwrap_or_default();
    let fidelity = fidelity(&recorded.ran, &replayed);
    let mut notes = recorded.notes.clone();
    notes.push(match &fidelity {
        None => "when jobs really started is not recorded: nothing says how well the simulation fits".to_owned(),
        Some(_) => format!("the replay goes by `{}`, the policy that is said to have run", recorded.ran),
    });
    notes.push(pieces.words().to_owned());
    let mut alternatives = Vec::new();
    for (choice, simulated) in choices.iter().zip(simulated) {
        let times = times(&simulated, rows);
        let pairs = |pick: fn((f64, f64)) -> f64| {
            let pair = |row: usize| Some((arrivals[row], pick(times[row]?) - pick(base[row]?)));
            (0..rows).filter_map(pair).collect::<Vec<_>>()
        };
        alternatives.push(Outcome {
            name: choice.name.clone(),
            wait_change: difference(&pairs(|(wait, _)| wait), pieces, recorded.options.seed),
            jct_change: difference(&pairs(|(_, whole)| whole), pieces, recorded.options.seed),
            waits_s: times.iter().flatten().map(|(wait, _)| *wait).collect(),
            summary: simulated.summary,
        });
        notes.extend(simulated.notes);
    }
    notes.dedup();
    WhatIf {
        answer: answer(&alternatives),
        source: past.workload.source.clone(),
        jobs: rows,
        cluster: past.cluster.describe(),
        fidelity,
        alternatives,
        notes,
        recorded_waits_s: replayed.iter().map(|job| job.recorded_s).collect(),
    }
}

fn replayed(base: &Simulated, recorded: &Recorded) -> Vec<Replayed> {
    let jobs = base.run.jobs.iter().zip(&base.bound.jobs).zip(&base.row_of);
    let job = |((record, job), row): ((&rota_report::JobOutcome, &rota_core::Job), &usize)| {
        let replayed_s = record.first_start?.since(job.arrival).seconds();
        Some(Replayed { arrival_s: job.arrival.seconds(), recorded_s: recorded.waits[*row]?.seconds(), replayed_s })
    };
    jobs.filter_map(job).collect()
}

/// The mean wait over all jobs that ended.
fn mean_wait(outcome: &Outcome) -> f64 {
    outcome.waits_s.iter().sum::<f64>() / outcome.waits_s.len().max(1) as f64
}

/// The answer in a sentence: the best alternative, if one is clearly better.
fn answer(outcomes: &[Outcome]) -> String {
    let Some((base, others)) = outcomes.split_first() else { return String::new() };
    let was = mean_wait(base);
    let is_clear = |other: &&Outcome| other.wait_change.mean_s < 0.0 && other.wait_change.high_s.is_none_or(|high| high < 0.0);
    let best = others.iter().filter(is_clear).min_by(|one, other| one.wait_change.mean_s.total_cmp(&other.wait_change.mean_s));
    match best {
        Some(best) => {
            let interval = match (best.wait_change.low_s, best.wait_change.high_s) {
                (Some(low), Some(high)) => format!("; between {} and {} less, with 95 %", duration(-high), duration(-low)),
                _ => String::new(),
            };
            format!(
                "{}: the mean wait would have been {} instead of {} ({:.0} % less{interval}).",
                best.name,
                duration(was + best.wait_change.mean_s),
                duration(was),
                100.0 * -best.wait_change.mean_s / was.max(1e-9),
            )
        }
        None => format!("None of the alternatives would clearly have shortened the mean wait of {}.", duration(was)),
    }
}

/// A length of time as people say it.
fn duration(seconds: f64) -> String {
    let size = seconds.abs();
    match size {
        _ if size < 0.95 => format!("{seconds:.2} s"),
        _ if size < 120.0 => format!("{seconds:.1} s"),
        _ if size < 7200.0 => format!("{:.1} min", seconds / 60.0),
        _ if size < 172_800.0 => format!("{:.1} h", seconds / 3600.0),
        _ => format!("{:.1} days", seconds / 86_400.0),
    }
}

fn change(difference: &Difference) -> String {
    let sign = if difference.mean_s > 0.0 { "+" } else { "" };
    match (difference.low_s, difference.high_s) {
        (Some(low), Some(high)) => format!("{sign}{} [{}, {}]", duration(difference.mean_s), duration(low), duration(high)),
        _ => format!("{sign}{}", duration(difference.mean_s)),
    }
}

/// The rows of the table that people see.
fn table(whatif: &WhatIf) -> Vec<Vec<String>> {
    let mut rows =
        vec![["", "MEAN WAIT", "CHANGE", "WAIT P99", "MEAN TO END", "CHANGE", "GPUS USED", "ENERGY"].map(str::to_owned).to_vec()];
    for (position, outcome) in whatif.alternatives.iter().enumerate() {
        let summary = &outcome.summary;
        let or_blank = |value: Option<f64>, show: &dyn Fn(f64) -> String| value.map(show).unwrap_or_default();
        let changed = |difference: &Difference| if position == 0 { String::new() } else { change(difference) };
        rows.push(vec![
            outcome.name.clone(),
            duration(mean_wait(outcome)),
            changed(&outcome.wait_change),
            or_blank(summary.wait_p99_s, &duration),
            or_blank(summary.jct_mean_s, &duration),
            changed(&outcome.jct_change),
            or_blank(summary.utilisation, &|part| format!("{:.0} %", 100.0 * part)),
            or_blank(summary.energy_kwh, &|kwh| format!("{kwh:.1} kWh")),
        ]);
    }
    rows
}

/// How well the simulation fits, in a sentence.
fn fidelity_words(fidelity: Option<&Fidelity>) -> String {
    let Some(found) = fidelity else {
        return "How well the simulation fits is not known: the past does not say when jobs started.".to_owned();
    };
    let error =
        found.error_of_waits.map_or_else(|| "no job waited".to_owned(), |error| format!("{:.1} % of the waits", 100.0 * error));
    format!(
        "Replayed under {}, {:.1} % of all pairs of {} jobs start in the recorded order; the error is {error}, for the median job {}; \
         mean wait {} replayed, {} recorded; the distributions of waits differ by {:.1} % at most.",
        found.policy,
        100.0 * found.start_order,
        found.jobs,
        duration(found.error_median_s),
        duration(found.wait_mean_replayed_s),
        duration(found.wait_mean_recorded_s),
        100.0 * found.distribution_distance,
    )
}

fn describe(whatif: &WhatIf) -> String {
    let mut text = format!("{}\n\n{} jobs from {} on {}\n", whatif.answer, whatif.jobs, whatif.source, whatif.cluster);
    text.push_str(&fidelity_words(whatif.fidelity.as_ref()));
    text.push_str("\n\n");
    text.push_str(&columns(&table(whatif), output::table_width()));
    text.push_str("\n\n");
    text.push_str(&whatif.notes.join("\n"));
    text
}
