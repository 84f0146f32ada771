//! The schedule in a terminal: a row a GPU (or node, or group of nodes), a column a slice of time.
//!
//! With few GPUs each bar shows its job; rows that stand for several GPUs show how many of them were allocated.

use crate::record::{Bar, Run, Timeline};
use crate::rows::{RowKind, Rows};
use crate::series::{Slices, equal_borders};
use crate::units::duration;
use rota_core::{Bound, MilliGpu, Time};
use std::fmt::Write;
use std::ops::Range;

const LEVELS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws the schedule in `width` columns and at most `rows_max` rows.
pub fn terminal_gantt(run: &Run, bound: &Bound, width: usize, rows_max: usize) -> String {
    let Some(timeline) = run.timeline.as_ref() else {
        return "no timeline was recorded\n".to_owned();
    };
    if run.until <= run.from || timeline.bars.is_empty() {
        return "no job ran\n".to_owned();
    }
    let rows = Rows::of(bound, rows_max);
    let names = (0..rows.len()).map(|row| shortened(&rows.name(bound, row))).collect::<Vec<_>>();
    let names_width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let columns = width.saturating_sub(names_width + 3).max(10);
    let mut lines = levels(timeline, run, bound, &rows, columns);
    draw_named_bars(&mut lines, timeline, run, bound, &rows);
    let mut text = String::new();
    for (name, line) in names.iter().zip(lines) {
        let _ = writeln!(text, "{name:>names_width$} │{}│", line.into_iter().collect::<String>());
    }
    let end = duration(run.until.seconds());
    let start = duration(run.from.seconds());
    let room = columns.saturating_sub(start.chars().count());
    let _ = writeln!(text, "{:names_width$}  {start}{end:>room$}", "");
    if rows.kind != RowKind::Gpus {
        let _ = writeln!(text, "{:names_width$}  {}, height = share of its GPUs allocated", "", rows.describe());
    }
    text
}

/// Names can be anything: control characters would move the cursor.
fn shortened(name: &str) -> String {
    name.chars().map(|character| if character.is_control() { '?' } else { character }).take(16).collect()
}

/// Which columns a bar covers.
fn columns_of(bar: &Bar, run: &Run, columns: usize) -> Range<usize> {
    let column = |time: Time| (time.since(run.from).seconds() / run.makespan().seconds() * columns as f64).round() as usize;
    column(bar.start)..column(bar.end).min(columns)
}

/// Whether a bar is drawn with its name rather than as a height.
fn is_named(bar: &Bar, run: &Run, bound: &Bound, rows: &Rows, columns: usize) -> bool {
    let is_whole = bound.job(bar.job).share == MilliGpu::WHOLE;
    rows.kind == RowKind::Gpus && is_whole && columns_of(bar, run, columns).len() >= 3
}

/// Each row as heights of what is allocated, without the bars that are named.
fn levels(timeline: &Timeline, run: &Run, bound: &Bound, rows: &Rows, columns: usize) -> Vec<Vec<char>> {
    let borders = equal_borders(run.from, run.until, columns);
    let mut slices = (0..rows.len()).map(|_| Slices::new(&borders)).collect::<Vec<_>>();
    for bar in timeline.bars.iter().filter(|bar| !is_named(bar, run, bound, rows, columns)) {
        let share = bound.job(bar.job).share.fraction();
        for &gpu in timeline.gpus(bar) {
            let row = rows.of_gpu(gpu);
            slices[row].add(bar.start.seconds(), bar.end.seconds(), share / f64::from(rows.sizes[row]));
        }
    }
    let level = |mean: f64| LEVELS[if mean > 1e-6 { (mean * 8.0).round().clamp(1.0, 8.0) as usize } else { 0 }];
    slices.iter().map(|slices| slices.means().into_iter().map(level).collect()).collect()
}

/// Bars of whole GPUs that are long enough, with the job's name where it fits.
fn draw_named_bars(lines: &mut [Vec<char>], timeline: &Timeline, run: &Run, bound: &Bound, rows: &Rows) {
    let columns = lines.first().map_or(0, Vec::len);
    for bar in timeline.bars.iter().filter(|bar| is_named(bar, run, bound, rows, columns)) {
        let name = shortened(&bound.job(bar.job).display_id());
        let shade = if bar.job.0.is_multiple_of(2) { '█' } else { '▓' };
        for &gpu in timeline.gpus(bar) {
            let cells = &mut lines[gpu.index()][columns_of(bar, run, columns)];
            cells.fill(shade);
            if name.chars().count() + 3 <= cells.len() {
                for (cell, character) in cells[1..].iter_mut().zip(format!(" {name} ").chars()) {
                    *cell = character;
                }
            }
        }
    }
}
