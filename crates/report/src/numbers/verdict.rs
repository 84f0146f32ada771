//! The comparison in one line: which policy has the lowest mean completion time, and by how much.

use crate::summary::Summary;
use crate::units::{duration, plural};

/// The policy that others are compared with where it is among them.
const USUAL_BASELINE: &str = "fcfs";
/// Differences below this part are none: a twentieth of a percent.
const SAME: f64 = 5e-4;

/// One line about several runs of the same jobs: `srtf: 23 % lower mean completion time than fcfs`. For a single run it says what
/// became of its jobs.
pub fn verdict(summaries: &[Summary]) -> String {
    let [first, _, ..] = summaries else { return summaries.first().map(of_one).unwrap_or_default() };
    let most = summaries.iter().map(|summary| summary.completed).max().unwrap_or(0);
    // A run that leaves its long jobs unfinished has a low mean, and is not better for it.
    let finished = summaries.iter().filter(|summary| summary.completed == most);
    let mut ranked = finished.filter_map(|summary| Some((summary, summary.jct_mean_s?))).collect::<Vec<_>>();
    ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
    let [(best, best_seconds), ref others @ ..] = ranked[..] else {
        return "no job completed under any of the policies".to_owned();
    };
    let is_baseline = |summary: &&Summary| summary.policy == USUAL_BASELINE;
    let baseline = summaries.iter().find(is_baseline).unwrap_or(first);
    let Some(&(last, last_seconds)) = others.last() else {
        return format!("{}: the only policy that completed all {}", best.policy, plural(most as usize, "job"));
    };
    if !differ(best_seconds, last_seconds) && ranked.len() == summaries.len() {
        return format!("no difference: the mean completion time is {} under all of them", duration(best_seconds));
    }
    let ties = ranked.iter().filter(|(_, seconds)| !differ(best_seconds, *seconds)).map(|(summary, _)| summary.policy.as_str());
    let ties = ties.collect::<Vec<_>>();
    let (against, against_seconds) = match ranked.iter().find(|(summary, _)| summary.policy == baseline.policy) {
        Some(&(_, seconds)) if differ(best_seconds, seconds) => (baseline, seconds),
        _ => (last, last_seconds),
    };
    if !differ(best_seconds, against_seconds) {
        return format!("{}: the same mean completion time, {}", ties.join(", "), duration(best_seconds));
    }
    let lower = percent(1.0 - best_seconds / against_seconds);
    format!("{}: {lower} lower mean completion time than {}", ties.join(", "), against.policy)
}

/// One line about a metric in seconds that is better when it is lower, where two or more policies have it:
/// `mean JCT, 4 jobs/h: srtf is 23 % lower than fcfs`.
pub fn verdict_of_means(place: &str, means: &[(&str, f64)]) -> Option<String> {
    let &[first, _, ..] = means else { return None };
    let best = means.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let worst = means.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1))?;
    if !differ(best.1, worst.1) {
        return Some(format!("{place}: no difference between the policies"));
    }
    let baseline = means.iter().copied().find(|(policy, _)| *policy == USUAL_BASELINE).unwrap_or(first);
    let against = if differ(best.1, baseline.1) { baseline } else { worst };
    let ties = means.iter().filter(|(_, seconds)| !differ(best.1, *seconds)).map(|(policy, _)| *policy).collect::<Vec<_>>();
    let verb = if ties.len() == 1 { "is" } else { "are" };
    Some(format!("{place}: {} {verb} {} lower than {}", ties.join(", "), percent(1.0 - best.1 / against.1), against.0))
}

fn of_one(summary: &Summary) -> String {
    let done = format!("{}: {} of {} completed", summary.policy, summary.completed, plural(summary.jobs as usize, "job"));
    match (summary.jct_mean_s, summary.wait_mean_s) {
        (Some(jct), Some(wait)) => {
            format!("{done}, after {} on average, of which {} were waiting", duration(jct), duration(wait))
        }
        _ => done,
    }
}

fn differ(best_seconds: f64, other_seconds: f64) -> bool {
    other_seconds - best_seconds > SAME * other_seconds
}

fn percent(part: f64) -> String {
    let percent = 100.0 * part;
    if percent >= 9.95 { format!("{percent:.0} %") } else { format!("{percent:.1} %") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(policy: &str, completed: u64, jct_mean_s: f64) -> Summary {
        Summary { policy: policy.to_owned(), jobs: 10, completed, jct_mean_s: Some(jct_mean_s), ..Summary::default() }
    }

    #[test]
    fn the_best_is_compared_with_fcfs() {
        let all = [summary("las", 10, 90.0), summary("fcfs", 10, 100.0), summary("srtf", 10, 77.0)];
        assert_eq!(verdict(&all), "srtf: 23 % lower mean completion time than fcfs");
        assert_eq!(verdict(&all[1..2]), "fcfs: 10 of 10 jobs completed");
        let without_fcfs = [summary("las", 10, 90.0), summary("rr", 10, 95.0), summary("srtf", 10, 88.0)];
        assert_eq!(verdict(&without_fcfs), "srtf: 2.2 % lower mean completion time than las");
    }

    #[test]
    fn where_the_baseline_is_best_it_is_compared_with_the_worst() {
        let all = [summary("fcfs", 10, 77.0), summary("rr", 10, 100.0)];
        assert_eq!(verdict(&all), "fcfs: 23 % lower mean completion time than rr");
    }

    #[test]
    fn ties_and_unfinished_runs_do_not_win() {
        let same = [summary("fcfs", 10, 100.0), summary("sjf", 10, 100.01)];
        assert_eq!(verdict(&same), "no difference: the mean completion time is 100 s under all of them");
        let two = [summary("fcfs", 10, 100.0), summary("sjf", 10, 50.0), summary("srtf", 10, 50.0)];
        assert_eq!(verdict(&two), "sjf, srtf: 50 % lower mean completion time than fcfs");
        let unfinished = [summary("fcfs", 10, 100.0), summary("broken", 3, 5.0)];
        assert_eq!(verdict(&unfinished), "fcfs: the only policy that completed all 10 jobs");
        assert_eq!(verdict(&[]), "");
    }

    #[test]
    fn a_sweep_is_judged_at_each_load() {
        let said = verdict_of_means("mean JCT, 4 jobs/h", &[("fcfs", 100.0), ("srtf", 77.0)]);
        assert_eq!(said.as_deref(), Some("mean JCT, 4 jobs/h: srtf is 23 % lower than fcfs"));
        let said = verdict_of_means("load", &[("fcfs", 10.0), ("sjf", 10.0)]);
        assert_eq!(said.as_deref(), Some("load: no difference between the policies"));
        assert_eq!(verdict_of_means("load", &[("fcfs", 10.0)]), None);
    }
}
