//! The answer in a sentence: the alternative that would have shortened the mean wait most, if one is clearly better.
//!
//! Its figures are those of the table. An alternative that leaves out jobs is never the answer: fewer jobs wait less. Where the simulation
//! does not repeat what happened, that comes first.

use super::Outcome;
use super::fidelity::Fidelity;
use super::intervals::Difference;
use super::words::{counted, duration};

/// With a larger error of waits, as a part of them, the simulation does not fit the past.
const ERROR_MAX: f64 = 0.5;
/// Errors of less than this in the mean, in seconds, are no reason for doubt.
const DOUBT_SECONDS: f64 = 1.0;
/// With a larger one, the recorded mean wait is said beside the simulated one.
const ERROR_SAID: f64 = 0.1;
/// If more of the jobs than this part cannot run as it was, the cluster is not the one that they ran on.
const LEFT_OUT_MAX: f64 = 0.1;

/// How far the simulated past is that which happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fit<'a> {
    /// What is known of it; `None` where starts are not recorded.
    pub fidelity: Option<&'a Fidelity>,
    /// The policy that ran, in words.
    pub ran: &'a str,
    /// The jobs of the past.
    pub jobs: usize,
    /// Those that cannot run as it was.
    pub left_out: usize,
}

/// The answer in a sentence. What makes it doubtful comes before it; what ran, if it is not recorded when jobs started, after it.
pub fn answer(outcomes: &[Outcome], fit: Fit<'_>) -> String {
    let said = best_of(outcomes);
    let is_worth_a_word = |found: &&Fidelity| found.error_of_waits.unwrap_or(0.0) * found.wait_mean_recorded_s > DOUBT_SECONDS;
    let error = fit.fidelity.filter(is_worth_a_word).and_then(|found| found.error_of_waits).unwrap_or(0.0);
    if fit.left_out as f64 > LEFT_OUT_MAX * fit.jobs as f64 {
        let left_out = counted(fit.left_out, "job");
        return format!(
            "Not to be believed: {left_out} of {} cannot run on these GPUs. Check `--cluster`. By the simulation: {said}",
            fit.jobs
        );
    }
    match fit.fidelity {
        None => {
            format!("{said} All of it is simulated: it is not recorded when jobs started, and the past goes by {}.", fit.ran)
        }
        Some(found) if error > ERROR_MAX => format!(
            "Not to be believed: the simulated mean wait is {}, and {} were recorded. Check `--cluster` and `--ran`. By the simulation: {said}",
            duration(found.wait_mean_replayed_s),
            duration(found.wait_mean_recorded_s),
        ),
        Some(found) if error > ERROR_SAID => {
            format!("{said} These waits are simulated; the recorded mean wait is {}.", duration(found.wait_mean_recorded_s))
        }
        Some(_) => said,
    }
}

/// The alternative that is clearly better, in a sentence. Without an interval nothing is clear.
fn best_of(outcomes: &[Outcome]) -> String {
    let Some((base, others)) = outcomes.split_first() else { return String::new() };
    let Some(was) = base.summary.wait_mean_s else {
        return "No job of this past starts in the simulation, so that there is no wait to compare.".to_owned();
    };
    if was <= 0.0 {
        return "No job waits in the simulated past, so that there is no wait to shorten.".to_owned();
    }
    let is_clear = |other: &&Outcome| other.wait_change.high_s.is_some_and(|high| high < 0.0);
    // A change that the figures do not show is none.
    let mean_of = |other| shorter_mean(other, was).map(|mean| (other, mean));
    let clear = others.iter().filter(|other| other.jobs_left_out == 0).filter(is_clear).filter_map(mean_of);
    match clear.min_by(|one, other| one.1.total_cmp(&other.1)) {
        Some((best, mean)) => format!(
            "{}: the mean wait would have been {} instead of {} ({} less{}).{}",
            best.name,
            duration(mean),
            duration(was),
            percent((was - mean) / was),
            interval(&best.wait_change),
            later(&best.jct_change),
        ),
        None => none_of(others, &duration(was)),
    }
}

/// The mean wait of an alternative, if it is shown as another one than that of the past.
fn shorter_mean(other: &Outcome, was: f64) -> Option<f64> {
    other.summary.wait_mean_s.filter(|mean| *mean < was && duration(*mean) != duration(was))
}

/// A part in per cent. Only the whole is 100 %, and only nothing is 0 %.
fn percent(part: f64) -> String {
    let whole = (100.0 * part).round();
    if part < 1.0 && !(1.0..=99.0).contains(&whole) {
        format!("{:.1} %", (100.0 * part).clamp(0.1, 99.9))
    } else {
        format!("{whole} %")
    }
}

/// That jobs would have ended later, if they would: on slower GPUs, or stopped more often.
fn later(change: &Difference) -> String {
    let shown = change.mean_s.filter(|mean| *mean > 0.0).map(duration).filter(|later| *later != duration(0.0));
    shown.map(|later| format!(" But jobs would have ended {later} later in the mean.")).unwrap_or_default()
}

/// By how much less jobs wait, with 95 %; nothing without an interval.
fn interval(change: &Difference) -> String {
    let Some((low, high)) = change.low_s.zip(change.high_s) else { return String::new() };
    let (least, most) = (duration(-high), duration(-low));
    if least == most {
        format!("; about {least} less, with 95 %")
    } else {
        format!("; between {least} and {most} less, with 95 %")
    }
}

/// Why none of the alternatives is the answer.
fn none_of(others: &[Outcome], was: &str) -> String {
    let leaves_out = |other: &Outcome| other.jobs_left_out > 0;
    let is_unsure = |other: &Outcome| other.wait_change.high_s.is_none();
    match others {
        [] => format!("There is no alternative to compare; the mean wait was {was}."),
        [one] if leaves_out(one) => format!("{} leaves out jobs, so that it is no answer; the mean wait was {was}.", one.name),
        [one] if is_unsure(one) => {
            format!("The past is too short to tell whether {} is better; the mean wait was {was}.", one.name)
        }
        [one] => format!("{} would not clearly have shortened the mean wait of {was}.", one.name),
        _ if others.iter().all(leaves_out) => {
            format!("Every alternative leaves out jobs, so that none is an answer; the mean wait was {was}.")
        }
        _ if others.iter().all(is_unsure) => {
            format!("The past is too short to tell which alternative is better; the mean wait was {was}.")
        }
        _ => {
            let which = if others.iter().any(leaves_out) { " that run every job" } else { "" };
            format!("None of the alternatives{which} would clearly have shortened the mean wait of {was}.")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rota_report::Summary;

    /// An alternative in which jobs waited so long, with its change against the past: mean, low and high.
    fn outcome(name: &str, wait_s: f64, mean_s: f64, interval: Option<(f64, f64)>) -> Outcome {
        let (low_s, high_s) = interval.unzip();
        let wait_change = Difference { mean_s: Some(mean_s), low_s, high_s };
        Outcome {
            name: name.to_owned(),
            summary: Summary { wait_mean_s: Some(wait_s), ..Summary::default() },
            jobs_left_out: 0,
            wait_change,
            jct_change: wait_change,
            waits_s: vec![wait_s; 3],
        }
    }

    #[test]
    fn only_an_alternative_whose_whole_interval_is_below_zero_is_better() {
        let past = || outcome("as it was", 100.0, 0.0, Some((0.0, 0.0)));
        let unsure = || outcome("las", 40.0, -60.0, Some((-130.0, 5.0)));
        let clear = outcome("sjf", 50.0, -50.0, Some((-60.0, -40.0)));
        let said = best_of(&[past(), unsure(), clear]);
        let expected = "sjf: the mean wait would have been 50.0 s instead of 100.0 s (50 % less; between 40.0 s and 60.0 s less, with 95 %).";
        assert_eq!(said, expected);
        let unclear = "None of the alternatives would clearly have shortened the mean wait of 100.0 s.";
        assert_eq!(best_of(&[past(), unsure(), unsure()]), unclear);
        assert_eq!(best_of(&[past(), unsure(), outcome("a few jobs", 10.0, -90.0, None)]), unclear);
    }

    #[test]
    fn a_past_without_intervals_has_no_best_alternative() {
        let said = best_of(&[
            outcome("as it was", 100.0, 0.0, None),
            outcome("sjf", 50.0, -50.0, None),
            outcome("las", 150.0, 50.0, None),
        ]);
        assert_eq!(said, "The past is too short to tell which alternative is better; the mean wait was 100.0 s.");
    }

    #[test]
    fn an_alternative_that_leaves_out_jobs_is_never_the_answer() {
        let past = || outcome("as it was", 100.0, 0.0, Some((0.0, 0.0)));
        let fewer = || Outcome { jobs_left_out: 2, ..outcome("-a100:1", 10.0, -20.0, Some((-25.0, -15.0))) };
        let clear = outcome("sjf", 90.0, -10.0, Some((-12.0, -8.0)));
        assert!(best_of(&[past(), fewer(), clear]).starts_with("sjf: the mean wait would have been 90.0 s instead of 100.0 s"));
        let worse = outcome("las", 150.0, 50.0, Some((40.0, 60.0)));
        let none = "None of the alternatives that run every job would clearly have shortened the mean wait of 100.0 s.";
        assert_eq!(best_of(&[past(), fewer(), worse]), none);
        let every = "Every alternative leaves out jobs, so that none is an answer; the mean wait was 100.0 s.";
        assert_eq!(best_of(&[past(), fewer(), fewer()]), every);
    }

    #[test]
    fn a_past_without_recorded_starts_says_what_it_goes_by() {
        let outcomes = [outcome("as it was", 100.0, 0.0, Some((0.0, 0.0))), outcome("sjf", 50.0, -50.0, Some((-60.0, -40.0)))];
        let plain = best_of(&outcomes);
        assert!(plain.ends_with("with 95 %)."), "{plain}");
        let second =
            " All of it is simulated: it is not recorded when jobs started, and the past goes by `fcfs`, which is assumed.";
        let unrecorded = Fit { ran: "`fcfs`, which is assumed", jobs: 3, ..Fit::default() };
        assert_eq!(answer(&outcomes, unrecorded), plain + second);
    }

    #[test]
    fn a_simulation_that_does_not_fit_says_so_first() {
        let outcomes = [outcome("as it was", 100.0, 0.0, Some((0.0, 0.0))), outcome("sjf", 50.0, -50.0, Some((-60.0, -40.0)))];
        let plain = best_of(&outcomes);
        let said = |error_of_waits: f64, left_out: usize| {
            let found = Fidelity {
                policy: "fcfs".to_owned(),
                jobs: 100,
                start_order: 1.0,
                error_of_waits: Some(error_of_waits),
                error_median_s: 0.0,
                error_p90_s: 0.0,
                bias_s: 0.0,
                wait_mean_recorded_s: 900.0,
                wait_mean_replayed_s: 100.0,
                distribution_distance: 0.0,
            };
            answer(&outcomes, Fit { fidelity: Some(&found), ran: "`fcfs`", jobs: 100, left_out })
        };
        assert_eq!(said(0.05, 10), plain);
        assert_eq!(said(0.3, 0), format!("{plain} These waits are simulated; the recorded mean wait is 15.0 min."));
        let unfit =
            "Not to be believed: the simulated mean wait is 100.0 s, and 15.0 min were recorded. Check `--cluster` and `--ran`.";
        assert_eq!(said(0.8, 0), format!("{unfit} By the simulation: {plain}"));
        assert!(said(0.0, 11).starts_with("Not to be believed: 11 jobs of 100 cannot run on these GPUs. Check `--cluster`."));
    }

    #[test]
    fn an_answer_with_which_jobs_end_later_says_so() {
        let mut slower = outcome("+k80:3", 50.0, -50.0, Some((-60.0, -40.0)));
        slower.jct_change.mean_s = Some(1320.0);
        let said = best_of(&[outcome("as it was", 100.0, 0.0, Some((0.0, 0.0))), slower]);
        assert!(said.ends_with(" less, with 95 %). But jobs would have ended 22.0 min later in the mean."), "{said}");
    }

    #[test]
    fn a_past_in_which_no_job_starts_has_no_mean_wait() {
        let none = |name: &str| Outcome { summary: Summary::default(), waits_s: Vec::new(), ..outcome(name, 0.0, 0.0, None) };
        let said = "No job of this past starts in the simulation, so that there is no wait to compare.";
        assert_eq!(best_of(&[none("as it was"), none("sjf")]), said);
    }

    #[test]
    fn an_only_alternative_is_named() {
        let said = |other: Outcome| best_of(&[outcome("as it was", 100.0, 0.0, Some((0.0, 0.0))), other]);
        let unsure = said(outcome("las", 40.0, -60.0, Some((-130.0, 5.0))));
        assert_eq!(unsure, "las would not clearly have shortened the mean wait of 100.0 s.");
        let short = said(outcome("las", 40.0, -60.0, None));
        assert_eq!(short, "The past is too short to tell whether las is better; the mean wait was 100.0 s.");
        let fewer = said(Outcome { jobs_left_out: 1, ..outcome("-a100:1", 10.0, -20.0, Some((-25.0, -15.0))) });
        assert_eq!(fewer, "-a100:1 leaves out jobs, so that it is no answer; the mean wait was 100.0 s.");
        let alone = best_of(&[outcome("as it was", 100.0, 0.0, None)]);
        assert_eq!(alone, "There is no alternative to compare; the mean wait was 100.0 s.");
    }

    #[test]
    fn a_past_without_waits_has_none_to_shorten() {
        for interval in [None, Some((0.0, 0.0))] {
            let said = best_of(&[outcome("as it was", 0.0, 0.0, interval), outcome("sjf", 0.0, 0.0, interval)]);
            assert_eq!(said, "No job waits in the simulated past, so that there is no wait to shorten.");
        }
    }

    #[test]
    fn an_interval_without_width_is_one_figure() {
        let said =
            best_of(&[outcome("as it was", 99.0, 0.0, Some((0.0, 0.0))), outcome("sjf", 66.0, -33.0, Some((-33.0, -33.0)))]);
        assert_eq!(
            said,
            "sjf: the mean wait would have been 66.0 s instead of 99.0 s (33 % less; about 33.0 s less, with 95 %)."
        );
    }

    #[test]
    fn a_change_that_the_figures_do_not_show_is_no_answer() {
        let same = outcome("sjf", 99.999, -0.001, Some((-0.002, -0.0005)));
        let said = best_of(&[outcome("as it was", 100.0, 0.0, Some((0.0, 0.0))), same]);
        assert_eq!(said, "sjf would not clearly have shortened the mean wait of 100.0 s.");
    }

    #[test]
    fn a_wait_that_is_left_is_not_100_percent_less() {
        let parts = [0.0004, 0.004, 0.0099, 0.5, 0.994, 0.9951, 0.9999, 1.0].map(percent);
        assert_eq!(parts, ["0.1 %", "0.4 %", "1 %", "50 %", "99 %", "99.5 %", "99.9 %", "100 %"]);
    }
}
