//! How busy a GPU was over the last minutes, as it was seen at each look.

use std::collections::VecDeque;

/// The most that is remembered.
const SECONDS_MAX: i64 = 1800;
/// What a sparkline shows, if looks come often enough.
const SPAN_SECONDS: i64 = 180;

/// What was seen of one GPU over time.
#[derive(Clone, Debug, Default)]
pub struct History {
    samples: VecDeque<(i64, u32)>,
}

impl History {
    /// Remembers how busy the GPU was at a second.
    pub fn push(&mut self, second: i64, busy_percent: u32) {
        // A clock that was set back begins anew.
        if self.samples.back().is_some_and(|(last, _)| *last > second) {
            self.samples.clear();
        }
        while self.samples.front().is_some_and(|(first, _)| second - first > SECONDS_MAX) {
            self.samples.pop_front();
        }
        self.samples.push_back((second, busy_percent));
    }

    /// One value a cell, the newest last: the mean of what was seen in the cell's time, if anything was. A cell's time begins at a
    /// multiple of its length, so that cells move and do not change.
    pub fn cells(&self, now: i64, width: usize, interval_seconds: f64) -> Vec<Option<u32>> {
        let length = cell_seconds(width, interval_seconds);
        let newest = now.div_euclid(length);
        let mut sums = vec![(0_u64, 0_u64); width];
        for (second, busy) in &self.samples {
            let age = newest - second.div_euclid(length);
            let place = usize::try_from(age).ok().and_then(|age| width.checked_sub(age + 1));
            if let Some((sum, count)) = place.and_then(|place| sums.get_mut(place)) {
                *sum += u64::from(*busy);
                *count += 1;
            }
        }
        sums.into_iter().map(|(sum, count)| (count > 0).then(|| (sum / count.max(1)) as u32)).collect()
    }
}

fn cell_seconds(width: usize, interval_seconds: f64) -> i64 {
    let cells = i64::try_from(width).unwrap_or(1).max(1);
    let even = (SPAN_SECONDS + cells - 1) / cells;
    even.max(interval_seconds.ceil() as i64).max(1)
}

/// How far back so many cells reach.
pub fn span_seconds(width: usize, interval_seconds: f64) -> i64 {
    cell_seconds(width, interval_seconds) * i64::try_from(width).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_the_mean_of_its_seconds_and_stays_what_it_is() {
        let mut history = History::default();
        for second in 0..36 {
            history.push(second, if second < 18 { 0 } else { 100 });
        }
        // Ten cells of 18 seconds.
        assert_eq!(history.cells(35, 10, 1.0)[7..], [None, Some(0), Some(100)]);
        assert_eq!(history.cells(36, 10, 1.0)[6..], [None, Some(0), Some(100), None]);
    }

    #[test]
    fn rare_looks_make_longer_cells_and_no_holes() {
        let mut history = History::default();
        (0..5).for_each(|look| history.push(look * 60, 50));
        assert_eq!(history.cells(240, 5, 60.0), [Some(50); 5]);
        assert_eq!(span_seconds(5, 60.0), 300);
    }

    #[test]
    fn a_clock_set_back_begins_anew_and_old_samples_go() {
        let mut history = History::default();
        history.push(1000, 10);
        history.push(10, 20);
        assert_eq!(history.cells(10, 1, 1.0), [Some(20)]);
        history.push(10 + SECONDS_MAX + 1, 30);
        assert_eq!(history.samples.len(), 1);
    }
}
