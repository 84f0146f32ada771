//! What a sweep shows: tables on the terminal, and pictures of times against load and of distributions at each load.

use crate::sweep::grid::{Axis, Point, Settings};
use crate::sweep::rows::{Row, value};
use rota_core::Span;
use rota_report::{Distribution, Line, LineChart, LinePoint, Sample, SweepPage, SweepPart};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

/// Everything there is to show.
pub struct Results<'r> {
    pub settings: &'r Settings,
    pub points: &'r [Point],
    pub rows: &'r BTreeMap<usize, Row>,
    pub samples: &'r BTreeMap<usize, Sample>,
}

/// A metric drawn against the load.
struct Chart {
    column: &'static str,
    file_name: &'static str,
    words: &'static str,
}

/// The charts of an axis.
fn charts(axis: Axis) -> &'static [Chart] {
    match axis {
        Axis::Rate => &[Chart { column: "jct_mean_s", file_name: "jct-against-load", words: "mean JCT" }],
        Axis::Jobs => &[
            Chart { column: "makespan_s", file_name: "makespan-against-jobs", words: "makespan" },
            Chart { column: "jct_mean_s", file_name: "jct-against-jobs", words: "mean JCT" },
        ],
    }
}

/// One workload size of a chart with rates along its axis; all sizes at once where the axis is their number.
fn chart_sizes(settings: &Settings) -> Vec<Option<u32>> {
    if settings.trace.is_some() || settings.axis() == Axis::Jobs {
        vec![None]
    } else {
        settings.jobs.iter().copied().map(Some).collect()
    }
}

/// The loads that any line has a point at, in order.
fn loads_of(lines: &[Line]) -> Vec<f64> {
    let mut loads = lines.iter().flat_map(|line| &line.points).map(|point| point.x).collect::<Vec<_>>();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    loads
}

impl Results<'_> {
    /// A metric over the seeds of each policy at each x, for one cluster and, with rates along the axis, one number of jobs.
    fn lines(&self, cluster: &str, jobs: Option<u32>, column: &str) -> Vec<Line> {
        let x_of = |point: &Point| match self.settings.axis() {
            Axis::Rate => point.rate.unwrap_or(0.0),
            Axis::Jobs => f64::from(point.workload_jobs.unwrap_or(0)),
        };
        let is_here = |point: &&Point| point.cluster == cluster && (jobs.is_none() || point.workload_jobs == jobs);
        let line = |policy: &String| {
            let mut by_x: Vec<(f64, Vec<f64>)> = Vec::new();
            for point in self.points.iter().filter(is_here).filter(|point| point.policy == *policy) {
                let Some(found) = self.rows.get(&point.index).and_then(|row| value(row, column)) else { continue };
                let x = x_of(point);
                match by_x.iter_mut().find(|(known, _)| known.total_cmp(&x).is_eq()) {
                    Some((_, values)) => values.push(found),
                    None => by_x.push((x, vec![found])),
                }
            }
            by_x.sort_by(|a, b| a.0.total_cmp(&b.0));
            let points = by_x.into_iter().map(|(x, values)| LinePoint::over(x, &values)).collect();
            Line { name: policy.clone(), points }
        };
        self.settings.policies.iter().map(line).collect()
    }

    /// Writes all pictures, and the report that holds them all; returns the number of pictures.
    pub fn write_charts(&self, folder: &Path) -> anyhow::Result<usize> {
        let mut count = 0;
        let mut page = self.page_without_pictures();
        let sizes = chart_sizes(self.settings);
        for (number, cluster) in self.settings.clusters.iter().enumerate() {
            for (position, jobs) in sizes.iter().enumerate() {
                for chart in charts(self.settings.axis()) {
                    let mut name = chart.file_name.to_owned();
                    if self.settings.clusters.len() > 1 {
                        write!(name, "-cluster-{number}")?;
                    }
                    if sizes.len() > 1 {
                        write!(name, "-jobs-{position}")?;
                    }
                    let title =
                        format!("{}{} on {cluster}, {}", chart.words[..1].to_uppercase(), &chart.words[1..], self.what(*jobs));
                    let lines = self.lines(cluster, *jobs, chart.column);
                    self.add_columns(&mut page, chart, cluster, *jobs, &lines);
                    let chart = LineChart {
                        title,
                        x_name: self.settings.axis().words().to_owned(),
                        y_name: chart.words.to_owned(),
                        lines,
                    };
                    rota_report::write_lines(folder, &name, &chart)?;
                    page.parts.push(SweepPart::Lines(chart));
                    count += 1;
                }
            }
            count += self.write_distributions(folder, number, cluster, &mut page)?;
        }
        rota_report::write_sweep_page(folder, &page)?;
        Ok(count)
    }

    /// Writes the distributions at every load of a cluster, seeds put together.
    fn write_distributions(&self, folder: &Path, number: usize, cluster: &str, page: &mut SweepPage) -> anyhow::Result<usize> {
        let mut count = 0;
        for (jobs, rate) in self.settings.workloads() {
            let is_here = |point: &&Point| point.cluster == cluster && point.workload_jobs == jobs && point.rate == rate;
            let here = self.points.iter().filter(is_here).collect::<Vec<_>>();
            let distribution = |policy: &String| {
                let of_policy = here.iter().filter(|point| point.policy == *policy);
                let samples = of_policy.filter_map(|point| self.samples.get(&point.index).cloned()).collect::<Vec<_>>();
                Distribution { name: policy.clone(), sample: Sample::pooled(&samples) }
            };
            let lines = self.settings.policies.iter().map(distribution).collect::<Vec<_>>();
            let mut name = String::new();
            if self.settings.clusters.len() > 1 {
                write!(name, "-cluster-{number}")?;
            }
            if let Some(jobs) = jobs.filter(|_| self.settings.jobs.len() > 1) {
                write!(name, "-jobs-{jobs}")?;
            }
            let mut at = cluster.to_owned();
            if let Some(rate) = rate {
                write!(name, "-rate-{rate}")?;
                write!(at, ", {rate} jobs an hour")?;
            }
            let at = format!("{at}, {}", self.what(jobs));
            rota_report::write_distributions(&folder.join("distributions"), &name, &at, &lines)?;
            page.parts.push(SweepPart::Distributions(at, lines));
            count += 2;
        }
        Ok(count)
    }

    /// The report with its title and a row for each policy.
    fn page_without_pictures(&self) -> SweepPage {
        let Settings { policies, clusters, seeds, .. } = self.settings;
        let done = self.points.iter().filter(|point| self.rows.contains_key(&point.index)).count();
        SweepPage {
            title: format!("Sweep of {} policies on {}", policies.len(), clusters.join(" and ")),
            subtitle: format!("{done} of {} runs, seeds: {}", self.points.len(), seeds.len()),
            rows: policies.iter().map(|policy| (policy.clone(), Vec::new())).collect(),
            ..SweepPage::default()
        }
    }

    /// Adds a column for each load of a chart, and a sentence about the best policy there.
    fn add_columns(&self, page: &mut SweepPage, chart: &Chart, cluster: &str, jobs: Option<u32>, lines: &[Line]) {
        for load in loads_of(lines) {
            let load_words = match self.settings.axis() {
                _ if self.settings.trace.is_some() => "the trace".to_owned(),
                Axis::Rate => format!("{load} {}", self.settings.axis().unit()),
                Axis::Jobs => format!("{load} jobs"),
            };
            let mut place = format!("{}, {load_words}", chart.words);
            if self.settings.clusters.len() > 1 {
                let _ = write!(place, ", {cluster}");
            }
            if let Some(jobs) = jobs.filter(|_| self.settings.jobs.len() > 1) {
                let _ = write!(place, ", {jobs} jobs");
            }
            let mean = |line: &Line| line.points.iter().find(|point| point.x.total_cmp(&load).is_eq()).map(|point| point.mean);
            for ((_, row), line) in page.rows.iter_mut().zip(lines) {
                row.push(mean(line));
            }
            let means = lines.iter().filter_map(|line| Some((line.name.as_str(), mean(line)?))).collect::<Vec<_>>();
            page.verdicts.extend(rota_report::verdict_of_means(&place, &means));
            page.columns.push(place);
        }
    }

    /// The workload in words.
    fn what(&self, jobs: Option<u32>) -> String {
        let mut text = match (jobs, &self.settings.trace) {
            (Some(jobs), _) => format!("{jobs} jobs"),
            (None, Some(_)) => "the trace".to_owned(),
            (None, None) => "all jobs there at the start".to_owned(),
        };
        if let Some(window) = &self.settings.window {
            text.push_str(" (measured: ");
            text.push_str(window);
            text.push(')');
        }
        match self.settings.seeds.len() {
            1 => text + ", one seed",
            count => format!("{text}, {count} seeds"),
        }
    }

    /// The metrics with one row a load and one column a policy.
    pub fn table(&self) -> anyhow::Result<String> {
        let mut text = String::new();
        let width = self.settings.policies.iter().map(String::len).max().unwrap_or(0).max(10);
        for cluster in &self.settings.clusters {
            for jobs in chart_sizes(self.settings) {
                for chart in charts(self.settings.axis()) {
                    writeln!(text, "{} on {cluster}, {}", chart.words, self.what(jobs))?;
                    write!(text, "{:>12}", self.settings.axis().unit())?;
                    self.settings.policies.iter().try_for_each(|policy| write!(text, "  {policy:>width$}"))?;
                    text.push('\n');
                    self.table_rows(&mut text, &self.lines(cluster, jobs, chart.column), width)?;
                    text.push('\n');
                }
            }
        }
        Ok(text)
    }

    fn table_rows(&self, text: &mut String, lines: &[Line], width: usize) -> anyhow::Result<()> {
        for load in loads_of(lines) {
            write!(text, "{:>12}", if self.settings.trace.is_some() { "trace".to_owned() } else { load.to_string() })?;
            for line in lines {
                let point = line.points.iter().find(|point| point.x.total_cmp(&load).is_eq());
                let shown = point.and_then(|point| Span::from_seconds(point.mean)).map(|span| span.to_string());
                write!(text, "  {:>width$}", shown.unwrap_or_default())?;
            }
            text.push('\n');
        }
        Ok(())
    }
}
