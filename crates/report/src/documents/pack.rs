//! The data of a page, packed small: columns of integers, split into byte planes, deflated, in base64.
//!
//! A column of times differs from row to row in its low bytes only, so the planes of its high bytes all but vanish.
//! What does not fit a page that opens at once is thinned to every n-th job, and the page says so.

use crate::lanes::place;
use crate::palette::JobColours;
use crate::record::{BarEnd, JobStatus, Run, Timeline};
use crate::rows::Rows;
use crate::series::{Slices, equal_borders, series};
use flate2::Compression;
use flate2::write::DeflateEncoder;
use rota_core::{Bound, GpuId, Name};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{self, Write};

/// Aim for the size of a page; the bytes that a job and a bar take in it, as measured, are in [`Grain::of`].
const PAGE_BYTES_MAX: usize = 11_000_000;
const SERIES_SLICES: usize = 2000;
const HEAT_ROWS_MAX: usize = 256;
const HEAT_SLICES: usize = 1000;
/// Stands for "never" in a column of times.
const NEVER: u32 = u32::MAX;

/// Columns one after another, and where each is.
#[derive(Default)]
pub(crate) struct Pack {
    bytes: Vec<u8>,
    columns: serde_json::Map<String, Value>,
}

impl Pack {
    /// Adds a column of integers of `width` bytes each, lowest byte plane first.
    fn column(&mut self, name: String, width: usize, values: &[u32]) {
        self.columns.insert(name, json!([width, self.bytes.len(), values.len()]));
        for plane in 0..width {
            self.bytes.extend(values.iter().map(|value| (value >> (8 * plane)) as u8));
        }
    }

    /// Adds a column of numbers.
    fn floats(&mut self, name: String, values: impl Iterator<Item = f32>) {
        self.column(name, 4, &values.map(f32::to_bits).collect::<Vec<_>>());
    }

    /// Adds texts, as the bytes of a JSON list.
    fn texts(&mut self, name: &str, texts: &[String]) {
        let bytes = serde_json::to_vec(texts).unwrap_or_default();
        self.columns.insert(name.to_owned(), json!([0, self.bytes.len(), bytes.len()]));
        self.bytes.extend(bytes);
    }

    /// Where the columns are, and all of them as base64 of a raw deflate stream.
    pub fn finish(self) -> io::Result<(Value, String)> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(6));
        encoder.write_all(&self.bytes)?;
        Ok((Value::Object(self.columns), base64(&encoder.finish()?)))
    }
}

/// Numbers that a page shows at all: one in `stride` jobs, times in whole `tick_seconds` after `origin_seconds`.
pub(crate) struct Grain {
    pub stride: usize,
    pub tick_seconds: f64,
    pub origin_seconds: f64,
}

impl Grain {
    /// The finest that fits.
    pub fn of(runs: &[&Run], bound: &Bound) -> Self {
        let cost = |run: &&Run| {
            let gangs = run.timeline.iter().flat_map(|timeline| timeline.bars.iter().map(|bar| timeline.gpus(bar).len()));
            11 * run.jobs.len() + gangs.map(|gang| 10 + gang).sum::<usize>()
        };
        let bytes = runs.iter().map(cost).sum::<usize>() + 8 * bound.jobs.len();
        let origin_seconds = runs.iter().map(|run| run.from.seconds()).reduce(f64::min).unwrap_or(0.0);
        let until_seconds = runs.iter().map(|run| run.until.seconds()).fold(origin_seconds, f64::max);
        let mut tick_seconds = 1e-3;
        while (until_seconds - origin_seconds) / tick_seconds > f64::from(u32::MAX / 2) {
            tick_seconds *= 10.0;
        }
        Self { stride: bytes.div_ceil(PAGE_BYTES_MAX).max(1), tick_seconds, origin_seconds }
    }

    fn ticks(&self, seconds: f64) -> u32 {
        ((seconds / self.tick_seconds).round().max(0.0) as u32).min(NEVER - 1)
    }

    fn moment(&self, time: rota_core::Time) -> u32 {
        self.ticks(time.seconds() - self.origin_seconds)
    }
}

/// Packs what all runs share: the jobs as they were asked for. Returns the texts that columns point into.
pub(crate) fn pack_jobs(pack: &mut Pack, bound: &Bound, grain: &Grain) -> Value {
    let jobs = bound.jobs.iter().step_by(grain.stride).collect::<Vec<_>>();
    let colours = JobColours::of(bound);
    let mut column = |name: &str, width: usize, values: Vec<u32>| pack.column(name.to_owned(), width, &values);
    column("arrival", 4, deltas(jobs.iter().map(|job| grain.moment(job.arrival))));
    column("gpus", 4, jobs.iter().map(|job| job.gpus).collect());
    column("share", 2, jobs.iter().map(|job| u32::from(job.share.0)).collect());
    column("colour", 1, jobs.iter().map(|job| colours.index(bound, job.id) as u32).collect());
    let mut kinds = Dictionary::default();
    let mut users = Dictionary::default();
    column("kind", 4, jobs.iter().map(|job| kinds.index(job.kind)).collect());
    column("user", 4, jobs.iter().map(|job| users.index(job.user)).collect());
    if jobs.iter().any(|job| job.label.is_some()) {
        pack.texts("labels", &jobs.iter().map(|job| job.display_id()).collect::<Vec<_>>());
    }
    json!({
        "kinds": kinds.texts(bound),
        "users": users.texts(bound),
        "palette": (0..JobColours::COUNT).map(JobColours::colour).collect::<Vec<_>>(),
        "legend": colours.legend(),
        "coloured_by": colours.meaning(),
    })
}

/// Packs what became of the jobs in one run, and its schedule.
pub(crate) fn pack_run(pack: &mut Pack, prefix: &str, run: &Run, bound: &Bound, grain: &Grain) {
    let rows = || run.jobs.iter().zip(&bound.jobs).step_by(grain.stride);
    let since = |time: Option<rota_core::Time>, arrival: rota_core::Time| {
        time.map_or(NEVER, |time| grain.ticks(time.since(arrival).seconds()))
    };
    let mut column = |name: &str, width: usize, values: Vec<u32>| {
        pack.column(format!("{prefix}{name}"), width, &values);
    };
    column("start", 4, rows().map(|(record, job)| since(record.first_start, job.arrival)).collect());
    column("end", 4, rows().map(|(record, job)| since(record.end, job.arrival)).collect());
    column("running", 4, rows().map(|(record, _)| grain.ticks(record.running.seconds())).collect());
    column("preemptions", 4, rows().map(|(record, _)| record.preemptions).collect());
    column("status", 1, rows().map(|(record, _)| status_code(record.status)).collect());
    // Three digits are shown; the other bits of the mantissa would only be noise to the compressor.
    let rounded = |value: f64| f32::from_bits((value as f32).to_bits() & 0xffff_f000);
    pack.floats(format!("{prefix}energy"), rows().map(|(record, _)| rounded(record.energy_joules / 3600.0)));
    if let Some(timeline) = &run.timeline {
        pack_bars(pack, prefix, timeline, bound, grain);
        if grain.stride > 1 {
            pack_heat(pack, prefix, run, timeline, bound);
        }
    }
    if let Some(curves) = series(run, bound, SERIES_SLICES) {
        let origin_seconds = grain.origin_seconds;
        pack.floats(format!("{prefix}series_seconds"), curves.seconds.iter().map(|seconds| (seconds - origin_seconds) as f32));
        pack.floats(format!("{prefix}series_utilisation"), curves.utilisation.iter().copied());
        pack.floats(format!("{prefix}series_watts"), curves.watts.iter().copied());
        pack.floats(format!("{prefix}series_waiting"), curves.waiting.iter().copied());
    }
}

/// The bars in order of start; gangs as one column of GPUs, as long as the bars' counts add up to.
fn pack_bars(pack: &mut Pack, prefix: &str, timeline: &Timeline, bound: &Bound, grain: &Grain) {
    let placed = place(timeline, bound);
    let placed = placed
        .into_iter()
        .filter(|placed| timeline.bars[placed.bar].job.index().is_multiple_of(grain.stride))
        .collect::<Vec<_>>();
    let gangs = placed.chunk_by(|a, b| a.bar == b.bar).map(|gang| (&timeline.bars[gang[0].bar], gang.len() as u32));
    let gangs = gangs.collect::<Vec<_>>();
    let mut column = |name: &str, width: usize, values: Vec<u32>| {
        pack.column(format!("{prefix}{name}"), width, &values);
    };
    column("bar_job", 4, gangs.iter().map(|(bar, _)| (bar.job.index() / grain.stride) as u32).collect());
    column("bar_start", 4, deltas(gangs.iter().map(|(bar, _)| grain.moment(bar.start))));
    // The end is rounded as the next bar's start is, so that bars which follow each other never overlap by a tick.
    column("bar_length", 4, gangs.iter().map(|(bar, _)| grain.moment(bar.end) - grain.moment(bar.start)).collect());
    column("bar_overhead", 4, gangs.iter().map(|(bar, _)| grain.ticks(bar.overhead.seconds())).collect());
    column("bar_ending", 1, gangs.iter().map(|(bar, _)| ending_code(bar.ending)).collect());
    column("bar_gang", 4, gangs.iter().map(|&(_, count)| count).collect());
    column("bar_gpu", 4, placed.iter().map(|placed| placed.gpu.0).collect());
    if placed.iter().any(|placed| placed.share_milli < 1000) {
        column("bar_offset", 2, placed.iter().map(|placed| placed.offset_milli).collect());
        column("bar_height", 2, placed.iter().map(|placed| placed.share_milli).collect());
    }
}

/// The whole schedule as shares of rows allocated, for pages that cannot hold all bars.
fn pack_heat(pack: &mut Pack, prefix: &str, run: &Run, timeline: &Timeline, bound: &Bound) {
    let rows = Rows::of(bound, HEAT_ROWS_MAX);
    let borders = equal_borders(run.from, run.until, HEAT_SLICES);
    let mut slices = (0..rows.len()).map(|_| Slices::new(&borders)).collect::<Vec<_>>();
    for bar in &timeline.bars {
        let share = bound.job(bar.job).share.fraction();
        for &gpu in timeline.gpus(bar) {
            let row = rows.of_gpu(gpu);
            slices[row].add(bar.start.seconds(), bar.end.seconds(), share / f64::from(rows.sizes[row]));
        }
    }
    let levels = slices.iter().flat_map(|slices| slices.means().into_iter().map(|mean| (mean.min(1.0) * 255.0).round() as u32));
    pack.column(format!("{prefix}heat"), 1, &levels.collect::<Vec<_>>());
    let first_gpu = (0..bound.cluster.gpus.len()).map(GpuId::from_index).map(|gpu| rows.of_gpu(gpu) as u32);
    pack.column(format!("{prefix}heat_row"), 4, &first_gpu.collect::<Vec<_>>());
}

fn deltas(values: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut before = 0;
    values.map(|value| value.wrapping_sub(std::mem::replace(&mut before, value))).collect()
}

fn status_code(status: JobStatus) -> u32 {
    match status {
        JobStatus::Pending => 0,
        JobStatus::Waiting => 1,
        JobStatus::Running => 2,
        JobStatus::Completed => 3,
        JobStatus::Failed(_) => 4,
    }
}

fn ending_code(ending: BarEnd) -> u32 {
    match ending {
        BarEnd::Finished => 0,
        BarEnd::Preempted => 1,
        BarEnd::Evicted => 2,
        BarEnd::Failed => 3,
        BarEnd::Cut => 4,
    }
}

/// Names in order of first use.
#[derive(Default)]
struct Dictionary {
    names: Vec<Name>,
    positions: HashMap<Name, u32>,
}

impl Dictionary {
    fn index(&mut self, name: Name) -> u32 {
        *self.positions.entry(name).or_insert_with(|| {
            self.names.push(name);
            self.names.len() as u32 - 1
        })
    }

    fn texts<'a>(&self, bound: &'a Bound) -> Vec<&'a str> {
        self.names.iter().map(|&name| bound.names.text(name)).collect()
    }
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0_u32, |word, &byte| word << 8 | u32::from(byte)) << (8 * (3 - chunk.len()));
        for position in 0..4 {
            let digit = ALPHABET[(word >> (18 - 6 * position)) as usize & 63];
            text.push(if position <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_pads_like_everybody() {
        assert_eq!(["", "f", "fo", "foo", "foob"].map(|text| base64(text.as_bytes())), ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]);
    }
}
