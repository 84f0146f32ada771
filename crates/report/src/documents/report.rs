//! The report: all files of one run or of several compared, in one directory.

use crate::files::{Folder, ReportError, folder_names};
use crate::plot::Named;
use crate::plot::lines::{LineChart, lines_chart};
use crate::plot::sweep_cdf::{Distribution, fairness_distribution, jct_distributions};
use crate::plot::{cdf, comparison, gantt_gpus, gantt_jobs, over_time};
use crate::record::Run;
use crate::summary::{RunMeta, Summary};
use rota_core::Bound;
use std::io;
use std::path::{Path, PathBuf};

/// Writes everything there is to see about one or several runs of the same jobs; returns the files written.
///
/// One run: `summary.json`, `jobs.csv`, `gantt`, `gantt-jobs`, `utilisation` and `jct-cdf` as SVG and PNG, and
/// `report.html`. Several: `summary.json` as a list, `comparison`, `utilisation`, `jct-cdf` and `report.html` for all of
/// them, and a folder a policy with `jobs.csv`, `gantt` and `gantt-jobs`. No run: nothing.
pub fn write_report(directory: &Path, runs: &[(Run, Summary, RunMeta)], bound: &Bound) -> Result<Vec<PathBuf>, ReportError> {
    let mut written = Vec::new();
    if runs.is_empty() {
        return Ok(written);
    }
    let mut folder = Folder::open(directory, &mut written)?;
    let named = runs.iter().map(|(run, _, meta)| Named { policy: &meta.policy, run }).collect::<Vec<_>>();
    if let [(run, summary, _)] = runs {
        write_json(&mut folder, summary)?;
        write_schedule(&mut folder, &named[0], run, bound)?;
    } else {
        let summaries = runs.iter().map(|(_, summary, _)| summary.clone()).collect::<Vec<_>>();
        write_json(&mut folder, &summaries)?;
        folder.write_picture("comparison", &comparison::comparison(&summaries, bound))?;
        let policies = named.iter().map(|named| named.policy).collect::<Vec<_>>();
        for (name, one) in folder_names(&policies).iter().zip(&named) {
            write_schedule(&mut folder.subfolder(name)?, one, one.run, bound)?;
        }
    }
    folder.write_picture("utilisation", &over_time::utilisation_over_time(&named, bound))?;
    folder.write_picture("jct-cdf", &cdf::distributions(&named, bound))?;
    let page = crate::page::page(runs, bound);
    let page = page.map_err(|source| ReportError::File { path: folder.path.join("report.html"), source })?;
    folder.write("report.html", page.as_bytes())?;
    Ok(written)
}

/// Writes a chart of lines as `name.svg` and `name.png`.
pub fn write_lines(directory: &Path, name: &str, chart: &LineChart) -> Result<(), ReportError> {
    let mut written = Vec::new();
    Folder::open(directory, &mut written)?.write_picture(name, &lines_chart(chart))
}

/// Writes the distributions at one load of a sweep as `jct-cdf` and `ftf-cdf`, each with `suffix` behind it, as SVG and PNG.
pub fn write_distributions(directory: &Path, suffix: &str, setting: &str, lines: &[Distribution]) -> Result<(), ReportError> {
    let mut written = Vec::new();
    let mut folder = Folder::open(directory, &mut written)?;
    let title = format!("Completion times on {setting}");
    folder.write_picture(&format!("jct-cdf{suffix}"), &jct_distributions(&title, lines))?;
    let title = format!("Finish-time fairness on {setting}");
    folder.write_picture(&format!("ftf-cdf{suffix}"), &fairness_distribution(&title, lines))
}

fn write_json(folder: &mut Folder<'_>, value: &impl serde::Serialize) -> Result<(), ReportError> {
    let in_file = |source| ReportError::File { path: folder.path.join("summary.json"), source };
    let mut text = serde_json::to_string_pretty(value).map_err(io::Error::from).map_err(in_file)?;
    text.push('\n');
    folder.write("summary.json", text.as_bytes())
}

/// The files about one schedule: its jobs, and its Gantt chart.
fn write_schedule(folder: &mut Folder<'_>, named: &Named<'_>, run: &Run, bound: &Bound) -> Result<(), ReportError> {
    let mut csv = Vec::new();
    let in_file = |error: csv::Error| ReportError::File { path: folder.path.join("jobs.csv"), source: io::Error::other(error) };
    crate::jobs_csv::write_jobs_csv(run, bound, &mut csv).map_err(in_file)?;
    folder.write("jobs.csv", &csv)?;
    folder.write_picture("gantt", &gantt_gpus::gantt_by_gpu(named.policy, run, bound))?;
    folder.write_picture("gantt-jobs", &gantt_jobs::gantt_by_job(named.policy, run, bound))
}
