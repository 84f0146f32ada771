//! Metrics as a fold over events; tables, CSV, JSON, SVG and PNG plots, and a report in one HTML file.
//!
//! A [`Recorder`] watches the events of a run and leaves a [`Run`]; [`summarise`] turns it into a [`Summary`];
//! everything else shows these two. Nothing here decides anything, reads a clock or touches a file, except
//! [`write_report`], which writes into the directory it is given.
//!
//! The rooms: `numbers` (what is computed of a run), `drawing` (the parts of pictures), `plot` (one file a picture), `documents` (files,
//! tables and the page).

mod documents;
mod drawing;
mod numbers;
mod plot;
mod record;
mod units;

use documents::{files, jobs_csv, pack, page};
use drawing::{axis, lanes, palette, png, rows, svg};
use numbers::{billing, fairness, gauges, metric, sample, series, summary, verdict};

pub use documents::files::{ReportError, folder_names};
pub use documents::jobs_csv::write_jobs_csv;
pub use documents::page::{LivePage, live_page};
pub use documents::report::{write_distributions, write_lines, write_report};
pub use documents::sweep_page::{SweepPage, SweepPart, write_sweep_page};
pub use documents::table::{comparison_table, summary_table};
pub use documents::terminal::terminal_gantt;
pub use drawing::png::DrawError;
pub use numbers::fairness::fairness_ratios;
pub use numbers::gauges::{Gauges, Origin, Reading};
pub use numbers::sample::Sample;
pub use numbers::summary::{RunMeta, Summary, summarise};
pub use numbers::verdict::{verdict, verdict_of_means};
pub use plot::gantt_gpus::gantt_by_gpu;
pub use plot::lines::{Line, LineChart, LinePoint};
pub use plot::points::{Look, PointChart, PointSeries, point_chart};
pub use plot::sweep_cdf::{Distribution, wait_distributions};
pub use record::{Absence, Bar, BarEnd, GpuRecord, JobOutcome, JobStatus, Recorder, RecorderOptions, Run, Timeline};
