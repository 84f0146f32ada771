//! The metrics that tables, pictures and the page show: their names for people, and which way is better.

use crate::summary::Summary;
use crate::units::{duration, grouped, significant};

/// Which values of a metric are good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    Lower,
    Higher,
    /// Neither: it describes the run.
    Neither,
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Seconds,
    Count,
    KilowattHours,
    Number(&'static str),
    Percent,
}

/// One metric of a summary.
pub(crate) struct Metric {
    /// The metric's name in JSON.
    pub key: &'static str,
    pub label: &'static str,
    /// The metric's meaning, in a sentence.
    pub meaning: &'static str,
    pub better: Better,
    pub format: Format,
    /// Whether it compares policies well enough to deserve a chart.
    pub charted: bool,
    pub value: fn(&Summary) -> Option<f64>,
}

impl Metric {
    /// The value of a summary in words; a dash if it is not known.
    pub fn show(&self, summary: &Summary) -> String {
        (self.value)(summary).map_or_else(|| "–".to_owned(), |value| self.format.show(value))
    }

    /// The position of the one summary that is better than all others. None is best where the best two look the same as they are
    /// shown: a reader cannot see such a difference.
    pub fn best<'a>(&self, summaries: impl IntoIterator<Item = &'a Summary>) -> Option<usize> {
        let sign = match self.better {
            Better::Lower => 1.0,
            Better::Higher => -1.0,
            Better::Neither => return None,
        };
        let known = |(position, summary): (usize, &Summary)| Some((position, (self.value)(summary)?));
        let mut values = summaries.into_iter().enumerate().filter_map(known).collect::<Vec<_>>();
        values.sort_by(|a, b| (a.1 * sign).total_cmp(&(b.1 * sign)));
        match values[..] {
            [(position, best), (_, second), ..] if self.format.show(best) != self.format.show(second) => Some(position),
            _ => None,
        }
    }
}

impl Format {
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Seconds => duration(value),
            Self::Count => grouped(value),
            Self::KilowattHours if value < 1.0 => format!("{} Wh", significant(value * 1e3)),
            Self::KilowattHours if value >= 1e4 => format!("{} MWh", significant(value / 1e3)),
            Self::KilowattHours => format!("{} kWh", significant(value)),
            Self::Number("") => significant(value),
            Self::Number(unit) => format!("{} {unit}", significant(value)),
            Self::Percent => format!("{:.1} %", 100.0 * value),
        }
    }

    /// The word by which the page chooses the same form.
    pub fn word(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Count => "count",
            Self::KilowattHours => "kwh",
            Self::Number("USD") => "usd",
            Self::Number("jobs/h") => "jobs_per_h",
            Self::Number(_) => "number",
            Self::Percent => "percent",
        }
    }
}

macro_rules! metric {
    ($key:ident, $label:literal, $better:ident, $format:expr, $charted:literal, $value:expr, $meaning:literal) => {
        Metric {
            key: stringify!($key),
            label: $label,
            meaning: $meaning,
            better: Better::$better,
            format: $format,
            charted: $charted,
            value: $value,
        }
    };
}

use Format::{Count, KilowattHours, Number, Percent, Seconds};

/// All metrics, in the order of the summary.
pub(crate) const METRICS: [Metric; 25] = [
    metric!(jobs, "jobs", Neither, Count, false, |row| Some(row.jobs as f64), "jobs that the job metrics are taken over"),
    metric!(completed, "completed", Higher, Count, false, |row| Some(row.completed as f64), "jobs that ended well"),
    metric!(failed, "failed", Lower, Count, false, |row| Some(row.failed as f64), "jobs that ended badly"),
    metric!(makespan_s, "makespan", Lower, Seconds, true, |row| row.makespan_s, "from the first arrival to the last end"),
    metric!(jct_mean_s, "mean JCT", Lower, Seconds, true, |row| row.jct_mean_s, "mean time from arrival to completion"),
    metric!(jct_p50_s, "median JCT", Lower, Seconds, true, |row| row.jct_p50_s, "half of the jobs completed within this time"),
    metric!(jct_p90_s, "p90 JCT", Lower, Seconds, true, |row| row.jct_p90_s, "nine jobs in ten completed within this time"),
    metric!(jct_p99_s, "p99 JCT", Lower, Seconds, true, |row| row.jct_p99_s, "99 jobs in 100 completed within this time"),
    metric!(
        wait_mean_s,
        "mean wait",
        Lower,
        Seconds,
        true,
        |row| row.wait_mean_s,
        "mean time without GPUs between arrival and completion"
    ),
    metric!(wait_p99_s, "p99 wait", Lower, Seconds, true, |row| row.wait_p99_s, "99 jobs in 100 waited no longer than this"),
    metric!(turnaround_mean_s, "mean turnaround", Lower, Seconds, false, |row| row.turnaround_mean_s, "the same as mean JCT"),
    metric!(
        throughput_jobs_per_h,
        "throughput",
        Higher,
        Number("jobs/h"),
        true,
        |row| row.throughput_jobs_per_h,
        "completed jobs over the makespan"
    ),
    metric!(
        utilisation,
        "utilisation",
        Higher,
        Percent,
        true,
        |row| row.utilisation,
        "allocated GPU time over all GPU time of the makespan"
    ),
    metric!(
        energy_kwh,
        "energy",
        Lower,
        KilowattHours,
        true,
        |row| row.energy_kwh,
        "drawn by all GPUs over the makespan, idle time included"
    ),
    metric!(
        cost_usd,
        "cost",
        Lower,
        Number("USD"),
        true,
        |row| row.cost_usd,
        "price of the GPU time allocated, as in force at the time"
    ),
    metric!(
        preemptions,
        "preemptions",
        Lower,
        Count,
        true,
        |row| Some(row.preemptions as f64),
        "how often GPUs were taken from a job"
    ),
    metric!(
        ftf_worst,
        "worst rho",
        Lower,
        Number(""),
        true,
        |row| row.ftf_worst,
        "largest JCT over the JCT with a fluid 1/n share of the cluster"
    ),
    metric!(
        ftf_unfair_fraction,
        "unfair jobs",
        Lower,
        Percent,
        true,
        |row| row.ftf_unfair_fraction,
        "jobs that a fluid 1/n share would have served better (rho > 1)"
    ),
    metric!(
        slo_violations,
        "missed deadlines",
        Lower,
        Count,
        true,
        |row| Some(row.slo_violations as f64),
        "jobs with a deadline that ended after it, failed, or had not ended by then"
    ),
    metric!(
        allocations,
        "decisions",
        Neither,
        Count,
        false,
        |row| Some(row.allocations as f64),
        "how often the policy was asked"
    ),
    metric!(
        allocation_seconds_mean,
        "mean decision time",
        Lower,
        Seconds,
        false,
        |row| Some(row.allocation_seconds_mean),
        "wall time of one decision"
    ),
    metric!(
        allocation_seconds_max,
        "longest decision",
        Lower,
        Seconds,
        false,
        |row| Some(row.allocation_seconds_max),
        "wall time of the slowest decision"
    ),
    metric!(wall_seconds, "wall time", Lower, Seconds, false, |row| Some(row.wall_seconds), "wall time of the whole simulation"),
    metric!(events, "events", Neither, Count, false, |row| Some(row.events as f64), "events of the run"),
    metric!(
        bsld_mean,
        "mean slowdown",
        Lower,
        Number(""),
        true,
        |row| row.bsld_mean,
        "mean JCT over run time, run times below 10 s counting as 10 s"
    ),
];
