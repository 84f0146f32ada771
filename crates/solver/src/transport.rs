//! Cheapest assignment of rows to columns that take several rows each: exact, by shortest augmenting paths over the columns.
//!
//! The path of a new row goes from column to column, pushing out at each the row that is cheapest to move on. With few columns that is
//! far less work than an assignment in which every place is a column of its own.

use crate::error::{SolveError, check_length};

/// The column of each row, at the lowest total cost. There must be places for all rows. Ties go to the lower column.
///
/// Rows are inserted one by one; each insertion looks at every row and column once and at every pair of columns a few times.
pub fn assign_to_places(costs: &[f64], places: &[usize]) -> Result<Vec<usize>, SolveError> {
    let columns = places.len();
    if columns == 0 || costs.is_empty() {
        return if costs.is_empty() { Ok(Vec::new()) } else { Err(SolveError::Empty("columns")) };
    }
    let rows = costs.len() / columns;
    check_length("costs", costs.len(), rows * columns)?;
    if let Some(index) = costs.iter().position(|cost| !cost.is_finite()) {
        return Err(SolveError::Number { what: "costs", index, value: costs[index], wanted: "finite" });
    }
    if places.iter().sum::<usize>() < rows {
        return Err(SolveError::Infeasible);
    }
    let mut state = State { costs, columns, column_of: Vec::with_capacity(rows), free: places.to_vec() };
    for row in 0..rows {
        state.insert(row);
    }
    Ok(state.column_of)
}

struct State<'a> {
    costs: &'a [f64],
    columns: usize,
    column_of: Vec<usize>,
    free: Vec<usize>,
}

impl State<'_> {
    fn cost(&self, row: usize, column: usize) -> f64 {
        self.costs[row * self.columns + column]
    }

    /// For each two columns, the row of the first that is cheapest to move to the second, and what that costs.
    fn moves(&self) -> Vec<(f64, usize)> {
        let mut moves = vec![(f64::INFINITY, usize::MAX); self.columns * self.columns];
        for (row, &from) in self.column_of.iter().enumerate() {
            for to in 0..self.columns {
                let change = self.cost(row, to) - self.cost(row, from);
                let best = &mut moves[from * self.columns + to];
                if change < best.0 {
                    *best = (change, row);
                }
            }
        }
        moves
    }

    fn insert(&mut self, row: usize) {
        // Until its columns are full, a row simply takes its cheapest one.
        let cheapest = (0..self.columns).min_by(|a, b| self.cost(row, *a).total_cmp(&self.cost(row, *b)));
        if let Some(column) = cheapest.filter(|column| self.free[*column] > 0) {
            self.free[column] -= 1;
            self.column_of.push(column);
            return;
        }
        let moves = self.moves();
        let mut distance = (0..self.columns).map(|column| self.cost(row, column)).collect::<Vec<_>>();
        let mut before = vec![usize::MAX; self.columns];
        // The present assignment is the cheapest of its rows, so there is no circle that gets cheaper, but for rounding: the number of
        // passes is bounded all the same.
        for _ in 0..self.columns {
            let mut improved = false;
            for from in (0..self.columns).filter(|&column| self.free[column] == 0) {
                for to in 0..self.columns {
                    let reached = distance[from] + moves[from * self.columns + to].0;
                    if reached < distance[to] - 1e-12 * distance[to].abs() {
                        distance[to] = reached;
                        before[to] = from;
                        improved = true;
                    }
                }
            }
            if !improved {
                break;
            }
        }
        let open = (0..self.columns).filter(|&column| self.free[column] > 0);
        let Some(end) = open.min_by(|a, b| distance[*a].total_cmp(&distance[*b])) else { return };
        self.free[end] -= 1;
        let mut path = vec![end];
        while before[path[path.len() - 1]] != usize::MAX && path.len() <= self.columns {
            path.push(before[path[path.len() - 1]]);
        }
        for pair in path.windows(2) {
            let (to, from) = (pair[0], pair[1]);
            self.column_of[moves[from * self.columns + to].1] = to;
        }
        self.column_of.push(path[path.len() - 1]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assign::assign_dense;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn costs_as_little_as_an_assignment_of_single_places(
            rows in 1_usize..9,
            places in prop::collection::vec(1_usize..4, 1..5),
            costs in prop::collection::vec(0_u32..50, 8 * 4),
        ) {
            let places_in_all = places.iter().sum::<usize>();
            prop_assume!(rows <= places_in_all);
            let costs = costs[..rows * places.len()].iter().copied().map(f64::from).collect::<Vec<_>>();
            let found = assign_to_places(&costs, &places).unwrap();
            let total = found.iter().enumerate().map(|(row, column)| costs[row * places.len() + column]).sum::<f64>();
            for (column, &most) in places.iter().enumerate() {
                prop_assert!(found.iter().filter(|&&taken| taken == column).count() <= most);
            }
            let column_of = places.iter().enumerate().flat_map(|(column, &count)| std::iter::repeat_n(column, count)).collect::<Vec<_>>();
            let single = (0..rows).flat_map(|row| column_of.iter().map(move |column| (row, *column)))
                .map(|(row, column)| costs[row * places.len() + column]).collect::<Vec<_>>();
            let best = assign_dense(rows, places_in_all, &single).unwrap();
            let least = best.iter().enumerate().map(|(row, place)| single[row * places_in_all + place.unwrap()]).sum::<f64>();
            prop_assert!((total - least).abs() < 1e-9, "{total} against {least}");
        }
    }

    #[test]
    fn too_few_places_are_refused() {
        assert_eq!(assign_to_places(&[1.0, 2.0], &[1]), Err(SolveError::Infeasible));
        assert!(assign_to_places(&[f64::NAN], &[1]).is_err());
    }
}
