//! Waits, failures and waste of the past, in sentences for its report.

use crate::live::text::seconds_text as duration;
use rota_daemon::Replay;
use rota_daemon::api::{JobState, PastJob};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Failed jobs that are named one by one.
const NAMED_MAX: usize = 20;

/// The facts, each as a word and what is said about it.
pub fn of(story: &Replay, idle_gpu_hours: Option<f64>) -> Vec<(String, String)> {
    let mut facts = vec![("waits".to_owned(), waits(&story.jobs)), ("failures".to_owned(), failures(&story.jobs))];
    let failed = story.jobs.iter().filter(|past| past.job.state == JobState::Failed).take(NAMED_MAX);
    facts.extend(failed.map(|past| (format!("job {}", past.job.id), how_it_failed(past))));
    facts.push(("waste".to_owned(), waste(&story.jobs, idle_gpu_hours)));
    facts
}

fn seconds_waited(past: &PastJob) -> f64 {
    let started_ns = past.runs.first().map_or(past.arrived_at_ns, |run| run.start_ns);
    started_ns.saturating_sub(past.arrived_at_ns) as f64 / 1e9
}

fn waits(jobs: &[PastJob]) -> String {
    let mut waits = jobs.iter().map(|past| (seconds_waited(past), past.job.id)).collect::<Vec<_>>();
    waits.sort_by(|a, b| a.0.total_cmp(&b.0));
    let Some(&(longest, job)) = waits.last() else { return "no job waited".to_owned() };
    let mean = waits.iter().map(|(seconds, _)| seconds).sum::<f64>() / waits.len() as f64;
    let median = waits[(waits.len() - 1) / 2].0;
    format!(
        "a job waited {} on average before it started; half of the jobs waited at most {}; job {job} waited longest, {}",
        duration(mean),
        duration(median),
        duration(longest)
    )
}

fn failures(jobs: &[PastJob]) -> String {
    let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
    for past in jobs {
        *counts.entry(past.job.state.word()).or_default() += 1;
    }
    let done = counts.remove("done").unwrap_or(0);
    let others = counts.into_iter().map(|(word, count)| format!("{count} {word}")).collect::<Vec<_>>();
    let others = if others.is_empty() { "none failed".to_owned() } else { others.join(", ") };
    format!("of {} jobs {done} ended well; {others}", jobs.len())
}

fn how_it_failed(past: &PastJob) -> String {
    let name = past.job.name.as_deref().map(|name| format!("`{name}`")).unwrap_or_default();
    let why = past.job.reason.clone().unwrap_or_else(|| match (past.job.signal, past.job.exit_code) {
        (Some(signal), _) => format!("ended by signal {signal}"),
        (None, Some(code)) => format!("exit code {code}"),
        (None, None) => "its end is not known".to_owned(),
    });
    format!("{name} of {}: {why}", past.job.user).trim_start().to_owned()
}

/// GPU time of runs that did not end well, and GPU time that jobs held without using it.
fn waste(jobs: &[PastJob], idle_gpu_hours: Option<f64>) -> String {
    let (mut lost, mut all) = (0.0, 0.0);
    for past in jobs {
        for run in &past.runs {
            let hours =
                run.end_ns.saturating_sub(run.start_ns) as f64 / 3.6e12 * f64::from(past.ask.gpus) * f64::from(past.share_milli)
                    / 1000.0;
            all += hours;
            if !matches!(run.end.as_str(), "finished" | "preempted") {
                lost += hours;
            }
        }
    }
    let part = if all > 0.0 { 100.0 * lost / all } else { 0.0 };
    let mut text =
        format!("{lost:.2} of {all:.2} GPU hours ({part:.0} %) went into runs that failed, were cancelled or were lost");
    if let Some(idle) = idle_gpu_hours {
        let _ = write!(text, "; jobs held GPUs for {idle:.2} hours while they used less than 5 % of them");
    }
    text
}
