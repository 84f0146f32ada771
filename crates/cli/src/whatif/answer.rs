//! The answer in a sentence: the alternative that would have shortened the mean wait most, if one is clearly better.
//!
//! Its figures are those of the table. An alternative that leaves out jobs is never the answer: fewer jobs wait less.

use super::Outcome;
use super::words::duration;

/// The answer in a sentence, and in a second one what ran, if it is not recorded when jobs started.
pub fn answer(outcomes: &[Outcome], unrecorded: Option<&str>) -> String {
    let said = best_of(outcomes);
    match unrecorded {
        Some(ran) => format!("{said} All of it is simulated: it is not recorded when jobs started, and the past goes by {ran}."),
        None => said,
    }
}

/// The alternative that is clearly better, in a sentence. Without an interval nothing is clear.
fn best_of(outcomes: &[Outcome]) -> String {
    let Some((base, others)) = outcomes.split_first() else { return String::new() };
    let Some(was) = base.summary.wait_mean_s else {
        return "No job of this past starts in the simulation, so that there is no wait to compare.".to_owned();
    };
    let runs_every_job = |other: &&Outcome| other.jobs_left_out == 0;
    if !others.is_empty() && !others.iter().any(|other| runs_every_job(&other)) {
        return format!("Every alternative leaves out jobs, so that none is an answer; the mean wait was {}.", duration(was));
    }
    let is_clear = |other: &&Outcome| other.wait_change.high_s.is_some_and(|high| high < 0.0);
    let clear = others.iter().filter(runs_every_job).filter(is_clear);
    let best = clear.filter_map(|other| Some((other, other.summary.wait_mean_s?))).min_by(|one, other| one.1.total_cmp(&other.1));
    match best {
        Some((best, mean)) => {
            let interval = match (best.wait_change.low_s, best.wait_change.high_s) {
                (Some(low), Some(high)) => format!("; between {} and {} less, with 95 %", duration(-high), duration(-low)),
                _ => String::new(),
            };
            format!(
                "{}: the mean wait would have been {} instead of {} ({:.0} % less{interval}).",
                best.name,
                duration(mean),
                duration(was),
                100.0 * (was - mean) / was.max(1e-9),
            )
        }
        None if !others.is_empty() && others.iter().all(|other| other.wait_change.high_s.is_none()) => {
            format!("The past is too short to tell which alternative is better; the mean wait was {}.", duration(was))
        }
        None => {
            let which = if others.iter().all(|other| runs_every_job(&other)) { "" } else { " that run every job" };
            format!("None of the alternatives{which} would clearly have shortened the mean wait of {}.", duration(was))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::whatif::Difference;
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
        assert_eq!(best_of(&[past(), unsure()]), unclear);
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
        assert_eq!(best_of(&[past(), fewer()]), every);
    }

    #[test]
    fn a_past_without_recorded_starts_says_what_it_goes_by() {
        let outcomes = [outcome("as it was", 100.0, 0.0, Some((0.0, 0.0))), outcome("sjf", 50.0, -50.0, Some((-60.0, -40.0)))];
        let plain = answer(&outcomes, None);
        assert!(plain.ends_with("with 95 %)."), "{plain}");
        let second =
            " All of it is simulated: it is not recorded when jobs started, and the past goes by `fcfs`, which is assumed.";
        assert_eq!(answer(&outcomes, Some("`fcfs`, which is assumed")), plain + second);
    }

    #[test]
    fn a_past_in_which_no_job_starts_has_no_mean_wait() {
        let none = |name: &str| Outcome { summary: Summary::default(), waits_s: Vec::new(), ..outcome(name, 0.0, 0.0, None) };
        let said = "No job of this past starts in the simulation, so that there is no wait to compare.";
        assert_eq!(best_of(&[none("as it was"), none("sjf")]), said);
    }
}
