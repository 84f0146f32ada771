//! Rectangular minimum-cost assignment by successive shortest augmenting paths.
//!
//! Every row is matched to its own column (or, with fewer columns than rows, every column to its own row) at least total cost. Where
//! several assignments cost the same, which one is returned is fixed by the order of the scan, the tie rule and the order of the
//! floating-point operations, all of which are part of this module's contract: unscanned columns are kept in a list that begins in
//! descending order and from which a scanned column is removed by moving the last entry into its place; among equally near columns a free
//! one wins over a matched one, otherwise the earlier in the list; a distance is `((reached + cost) − row dual) − column dual`.

use crate::error::SolveError;

const NONE: usize = usize::MAX;

/// State of the search; names follow the contract in the module's head.
struct Search<F> {
    cost: F,
    row_dual: Vec<f64>,
    column_dual: Vec<f64>,
    column_of: Vec<usize>,
    row_of: Vec<usize>,
    distance: Vec<f64>,
    previous: Vec<usize>,
    unscanned: Vec<usize>,
    scanned_rows: Vec<usize>,
    scanned_columns: Vec<usize>,
}

impl<F: Fn(usize, usize) -> f64> Search<F> {
    fn new(rows: usize, columns: usize, cost: F) -> Self {
        Self {
            cost,
            row_dual: vec![0.0; rows],
            column_dual: vec![0.0; columns],
            column_of: vec![NONE; rows],
            row_of: vec![NONE; columns],
            distance: vec![0.0; columns],
            previous: vec![NONE; columns],
            unscanned: Vec::with_capacity(columns),
            scanned_rows: Vec::new(),
            scanned_columns: Vec::new(),
        }
    }

    /// The nearest free column from a free row, and how far it is.
    fn shortest_path(&mut self, start: usize) -> Option<(usize, f64)> {
        self.distance.fill(f64::INFINITY);
        self.unscanned.clear();
        self.unscanned.extend((0..self.row_of.len()).rev());
        self.scanned_rows.clear();
        self.scanned_columns.clear();
        let mut reached = 0.0;
        let mut row = start;
        loop {
            self.scanned_rows.push(row);
            let mut lowest = f64::INFINITY;
            let mut nearest = NONE;
            for (place, &column) in self.unscanned.iter().enumerate() {
                let length = reached + (self.cost)(row, column) - self.row_dual[row] - self.column_dual[column];
                if length < self.distance[column] {
                    self.distance[column] = length;
                    self.previous[column] = row;
                }
                let distance = self.distance[column];
                // Exact equality is the contract: near ties are not ties.
                #[expect(clippy::float_cmp, reason = "the tie rule is part of the result")]
                if distance < lowest || (distance == lowest && self.row_of[column] == NONE) {
                    lowest = distance;
                    nearest = place;
                }
            }
            if nearest == NONE || lowest == f64::INFINITY {
                return None;
            }
            reached = lowest;
            let column = self.unscanned.swap_remove(nearest);
            self.scanned_columns.push(column);
            if self.row_of[column] == NONE {
                return Some((column, reached));
            }
            row = self.row_of[column];
        }
    }

    /// Moves the duals so that the path is tight, with the matching as it was before.
    fn update_duals(&mut self, start: usize, reached: f64) {
        self.row_dual[start] += reached;
        for &row in self.scanned_rows.iter().filter(|&&row| row != start) {
            self.row_dual[row] += reached - self.distance[self.column_of[row]];
        }
        for &column in &self.scanned_columns {
            self.column_dual[column] -= reached - self.distance[column];
        }
    }

    fn augment(&mut self, start: usize, sink: usize) {
        let mut column = sink;
        loop {
            let row = self.previous[column];
            self.row_of[column] = row;
            std::mem::swap(&mut self.column_of[row], &mut column);
            if row == start {
                return;
            }
        }
    }
}

/// Matches rows to columns at least cost; `None` for rows left over when there are fewer columns than rows.
/// Costs must be finite; the closure must return the same number each time.
pub fn assign(rows: usize, columns: usize, cost: impl Fn(usize, usize) -> f64) -> Result<Vec<Option<usize>>, SolveError> {
    for row in 0..rows {
        for column in 0..columns {
            let value = cost(row, column);
            if !value.is_finite() {
                return Err(SolveError::Number {
                    what: "assignment cost",
                    index: row * columns + column,
                    value,
                    wanted: "finite",
                });
            }
        }
    }
    if columns >= rows {
        let matched = match_rows(rows, columns, cost)?;
        return Ok(matched.into_iter().map(Some).collect());
    }
    let matched = match_rows(columns, rows, |row, column| cost(column, row))?;
    let mut assignment = vec![None; rows];
    for (column, row) in matched.into_iter().enumerate() {
        assignment[row] = Some(column);
    }
    Ok(assignment)
}

/// As [`assign`], with the costs in a dense matrix, one row after the other.
pub fn assign_dense(rows: usize, columns: usize, costs: &[f64]) -> Result<Vec<Option<usize>>, SolveError> {
    crate::error::check_length("assignment costs", costs.len(), rows.saturating_mul(columns))?;
    assign(rows, columns, |row, column| costs[row * columns + column])
}

fn match_rows(rows: usize, columns: usize, cost: impl Fn(usize, usize) -> f64) -> Result<Vec<usize>, SolveError> {
    let mut search = Search::new(rows, columns, cost);
    for row in 0..rows {
        // Only overflow of sums of finite costs can leave a row without a path.
        let Some((sink, reached)) = search.shortest_path(row) else {
            return Err(SolveError::Number {
                what: "assignment cost",
                index: row,
                value: f64::INFINITY,
                wanted: "small enough to add up",
            });
        };
        search.update_duals(row, reached);
        search.augment(row, sink);
    }
    Ok(search.column_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_costs_go_to_the_lowest_free_column() {
        // The list begins with the highest column, and a later equal that is free replaces an earlier one: the last in list order wins.
        assert_eq!(assign_dense(2, 3, &[1.0; 6]), Ok(vec![Some(0), Some(1)]));
    }

    #[test]
    fn textbook_square() {
        let costs = [4.0, 1.0, 3.0, 2.0, 0.0, 5.0, 3.0, 2.0, 2.0];
        assert_eq!(assign_dense(3, 3, &costs), Ok(vec![Some(1), Some(0), Some(2)]));
    }

    #[test]
    fn fewer_columns_leave_rows_out() {
        let costs = [5.0, 1.0, 3.0];
        assert_eq!(assign_dense(3, 1, &costs), Ok(vec![None, Some(0), None]));
        assert_eq!(assign_dense(2, 0, &[]), Ok(vec![None, None]));
    }

    #[test]
    fn refuses_what_is_not_a_number() {
        assert!(matches!(assign_dense(1, 2, &[1.0, f64::NAN]), Err(SolveError::Number { index: 1, .. })));
        assert!(matches!(assign_dense(1, 2, &[1.0]), Err(SolveError::Shape { .. })));
    }
}
