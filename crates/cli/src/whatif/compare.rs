//! What each alternative would have changed, job by job, against the simulated past.

use super::alternatives::{Alternative, Past};
use super::answer::{Fit, answer};
use super::fidelity::{JobWaits, fidelity};
use super::intervals::{Pieces, difference};
use super::recorded::{RanBy, Recorded};
use super::simulate::Simulated;
use super::words::counted;
use super::{Outcome, WhatIf};
use rota_core::{Job, Span};
use rota_report::{JobOutcome, Summary};
use std::collections::HashSet;

/// What became of one job of the past, in seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// Time without GPUs from arrival to end; `None` for a job that never started.
    wait_s: Option<f64>,
    /// Time from arrival to completion; `None` for a job that did not complete.
    jct_s: Option<f64>,
}

/// What became of each job of the past, by row.
fn times(simulated: &Simulated, rows: usize) -> Vec<Times> {
    let mut times = vec![Times::default(); rows];
    for ((record, job), row) in simulated.run.jobs.iter().zip(&simulated.bound.jobs).zip(&simulated.row_of) {
        // A job whose dependency failed ends without having started: it has no wait.
        let end = record.first_start.and(record.end);
        let wait_s = end.map(|end| end.since(job.arrival).minus(record.running).seconds());
        times[*row] = Times { wait_s, jct_s: record.jct(job.arrival).map(Span::seconds) };
    }
    times
}

/// Compares each alternative with the first, which is the past as it was.
pub fn compare(past: &Past, recorded: &Recorded, choices: &[Alternative], simulated: Vec<Simulated>) -> WhatIf {
    let rows = past.workload.jobs.len();
    let arrivals = past.workload.jobs.iter().map(|job| job.arrival.seconds()).collect::<Vec<_>>();
    let pieces = Pieces::of(&arrivals);
    let base = simulated.first().map(|base| times(base, rows)).unwrap_or_default();
    let base_rows = simulated.first().map_or(0, |base| base.row_of.len());
    let base_left_out = simulated.first().map(|base| base.left_out.clone()).unwrap_or_default();
    let replayed = simulated.first().map(|base| replayed(base, recorded)).unwrap_or_default();
    let fidelity = fidelity(&recorded.ran, &replayed);
    let mut notes = recorded.notes.clone();
    let ran = ran_words(recorded);
    notes.push(match &fidelity {
        None => format!("when jobs really started is not recorded: nothing says how well the simulation fits. It goes by {ran}"),
        Some(_) => format!("the replay goes by {ran}"),
    });
    notes.push(
        "a wait is the time without GPUs, from arrival to end; recorded and replayed waits are until the first start".to_owned(),
    );
    notes.push(pieces.words().to_owned());
    let mut alternatives = Vec::new();
    for (choice, simulated) in choices.iter().zip(simulated) {
        let here = times(&simulated, rows);
        notes.extend(simulated.notes.iter().cloned());
        // What is true of the past itself is not said again of each alternative.
        let is_news = |why: &&String| alternatives.is_empty() || !base_left_out.contains(why);
        let mut news = simulated.left_out.iter().filter(is_news).cloned().collect::<Vec<_>>();
        let compared_with = (!alternatives.is_empty()).then_some(base.as_slice());
        news.extend(never_starts(&simulated, &here, compared_with));
        news.extend(starts_only_here(&here, &base));
        news.extend(stops(&simulated, recorded));
        notes.extend(news.into_iter().map(|text| format!("{}: {text}", choice.name)));
        let change = |pick: fn(&Times) -> Option<f64>| {
            let pair = |row: usize| Some((arrivals[row], pick(&here[row])? - pick(&base[row])?));
            difference(&(0..rows).filter_map(pair).collect::<Vec<_>>(), pieces, recorded.options.seed)
        };
        let in_base = || here.iter().zip(&base).filter(|(_, base)| base.wait_s.is_some()).map(|(here, _)| here.wait_s);
        let waits_s = in_base().flatten().collect::<Vec<_>>();
        alternatives.push(Outcome {
            name: choice.name.clone(),
            wait_change: change(|times| times.wait_s),
            jct_change: change(|times| times.jct_s),
            jobs_left_out: in_base().filter(Option::is_none).count(),
            summary: Summary { wait_mean_s: mean(&waits_s), wait_p99_s: p99(&waits_s), ..simulated.summary },
            waits_s,
        });
    }
    if alternatives.iter().any(|outcome| outcome.jobs_left_out > 0) {
        notes.push(
            "an alternative that leaves out jobs is compared by the jobs that are left, and is never the answer".to_owned(),
        );
    }
    let mut seen = HashSet::new();
    notes.retain(|note| seen.insert(note.clone()));
    WhatIf {
        answer: answer(&alternatives, Fit { fidelity: fidelity.as_ref(), ran: &ran, jobs: rows, left_out: rows - base_rows }),
        source: past.workload.source.clone(),
        jobs: rows,
        cluster: past.cluster.describe(),
        fidelity,
        alternatives,
        notes,
        recorded_waits_s: replayed.iter().map(|job| job.recorded).collect(),
    }
}

/// The policy that ran, and how that is known.
fn ran_words(recorded: &Recorded) -> String {
    let how = match recorded.ran_by {
        RanBy::Said => "the policy that is said to have run",
        RanBy::InForce => "the policy in force now (`--ran` names another)",
        RanBy::Assumed => "which is assumed to have run (`--ran` names another)",
    };
    format!("`{}`, {how}", recorded.ran)
}

/// How often jobs were stopped for others, and what that cost.
fn stops(simulated: &Simulated, recorded: &Recorded) -> Option<String> {
    let times = simulated.summary.preemptions;
    let cost = recorded.options.restart.cost.seconds();
    let often = counted(times as usize, "time");
    (times > 0).then(|| format!("jobs are stopped for others {often}, and each restart costs {cost} s (`--restart-cost`)"))
}

/// How many of an alternative's jobs never start, among those that start in the past it is compared with.
fn never_starts(simulated: &Simulated, here: &[Times], base: Option<&[Times]>) -> Option<String> {
    let starts_in_base = |row: usize| base.is_none_or(|base| base[row].wait_s.is_some());
    let never = simulated.row_of.iter().filter(|row| here[**row].wait_s.is_none() && starts_in_base(**row)).count();
    let (start, count) = if never == 1 { ("starts", "counts") } else { ("start", "count") };
    (never > 0).then(|| format!("{} never {start} and {count} in no wait", counted(never, "job")))
}

/// How many jobs start here and not in the past as it was.
fn starts_only_here(here: &[Times], base: &[Times]) -> Option<String> {
    let jobs = here.iter().zip(base).filter(|(here, base)| here.wait_s.is_some() && base.wait_s.is_none()).count();
    let (start, count) = if jobs == 1 { ("starts", "counts") } else { ("start", "count") };
    (jobs > 0).then(|| format!("{} that cannot run as it was {start} here, and {count} in no wait", counted(jobs, "job")))
}

fn replayed(base: &Simulated, recorded: &Recorded) -> Vec<JobWaits> {
    let jobs = base.run.jobs.iter().zip(&base.bound.jobs).zip(&base.row_of);
    let job = |((record, job), row): ((&JobOutcome, &Job), &usize)| {
        let replayed = record.first_start?.since(job.arrival).seconds();
        Some(JobWaits { arrival: job.arrival.seconds(), recorded: recorded.waits[*row]?.seconds(), replayed })
    };
    jobs.filter_map(job).collect()
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The 99th percentile, straight between the two nearest values.
fn p99(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let position = 0.99 * sorted.len().checked_sub(1)? as f64;
    let (below, above) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
    Some(below + (above - below) * position.fract())
}
