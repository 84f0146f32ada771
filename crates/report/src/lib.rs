//! Metrics as a fold over events; tables, CSV, JSON, SVG and PNG plots, and a report in one HTML file.
//!
//! A [`Recorder`] watches the events of a run and leaves a [`Run`]; [`summarise`] turns it into a [`Summary`];
//! everything else shows these two. Nothing here decides anything, reads a clock or touches a file, except
//! [`write_report`], which writes into the directory it is given.

mod axis;
mod billing;
mod fairness;
mod files;
mod gauges;
mod jobs_csv;
mod lanes;
mod metric;
mod pack;
mod page;
mod palette;
mod plot;
mod png;
mod record;
mod report;
mod rows;
mod sample;
mod schedule_bars;
mod series;
mod summary;
mod svg;
mod sweep_page;
mod table;
mod terminal;
mod units;
mod verdict;

pub use fairness::fairness_ratios;
pub use files::{ReportError, folder_names};
pub use gauges::{Gauges, Origin, Reading};
pub use jobs_csv::write_jobs_csv;
pub use page::{LivePage, live_page};
pub use plot::gantt_gpus::gantt_by_gpu;
pub use plot::lines::{Line, LineChart, LinePoint};
pub use plot::points::{Look, PointChart, PointSeries, point_chart};
pub use plot::sweep_cdf::Distribution;
pub use png::DrawError;
pub use record::{Absence, Bar, BarEnd, GpuRecord, JobOutcome, JobStatus, Recorder, RecorderOptions, Run, Timeline};
pub use report::{write_distributions, write_lines, write_report};
pub use sample::Sample;
pub use schedule_bars::{ScheduleBar, ScheduleBars, schedule_bars};
pub use summary::{RunMeta, Summary, summarise};
pub use sweep_page::{SweepPage, SweepPart, write_sweep_page};
pub use table::{comparison_table, summary_table};
pub use terminal::terminal_gantt;
pub use verdict::{verdict, verdict_of_means};
