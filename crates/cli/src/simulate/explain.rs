//! `rota sim --explain JOB`: why a simulated job waited, from each decision that left it waiting to the next. The reasons are the
//! scheduler's own, the same as those of `rota explain` on a live queue.

use crate::args::SimArgs;
use crate::inputs::sim_options;
use crate::simulate::sim::build_policy;
use rota_core::{Bound, JobId};
use rota_engine::explain::{GpuBlocker, WaitReason};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

/// GPUs or jobs that are named in one reason; of more, only the number is told.
const NAMED_MAX: usize = 8;

/// A stretch of time in which a job waited for one reason.
#[derive(Serialize)]
struct Wait {
    from_s: f64,
    until_s: f64,
    reason: String,
}

/// All waits of a job.
#[derive(Serialize)]
pub struct JobWaits {
    job: u32,
    policy: String,
    waits: Vec<Wait>,
}

/// Simulates the policy once more and writes down why the job waits after each decision.
pub fn waits_of(args: &SimArgs, bound: &Arc<Bound>, job: u32) -> anyhow::Result<JobWaits> {
    if job as usize >= bound.jobs.len() {
        anyhow::bail!("--explain {job}: the trace has jobs 0 to {}", bound.jobs.len().saturating_sub(1));
    }
    let options = sim_options(&args.model, args.seed, args.window)?;
    let mut session = rota_sim::session(bound, build_policy(&args.policies[0], args.model.solver)?, &options);
    let id = JobId(job);
    let mut waits: Vec<Wait> = Vec::new();
    while session.advance(&mut |_| {}).is_some() {
        let target = session.ask();
        session.hand_in(&target, &mut |_| {});
        let state = &session.engine.state;
        let now = session.tally.end.seconds();
        if let Some(last) = waits.last_mut().filter(|last| last.until_s.is_nan()) {
            last.until_s = now;
        }
        if state.jobs[job as usize].phase.is_over() {
            break;
        }
        let reason = state.why_waiting(id).iter().map(|reason| say(reason, bound.shape(id).gpus)).collect::<Vec<_>>().join("; ");
        if reason.is_empty() {
            continue;
        }
        match waits.last_mut().filter(|last| last.reason == reason && last.until_s >= now) {
            Some(last) => last.until_s = f64::NAN,
            None => waits.push(Wait { from_s: now, until_s: f64::NAN, reason }),
        }
    }
    let end = session.tally.end.seconds();
    waits.iter_mut().filter(|wait| wait.until_s.is_nan()).for_each(|wait| wait.until_s = end);
    waits.retain(|wait| wait.until_s > wait.from_s);
    Ok(JobWaits { job, policy: args.policies[0].clone(), waits })
}

/// The waits for a person.
pub fn describe(waits: &JobWaits) -> String {
    if waits.waits.is_empty() {
        return format!("\nJob {} did not wait under `{}`.\n", waits.job, waits.policy);
    }
    let mut text = format!("\nWhy job {} waited under `{}`:\n", waits.job, waits.policy);
    for wait in &waits.waits {
        _ = writeln!(text, "  {:>12.1} s to {:>12.1} s  {}", wait.from_s, wait.until_s, wait.reason);
    }
    text
}

/// The reason why a job that needs so many GPUs waits, in words.
fn say(reason: &WaitReason, gpus: u32) -> String {
    match reason {
        WaitReason::Held => "it is held".to_owned(),
        WaitReason::Dependencies(jobs) => format!("it waits for {}", named("job", jobs.iter().map(|job| job.0))),
        WaitReason::Drained => "nothing is started, because the queue is drained".to_owned(),
        WaitReason::Promised { gpus, after } => {
            let (promised, leaving) = (named("GPU", gpus.iter().map(|gpu| gpu.0)), named("job", after.iter().map(|job| job.0)));
            format!("it has been promised {promised}, still held by {leaving}")
        }
        WaitReason::Order { free } => {
            format!("{} could be used, but jobs before it come first", named("GPU", free.iter().map(|gpu| gpu.0)))
        }
        WaitReason::Gpus { free, blocked } => {
            let mut text = format!(
                "needs {gpus} GPU{}; {} of {} free",
                if gpus == 1 { "" } else { "s" },
                free.len(),
                free.len() + blocked.len()
            );
            for (cause, count, jobs) in causes(blocked) {
                _ = write!(text, "; {count} {cause}");
                if !jobs.is_empty() {
                    _ = write!(text, " ({})", named("job", jobs.into_iter()));
                }
            }
            text
        }
    }
}

/// The causes for which GPUs cannot take a job, with the number of GPUs and the jobs on them.
fn causes(blocked: &[(rota_core::GpuId, GpuBlocker)]) -> Vec<(&'static str, usize, Vec<u32>)> {
    let mut causes: BTreeMap<&'static str, (usize, Vec<u32>)> = BTreeMap::new();
    for (_, blocker) in blocked {
        let (cause, jobs) = match blocker {
            GpuBlocker::NodeLost => ("lost with their node", None),
            GpuBlocker::Outside => ("held by others", None),
            GpuBlocker::Taken(jobs) => ("taken", Some(jobs)),
            GpuBlocker::Memory { jobs, .. } => ("without enough memory left", Some(jobs)),
            GpuBlocker::Group(jobs) => ("shared by jobs of another group", Some(jobs)),
            GpuBlocker::Slower(jobs) => ("where sharing would slow the jobs down too much", Some(jobs)),
        };
        let entry = causes.entry(cause).or_default();
        entry.0 += 1;
        entry.1.extend(jobs.into_iter().flatten().map(|job| job.0));
    }
    let sorted = causes.into_iter().map(|(cause, (count, mut jobs))| {
        jobs.sort_unstable();
        jobs.dedup();
        (cause, count, jobs)
    });
    sorted.collect()
}

/// A few numbers, or how many there are.
fn named(what: &str, numbers: impl ExactSizeIterator<Item = u32>) -> String {
    let count = numbers.len();
    if count > NAMED_MAX {
        return format!("{count} {what}s");
    }
    let many = if count == 1 { "" } else { "s" };
    format!("{what}{many} {}", numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rota_core::GpuId;

    #[test]
    fn reasons_are_said_of_one_and_of_several() {
        let (gpus, jobs) = (|ids: &[u32]| ids.iter().copied().map(GpuId).collect(), [JobId(3), JobId(5)]);
        let promised = |ids: &[u32], after: &[JobId]| say(&WaitReason::Promised { gpus: gpus(ids), after: after.into() }, 1);
        assert_eq!(promised(&[1, 2], &jobs), "it has been promised GPUs 1, 2, still held by jobs 3, 5");
        assert_eq!(promised(&[1], &jobs[..1]), "it has been promised GPU 1, still held by job 3");
        let order = WaitReason::Order { free: gpus(&[0, 4]) };
        assert_eq!(say(&order, 2), "GPUs 0, 4 could be used, but jobs before it come first");
        let blocked = vec![
            (GpuId(1), GpuBlocker::Taken([JobId(3)].into_iter().collect())),
            (GpuId(2), GpuBlocker::Slower([JobId(5)].into_iter().collect())),
        ];
        assert_eq!(
            say(&WaitReason::Gpus { free: gpus(&[0]), blocked }, 2),
            "needs 2 GPUs; 1 of 3 free; 1 taken (job 3); 1 where sharing would slow the jobs down too much (job 5)"
        );
    }
}
