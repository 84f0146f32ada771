//! The schedule by GPU. Small schedules show every bar with its job's name, and jobs that share a GPU as lanes of it.
//! Large ones show, for each row and slice of time, how much was allocated and to which kind of job.

use super::{WIDTH, setting};
use crate::axis::{Scale, time_axis};
use crate::lanes::place;
use crate::palette::{AWAY, FAILED, JobColours, WAITING, is_dark, tint};
use crate::record::{BarEnd, Run, Timeline};
use crate::rows::{RowKind, Rows};
use crate::series::{Slices, equal_borders};
use crate::svg::{Anchor, Frame, INK, Style, Svg, compact};
use crate::units::plural;
use rota_core::{Bound, Span};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Beyond this many bars or rows their names could not be read, and a picture of slices says more.
const BARS_MAX: usize = 3000;
const BAR_ROWS_MAX: usize = 64;
const SLICE_ROWS_MAX: usize = 128;
/// Bounds the size of the file: each cell costs some twenty bytes at most.
const CELLS_MAX: usize = 60_000;
const SLICES_MAX: usize = 900;
/// Steps of lightness of a cell.
const LEVELS: f64 = 6.0;

/// The schedule of a run that has a timeline, as an SVG.
pub fn gantt_by_gpu(policy: &str, run: &Run, bound: &Bound) -> String {
    let mut svg = Svg::new(WIDTH);
    let title = format!("Schedule by GPU: {policy}");
    let Some(timeline) = run.timeline.as_ref().filter(|timeline| !timeline.bars.is_empty()) else {
        let y = svg.head(&title, &setting(run, bound));
        let reason = if run.timeline.is_some() { "no job ran" } else { "no timeline was recorded in this run" };
        svg.empty_state(Frame { x: 24.0, y, width: WIDTH - 48.0, height: 160.0 }, reason);
        return svg.finish(y + 184.0);
    };
    let gpu_bars = timeline.bars.iter().map(|bar| timeline.gpus(bar).len()).sum::<usize>();
    let colours = JobColours::of(bound);
    let chart = if gpu_bars <= BARS_MAX && bound.cluster.gpus.len() <= BAR_ROWS_MAX {
        let rows = Rows::of(bound, BAR_ROWS_MAX);
        let height = (520.0 / rows.len() as f64).clamp(12.0, 44.0);
        Chart { run, bound, timeline, colours, frame: Frame { height: height * rows.len() as f64, ..FRAME }, rows }
    } else {
        let rows = Rows::of(bound, SLICE_ROWS_MAX);
        let height = (560.0 / rows.len() as f64).clamp(5.0, 20.0);
        Chart { run, bound, timeline, colours, frame: Frame { height: height * rows.len() as f64, ..FRAME }, rows }
    };
    if gpu_bars <= BARS_MAX && chart.rows.kind == RowKind::Gpus && bound.cluster.gpus.len() <= BAR_ROWS_MAX {
        chart.draw_bars(svg, &title)
    } else {
        chart.draw_slices(svg, &title)
    }
}

const FRAME: Frame = Frame { x: 120.0, y: 0.0, width: WIDTH - 120.0 - 32.0, height: 0.0 };

struct Chart<'a> {
    run: &'a Run,
    bound: &'a Bound,
    timeline: &'a Timeline,
    colours: JobColours,
    rows: Rows,
    frame: Frame,
}

impl Chart<'_> {
    fn draw_bars(mut self, mut svg: Svg, title: &str) -> String {
        let subtitle = format!("{}; {}", setting(self.run, self.bound), self.colours.meaning());
        let y = svg.head(title, subtitle.trim_end_matches("; "));
        self.frame.y = svg.legend(y, &self.bar_legend()) + 4.0;
        let scale = self.scale();
        self.draw_rows(&mut svg);
        time_axis(&mut svg, self.frame, scale, "time");
        self.draw_absences(&mut svg, scale);
        let row_height = self.frame.height / self.rows.len() as f64;
        let gap = if row_height > 16.0 { 2.0 } else { 1.0 };
        for placed in place(self.timeline, self.bound) {
            let bar = &self.timeline.bars[placed.bar];
            let lane = |milli: u32| (row_height - gap) * f64::from(milli) / 1000.0;
            let x = scale.x(self.frame, bar.start.seconds());
            let height = lane(placed.share_milli);
            let row_bottom = self.frame.y + row_height * (self.rows.of_gpu(placed.gpu) + 1) as f64 - gap / 2.0;
            let width = (scale.x(self.frame, bar.end.seconds()) - x).max(0.8);
            let frame = Frame { x, y: row_bottom - lane(placed.offset_milli) - height, width, height };
            let colour = JobColours::colour(self.colours.index(self.bound, bar.job));
            svg.rect_with(frame, colour, r##" stroke="#fff" stroke-width="0.8""##);
            self.draw_ends(&mut svg, scale, placed.bar, frame);
            let style = Style::LABEL.sized(if height < 13.0 { 9.0 } else { 11.0 }).anchored(Anchor::Middle);
            let style = style.coloured(if is_dark(colour) { "#fff" } else { INK });
            let label = self.bound.job(bar.job).display_id();
            let solid_x = scale.x(self.frame, (bar.start + bar.overhead).seconds());
            if height >= 9.0 && style.width(&label) + 5.0 <= x + width - solid_x {
                svg.text(f64::midpoint(solid_x, x + width), frame.y + height / 2.0 + style.size * 0.36, style, &label);
            }
        }
        let height = self.frame.bottom() + 54.0;
        svg.finish(height)
    }

    /// The restart at the beginning of a bar, and how it ended where it did not end well.
    fn draw_ends(&self, svg: &mut Svg, scale: Scale, bar: usize, frame: Frame) {
        let bar = &self.timeline.bars[bar];
        if bar.overhead > Span::ZERO {
            let width = scale.x(self.frame, (bar.start + bar.overhead).seconds()) - frame.x;
            svg.rect_with(Frame { width: width.min(frame.width), ..frame }, "#fff", r#" fill-opacity="0.55""#);
        }
        let edge = match bar.ending {
            BarEnd::Failed | BarEnd::Evicted => FAILED,
            BarEnd::Preempted => INK,
            BarEnd::Finished | BarEnd::Cut => return,
        };
        let width = 2.5_f64.min(frame.width);
        svg.rect(Frame { x: frame.x + frame.width - width, width, ..frame }, edge);
    }

    fn bar_legend(&self) -> Vec<(String, String)> {
        let mut entries = self.colours.legend().to_vec();
        let any = |ending: &[BarEnd]| self.timeline.bars.iter().any(|bar| ending.contains(&bar.ending));
        let further = [
            (self.timeline.bars.iter().any(|bar| bar.overhead > Span::ZERO), WAITING, "pale start: restart"),
            (any(&[BarEnd::Preempted]), INK, "dark edge: preempted"),
            (any(&[BarEnd::Failed, BarEnd::Evicted]), FAILED, "red edge: failed or node lost"),
            (!self.run.absences.is_empty(), AWAY, "node away"),
        ];
        entries.extend(further.iter().filter(|entry| entry.0).map(|&(_, colour, words)| (colour.to_owned(), words.to_owned())));
        entries
    }

    fn draw_slices(mut self, mut svg: Svg, title: &str) -> String {
        let columns = (CELLS_MAX / self.rows.len()).clamp(60, SLICES_MAX);
        let bars = plural(self.timeline.bars.len(), "bar");
        let subtitle = format!(
            "{}\n{bars} in {columns} slices of time, {}; strength of colour: share of its GPUs allocated{}",
            setting(self.run, self.bound),
            self.rows.describe(),
            if self.colours.legend().is_empty() { "" } else { "; hue: what most of it went to" }
        );
        let y = svg.head(title, &subtitle);
        let mut entries = self.colours.legend().to_vec();
        if entries.is_empty() {
            entries.extend(
                [0.25, 0.5, 0.75, 1.0].map(|share| (tint(JobColours::colour(0), share), format!("{:.0} %", share * 100.0))),
            );
        }
        if !self.run.absences.is_empty() {
            entries.push((AWAY.to_owned(), "node away".to_owned()));
        }
        self.frame.y = svg.legend(y, &entries) + 4.0;
        let scale = self.scale();
        time_axis(&mut svg, self.frame, scale, "time");
        self.draw_rows(&mut svg);
        self.draw_absences(&mut svg, scale);
        for (colour, path) in self.cells(columns) {
            svg.path(&path, &format!(r#"fill="{colour}""#));
        }
        let height = self.frame.bottom() + 54.0;
        svg.finish(height)
    }

    /// Outlines of the cells of each colour, neighbours of one colour merged.
    fn cells(&self, columns: usize) -> BTreeMap<String, String> {
        let borders = equal_borders(self.run.from, self.run.until, columns);
        let mut slices = (0..self.rows.len() * JobColours::COUNT).map(|_| None).collect::<Vec<Option<Slices<'_>>>>();
        for bar in &self.timeline.bars {
            let colour = self.colours.index(self.bound, bar.job);
            let share = self.bound.job(bar.job).share.fraction();
            for &gpu in self.timeline.gpus(bar) {
                let row = self.rows.of_gpu(gpu);
                let height = share / f64::from(self.rows.sizes[row]);
                let slices = slices[row * JobColours::COUNT + colour].get_or_insert_with(|| Slices::new(&borders));
                slices.add(bar.start.seconds(), bar.end.seconds(), height);
            }
        }
        let row_height = self.frame.height / self.rows.len() as f64;
        let column_width = self.frame.width / columns as f64;
        let mut paths: BTreeMap<String, String> = BTreeMap::new();
        for (row, slices) in slices.chunks(JobColours::COUNT).enumerate() {
            let means = slices.iter().map(|slices| slices.as_ref().map(Slices::means)).collect::<Vec<_>>();
            let cells = (0..columns).map(|column| cell(&means, column)).collect::<Vec<_>>();
            let (y, height) = (compact(self.frame.y + row_height * row as f64 + 0.5), compact(row_height - 1.0));
            let mut column = 0;
            for run in cells.chunk_by(|a, b| a == b) {
                if let Some((colour, level)) = run[0] {
                    let path = paths.entry(tint(JobColours::colour(colour), f64::from(level) / LEVELS)).or_default();
                    let (x, width) =
                        (compact(self.frame.x + column_width * column as f64), compact(column_width * run.len() as f64));
                    let _ = write!(path, "M{x} {y}h{width}v{height}h-{width}z");
                }
                column += run.len();
            }
        }
        paths
    }

    fn scale(&self) -> Scale {
        Scale::Linear { from: self.run.from.seconds(), to: self.run.until.seconds() }
    }

    /// Names at the left, and lines between nodes where a row is a GPU.
    fn draw_rows(&self, svg: &mut Svg) {
        let row_height = self.frame.height / self.rows.len() as f64;
        let style = Style::LABEL.anchored(Anchor::End);
        let every = (13.0 / row_height).ceil().max(1.0) as usize;
        for row in 0..self.rows.len() {
            let y = self.frame.y + row_height * row as f64;
            svg.rect(Frame { y, height: row_height - 1.0, ..self.frame }, "#f6f8fa");
            if row > 0 && self.rows.kind == RowKind::Gpus && self.rows.nodes[row] != self.rows.nodes[row - 1] {
                svg.line((24.0, y - 0.5), (self.frame.right(), y - 0.5), "#b8c2cc");
            }
            if row % every == 0 {
                let name = style.fitted(&self.rows.name(self.bound, row), self.frame.x - 32.0);
                svg.text(self.frame.x - 8.0, y + row_height / 2.0 + 4.0, style, &name);
            }
        }
    }

    fn draw_absences(&self, svg: &mut Svg, scale: Scale) {
        let row_height = self.frame.height / self.rows.len() as f64;
        for absence in &self.run.absences {
            let x = scale.x(self.frame, absence.from.seconds());
            let width = (scale.x(self.frame, absence.until.seconds()) - x).max(0.8);
            let gpus = self.bound.cluster.nodes[absence.node.index()].gpus.clone();
            let mut rows = gpus.map(|gpu| self.rows.of_gpu(rota_core::GpuId(gpu))).collect::<Vec<_>>();
            rows.dedup();
            for row in rows {
                let y = self.frame.y + row_height * row as f64;
                svg.rect(Frame { x, y, width, height: row_height - 1.0 }, AWAY);
            }
        }
    }
}

/// The strongest colour in a column of a row, and how much of the row is allocated in steps of lightness.
fn cell(means: &[Option<Vec<f64>>], column: usize) -> Option<(usize, u8)> {
    let values = || means.iter().enumerate().filter_map(|(colour, means)| Some((colour, means.as_ref()?[column])));
    let total = values().map(|(_, value)| value).sum::<f64>();
    let (colour, _) = values().reduce(|best, next| if next.1 > best.1 { next } else { best })?;
    // The faintest step is kept for "hardly anything", so that short jobs do not vanish.
    let level = if total > 1e-6 { (total * LEVELS).round().clamp(1.0, LEVELS) as u8 } else { return None };
    Some((colour, level))
}
