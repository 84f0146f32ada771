//! The past and its alternatives in words and as a table.

use super::fidelity::Fidelity;
use super::intervals::Difference;
use super::{Outcome, WhatIf};
use crate::live::text::columns;
use crate::output;

/// So many of a thing: `1 job`, `2 jobs`.
pub fn counted(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// Less than this is shown as zero.
const SHOWN_SECONDS_MIN: f64 = 0.005;

/// A length of time as people say it.
pub fn duration(seconds: f64) -> String {
    let size = seconds.abs();
    match size {
        _ if size < SHOWN_SECONDS_MIN => "0.00 s".to_owned(),
        _ if size < 0.95 => format!("{seconds:.2} s"),
        _ if size < 120.0 => format!("{seconds:.1} s"),
        _ if size < 7200.0 => format!("{:.1} min", seconds / 60.0),
        _ if size < 172_800.0 => format!("{:.1} h", seconds / 3600.0),
        _ => format!("{:.1} days", seconds / 86_400.0),
    }
}

fn change(difference: &Difference) -> String {
    let Some(mean_s) = difference.mean_s else { return String::new() };
    let sign = if mean_s >= SHOWN_SECONDS_MIN { "+" } else { "" };
    match (difference.low_s, difference.high_s) {
        (Some(low), Some(high)) => format!("{sign}{} [{}, {}]", duration(mean_s), duration(low), duration(high)),
        _ => format!("{sign}{}", duration(mean_s)),
    }
}

/// The name of an alternative; it says how many jobs are left out.
fn marked_name(outcome: &Outcome) -> String {
    match outcome.jobs_left_out {
        0 => outcome.name.clone(),
        count => format!("{} (without {})", outcome.name, counted(count, "job")),
    }
}

/// The rows of the table that people see.
pub fn table(whatif: &WhatIf) -> Vec<Vec<String>> {
    let mut rows =
        vec![["", "MEAN WAIT", "CHANGE", "WAIT P99", "MEAN TO END", "CHANGE", "GPUS USED", "ENERGY"].map(str::to_owned).to_vec()];
    for (position, outcome) in whatif.alternatives.iter().enumerate() {
        let summary = &outcome.summary;
        let or_blank = |value: Option<f64>, show: &dyn Fn(f64) -> String| value.map(show).unwrap_or_default();
        let changed = |difference: &Difference| if position == 0 { String::new() } else { change(difference) };
        rows.push(vec![
            marked_name(outcome),
            or_blank(summary.wait_mean_s, &duration),
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

/// A part of a whole. Only the whole is 100 %.
fn part(of_one: f64) -> String {
    let tenths = (1000.0 * of_one).round();
    format!("{:.1} %", if of_one < 1.0 { tenths.min(999.0) } else { tenths } / 10.0)
}

/// How well the simulation fits, in a sentence.
pub fn fidelity_words(fidelity: Option<&Fidelity>) -> String {
    let Some(found) = fidelity else {
        return "How well the simulation fits is not known: the past does not say when jobs started.".to_owned();
    };
    let order = match found.jobs {
        1 => "1 job starts".to_owned(),
        jobs => format!("{} of all pairs of {jobs} jobs start in the recorded order", part(found.start_order)),
    };
    let error = found.error_of_waits.map_or_else(
        || "no job waited in the recording".to_owned(),
        |error| format!("the error is {:.1} % of the waits", 100.0 * error),
    );
    format!(
        "Replayed under {}, {order}; {error}, and {} for the median job; mean wait {} replayed, {} recorded; \
         the distributions of waits differ by {:.1} % at most.",
        found.policy,
        duration(found.error_median_s),
        duration(found.wait_mean_replayed_s),
        duration(found.wait_mean_recorded_s),
        100.0 * found.distribution_distance,
    )
}

/// Everything, for the terminal.
pub fn describe(whatif: &WhatIf) -> String {
    let jobs = counted(whatif.jobs, "job");
    let mut text = format!("{}\n\n{jobs} from {} on {}\n", whatif.answer, whatif.source, whatif.cluster);
    text.push_str(&fidelity_words(whatif.fidelity.as_ref()));
    text.push_str("\n\n");
    text.push_str(&columns(&table(whatif), output::table_width()));
    text.push_str("\n\n");
    text.push_str(&whatif.notes.join("\n"));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_is_shown_as_zero_has_no_sign() {
        let said = |mean_s: f64, low_s: f64, high_s: f64| {
            change(&Difference { mean_s: Some(mean_s), low_s: Some(low_s), high_s: Some(high_s) })
        };
        assert_eq!(said(0.001, -0.002, 0.004), "0.00 s [0.00 s, 0.00 s]");
        assert_eq!(said(-0.001, -0.02, -0.0), "0.00 s [-0.02 s, 0.00 s]");
        assert_eq!(said(0.006, 0.005, 300.0), "+0.01 s [0.01 s, 5.0 min]");
    }
}
