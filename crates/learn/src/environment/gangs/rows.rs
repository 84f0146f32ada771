//! What a chooser sees of waiting jobs: their rows, oldest first, behind the row that stands for waiting.
//!
//! A row moves up when an older job is started. Otherwise only what changed is written: waiting times when time has gone on, for all rows
//! in one pass over arrays; what a size of gang finds free, once for each size; the rest when much was learned about run times.

use super::WAIT;
use super::jobs::Jobs;
use super::taught::{Lesson, Lessons};
use crate::environment::View;
use crate::features::{self, COUNT, log, renew_taught};
use rota_core::Time;

/// The rows, and one array for each thing that they are renewed from.
pub struct Rows {
    /// The row of waiting, then one for each job that is seen.
    numbers: Vec<f32>,
    legal: Vec<bool>,
    /// The jobs that are seen.
    jobs: Vec<u32>,
    sizes: Vec<u16>,
    arrival_seconds: Vec<f64>,
    per_estimate: Vec<f32>,
    /// Jobs that are seen of each size of gang, and the sizes.
    count_of_size: Vec<u32>,
    gpus_of_size: Vec<u32>,
    /// When each size of gang is believed to find room, as a feature.
    pub earliest: Vec<f32>,
    /// Rows whose waiting times hold for `shown_at`: so many from the first.
    renewed: usize,
    shown_at: Time,
    is_over: bool,
    log_wait: Vec<f32>,
    log_slowdown: Vec<f32>,
}

/// The natural logarithm of a number from 1 on, to about one unit in the last place. Made of plain arithmetic, so that a loop over it
/// handles several numbers at a time.
fn natural_log(value: f32) -> f32 {
    let bits = value.to_bits().cast_signed();
    // The mantissa is brought between the square roots of a half and of 2.
    let exponent = (bits - 0x3f35_04f3) >> 23;
    let x = f32::from_bits((bits - (exponent << 23)).cast_unsigned()) - 1.0;
    let series = 7.037_683_6e-2 * x - 1.151_461e-1;
    let series = series * x + 1.167_699_9e-1;
    let series = series * x - 1.242_014_1e-1;
    let series = series * x + 1.424_932_3e-1;
    let series = series * x - 1.666_805_8e-1;
    let series = series * x + 2.000_071_5e-1;
    let series = series * x - 2.499_999_4e-1;
    let series = series * x + 3.333_333e-1;
    let (square, exponent) = (x * x, exponent as f32);
    let small = series * x * square - 2.121_944_4e-4 * exponent - 0.5 * square;
    x + small + 0.693_359_4 * exponent
}

impl Rows {
    /// No job is seen yet, and `most` can be.
    pub fn new(jobs: &Jobs, most: usize) -> Self {
        let mut rows = Self {
            numbers: Vec::with_capacity((most + 1) * COUNT),
            legal: Vec::with_capacity(most + 1),
            jobs: Vec::with_capacity(most),
            sizes: Vec::with_capacity(most),
            arrival_seconds: Vec::with_capacity(most),
            per_estimate: Vec::with_capacity(most),
            count_of_size: Vec::new(),
            gpus_of_size: Vec::new(),
            earliest: Vec::new(),
            renewed: 0,
            shown_at: Time::ZERO,
            is_over: false,
            log_wait: vec![0.0; most],
            log_slowdown: vec![0.0; most],
        };
        rows.clear(jobs);
        rows
    }

    /// Forgets everything, before another episode.
    pub fn clear(&mut self, jobs: &Jobs) {
        self.numbers.clear();
        self.numbers.resize(COUNT, 0.0);
        self.legal.clear();
        self.legal.push(true);
        self.jobs.clear();
        self.sizes.clear();
        self.arrival_seconds.clear();
        self.per_estimate.clear();
        self.gpus_of_size.clone_from(&jobs.sizes);
        self.count_of_size.clear();
        self.count_of_size.resize(jobs.sizes.len(), 0);
        self.earliest.clear();
        self.earliest.resize(jobs.sizes.len(), 0.0);
        (self.renewed, self.shown_at, self.is_over) = (0, Time::ZERO, false);
    }

    /// How many jobs are seen.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// The job of a row, counted without that of waiting.
    pub fn job(&self, row: usize) -> usize {
        self.jobs[row] as usize
    }

    /// Adds a job behind the others.
    pub fn push(&mut self, job: usize, jobs: &Jobs, lesson: &Lesson) {
        let known = &jobs.all[job];
        let mut row = jobs.rows[job];
        renew_taught(&mut row, &lesson.taught, lesson.user_recent_seconds);
        self.numbers.extend_from_slice(&row);
        self.legal.push(false);
        self.jobs.push(job as u32);
        self.sizes.push(known.size);
        self.arrival_seconds.push(known.arrival.seconds());
        self.per_estimate.push(known.per_estimate);
        self.count_of_size[usize::from(known.size)] += 1;
    }

    /// Takes a job out; those behind it move up. Gives the job.
    pub fn remove(&mut self, row: usize) -> usize {
        self.count_of_size[usize::from(self.sizes[row])] -= 1;
        self.numbers.copy_within((row + 2) * COUNT.., (row + 1) * COUNT);
        self.numbers.truncate(self.numbers.len() - COUNT);
        self.legal.pop();
        self.sizes.remove(row);
        self.arrival_seconds.remove(row);
        self.per_estimate.remove(row);
        self.renewed -= usize::from(row < self.renewed);
        self.jobs.remove(row) as usize
    }

    /// Whether a job that is seen fits on so many idle GPUs.
    pub fn any_fits(&self, idle: u32) -> bool {
        let sizes = self.gpus_of_size.iter().zip(&self.count_of_size);
        sizes.take_while(|(gpus, _)| **gpus <= idle).any(|(_, count)| *count > 0)
    }

    /// Tells every row what was learned.
    pub fn teach(&mut self, jobs: &Jobs, lessons: &mut Lessons) {
        let (rows, _) = self.numbers[COUNT..].as_chunks_mut::<COUNT>();
        for (row, job) in rows.iter_mut().zip(&self.jobs) {
            let lesson = lessons.of(*job as usize, jobs);
            renew_taught(row, &lesson.taught, lesson.user_recent_seconds);
        }
    }

    /// Renews what changes while jobs wait.
    pub fn show(&mut self, now: Time, idle: u32, free: f64, waiting: usize, may_wait: bool) {
        if now != self.shown_at {
            (self.renewed, self.shown_at) = (0, now);
        }
        self.renew_waits(now.seconds());
        let (free, queue) = (free as f32, log(waiting as f64, 6.0));
        (self.numbers[features::FREE], self.numbers[features::QUEUE]) = (free, queue);
        self.legal[WAIT] = may_wait;
        let (rows, _) = self.numbers[COUNT..].as_chunks_mut::<COUNT>();
        for ((row, size), legal) in rows.iter_mut().zip(&self.sizes).zip(&mut self.legal[1..]) {
            let size = usize::from(*size);
            let fits = self.gpus_of_size[size] <= idle;
            row[features::FITS] = f32::from(u8::from(fits));
            row[features::FREE] = free;
            row[features::QUEUE] = queue;
            row[features::EARLIEST] = self.earliest[size];
            row[features::ALIGNMENT] = if fits { free } else { 0.0 };
            *legal = fits;
        }
    }

    /// Renews the waiting times of rows for which they do not hold.
    fn renew_waits(&mut self, now_seconds: f64) {
        let old = std::mem::replace(&mut self.renewed, self.jobs.len())..self.jobs.len();
        let from = self.arrival_seconds[old.clone()].iter().zip(&self.per_estimate[old.clone()]);
        let to = self.log_wait[old.clone()].iter_mut().zip(&mut self.log_slowdown[old.clone()]);
        for ((arrival, per_estimate), (log_wait, log_slowdown)) in from.zip(to) {
            let waited = (now_seconds - arrival) as f32;
            *log_wait = natural_log(1.0 + waited) * 0.1;
            *log_slowdown = natural_log(1.0 + waited * per_estimate) * 0.2;
        }
        let (rows, _) = self.numbers[(old.start + 1) * COUNT..].as_chunks_mut::<COUNT>();
        let made = self.log_wait[old.clone()].iter().zip(&self.log_slowdown[old]);
        for (row, (log_wait, log_slowdown)) in rows.iter_mut().zip(made) {
            (row[features::WAIT], row[features::SLOWDOWN]) = (*log_wait, *log_slowdown);
        }
    }

    /// Shows that the episode is over: the row of waiting, alone.
    pub fn show_end(&mut self) {
        self.is_over = true;
        self.numbers[..COUNT].fill(0.0);
        self.legal[WAIT] = true;
    }

    /// The rows, and which of them may be chosen.
    pub fn view(&self) -> View<'_> {
        let shown = if self.is_over { 1 } else { self.legal.len() };
        View { rows: &self.numbers[..shown * COUNT], legal: &self.legal[..shown] }
    }
}

#[cfg(test)]
mod tests {
    use super::natural_log;

    #[test]
    fn logarithms_are_right_to_the_last_places_over_the_whole_range() {
        let mut value = 1.0_f32;
        while value < 1e12 {
            let exact = f64::from(value).ln();
            assert!((f64::from(natural_log(value)) - exact).abs() <= 2e-7 * exact.max(1.0), "{value}: {}", natural_log(value));
            value *= 1.000_37;
        }
        assert!(natural_log(1.0).abs() <= f32::EPSILON);
    }
}
