//! Ties: of jobs of one shape that are owed the same, the first that came is served.
//!
//! A matching of the highest value may serve any of them. Which one would be left to rounding and to the milliseconds that a stop took: a
//! user could not tell why a later job was served first, and the simulator would not repeat it.

use rota_core::{GpuTypeId, JobId, ShapeId, Snapshot};
use std::collections::BTreeMap;

/// Serves the first of jobs that are worth the same, to `tolerance` in the value of a GPU. They have one shape, and all wait or all run on
/// GPUs of one type. `jobs` come in the order of their ids, which is that of arrival, with a row of values for each and the column it was
/// given.
pub(super) fn first_come_first_served(
    jobs: impl Iterator<Item = JobId>,
    (values, sizes): (&[f64], &[f64]),
    columns: &mut [Option<usize>],
    tolerance: f64,
    snapshot: &Snapshot<'_>,
) {
    let mut alike: BTreeMap<(ShapeId, Option<GpuTypeId>), Vec<usize>> = BTreeMap::new();
    for (row, job) in jobs.enumerate() {
        alike.entry((snapshot.bound.shape_of[job.index()], snapshot.type_now(job))).or_default().push(row);
    }
    let pools = values.len() / columns.len().max(1);
    for ((_, now), rows) in &alike {
        if rows.iter().all(|row| columns[*row].is_some()) {
            continue;
        }
        // A job that runs is not moved for this.
        for pool in (0..pools).filter(|pool| now.is_none_or(|now| now.index() == *pool)) {
            let value = |row: &usize| values[row * pools + pool] / sizes[*row];
            let served = rows.iter().filter(|row| columns[**row] == Some(pool));
            let Some(least) = served.map(value).reduce(f64::min) else { continue };
            let is_tied = |row: &&usize| value(row) > 0.0 && (value(row) - least).abs() <= tolerance;
            let may_change = |row: &&usize| columns[**row].is_none() || columns[**row] == Some(pool);
            let tied = rows.iter().filter(is_tied).filter(may_change).copied().collect::<Vec<_>>();
            let places = tied.iter().filter(|row| columns[**row].is_some()).count();
            for (place, row) in tied.into_iter().enumerate() {
                columns[row] = (place < places).then_some(pool);
            }
        }
    }
}
