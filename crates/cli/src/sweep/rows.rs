//! The rows of a sweep and the files they are kept in: `results.csv` for people, `progress.csv` and `samples/` for going on after a stop.

use crate::output::write_file;
use crate::sweep::grid::Point;
use anyhow::Context;
use rota_report::{Sample, Summary};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Columns of results.csv: where in the grid, then what came out.
pub const COLUMNS: &[&str] = &[
    "cluster",
    "workload_jobs",
    "rate_jobs_per_h",
    "seed",
    "policy",
    "load",
    "mechanism",
    "jobs",
    "completed",
    "failed",
    "makespan_s",
    "jct_mean_s",
    "jct_p50_s",
    "jct_p90_s",
    "jct_p99_s",
    "wait_mean_s",
    "wait_p99_s",
    "turnaround_mean_s",
    "throughput_jobs_per_h",
    "utilisation",
    "energy_kwh",
    "cost_usd",
    "preemptions",
    "ftf_worst",
    "ftf_unfair_fraction",
    "slo_violations",
    "allocations",
    "events",
    "bsld_mean",
];

/// The cells of one finished run.
pub type Row = Vec<String>;

pub fn cells(point: &Point, summary: &Summary, load: Option<f64>) -> Row {
    fn cell(value: Option<impl ToString>) -> String {
        value.map(|value| value.to_string()).unwrap_or_default()
    }
    vec![
        point.cluster.clone(),
        cell(point.workload_jobs),
        cell(point.rate),
        point.seed.to_string(),
        point.policy.clone(),
        cell(load),
        summary.mechanism.clone(),
        summary.jobs.to_string(),
        summary.completed.to_string(),
        summary.failed.to_string(),
        cell(summary.makespan_s),
        cell(summary.jct_mean_s),
        cell(summary.jct_p50_s),
        cell(summary.jct_p90_s),
        cell(summary.jct_p99_s),
        cell(summary.wait_mean_s),
        cell(summary.wait_p99_s),
        cell(summary.turnaround_mean_s),
        cell(summary.throughput_jobs_per_h),
        cell(summary.utilisation),
        cell(summary.energy_kwh),
        cell(summary.cost_usd),
        summary.preemptions.to_string(),
        cell(summary.ftf_worst),
        cell(summary.ftf_unfair_fraction),
        summary.slo_violations.to_string(),
        summary.allocations.to_string(),
        summary.events.to_string(),
        cell(summary.bsld_mean),
    ]
}

/// A number of a row.
pub fn value(row: &Row, column: &str) -> Option<f64> {
    let position = COLUMNS.iter().position(|known| *known == column)?;
    row.get(position)?.parse().ok()
}

/// A row as JSON.
pub fn document(row: &Row) -> serde_json::Map<String, serde_json::Value> {
    COLUMNS.iter().map(|column| (*column).to_owned()).zip(row.iter().map(|cell| cell_value(cell))).collect()
}

fn cell_value(text: &str) -> serde_json::Value {
    match text.parse::<serde_json::Number>() {
        Ok(number) => serde_json::Value::Number(number),
        Err(_) if text.is_empty() => serde_json::Value::Null,
        Err(_) => serde_json::Value::String(text.to_owned()),
    }
}

/// A line of progress.csv.
pub fn progress_line(index: usize, row: &Row) -> anyhow::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(std::iter::once(index.to_string()).chain(row.iter().cloned()))?;
    Ok(writer.into_inner()?)
}

/// Rows finished before. A line torn by a kill, or not of this sweep, is left out and its run made again.
pub fn read_progress(folder: &Path, points: usize) -> anyhow::Result<BTreeMap<usize, Row>> {
    let path = folder.join("progress.csv");
    if !path.exists() {
        return Ok(BTreeMap::new());
    }
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_path(&path)?;
    let whole = reader.records().filter_map(Result::ok).filter(|record| record.len() == COLUMNS.len() + 1);
    let rows = whole.filter_map(|record| {
        let index = record[0].parse::<usize>().ok().filter(|index| *index < points)?;
        let has_sample = sample_path(folder, index).exists();
        has_sample.then(|| (index, record.iter().skip(1).map(str::to_owned).collect()))
    });
    Ok(rows.collect())
}

pub fn write_progress(folder: &Path, rows: &BTreeMap<usize, Row>) -> anyhow::Result<()> {
    write_file(&folder.join("progress.csv"), |output| {
        rows.iter().try_for_each(|(index, row)| Ok(output.write_all(&progress_line(*index, row)?)?))
    })
}

pub fn write_results(folder: &Path, rows: &BTreeMap<usize, Row>) -> anyhow::Result<()> {
    write_file(&folder.join("results.csv"), |output| {
        let mut writer = csv::Writer::from_writer(output);
        writer.write_record(COLUMNS)?;
        rows.values().try_for_each(|row| writer.write_record(row))?;
        Ok(writer.flush()?)
    })
}

fn sample_path(folder: &Path, index: usize) -> PathBuf {
    folder.join("samples").join(format!("{index}.json"))
}

/// Keeps what the distributions are drawn from; written before the run is noted as done.
pub fn write_sample(folder: &Path, index: usize, sample: &Sample) -> anyhow::Result<()> {
    write_file(&sample_path(folder, index), |output| Ok(serde_json::to_writer(output, sample)?))
}

/// The samples of all runs that are done.
pub fn read_samples(folder: &Path, rows: &BTreeMap<usize, Row>) -> anyhow::Result<BTreeMap<usize, Sample>> {
    let read = |index: usize| -> anyhow::Result<(usize, Sample)> {
        let path = sample_path(folder, index);
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
        Ok((index, serde_json::from_str(&text).with_context(|| format!("`{}` is damaged", path.display()))?))
    };
    rows.keys().map(|&index| read(index)).collect()
}
