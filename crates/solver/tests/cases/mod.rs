//! Random problems of every kind the kernels must stand, and the simplex they are compared with.

#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses a part, and a bad case is a bad test")]

use proptest::prelude::*;
use rota_solver::problem::Problem;

/// A problem as plain numbers.
#[derive(Debug, Clone)]
pub struct Case {
    pub capacities: Vec<f64>,
    pub sizes: Vec<f64>,
    pub rates: Vec<f64>,
    pub weights: Vec<f64>,
}

impl Case {
    pub fn problem(&self) -> Problem {
        Problem::new(&self.capacities, &self.sizes, &self.rates).unwrap()
    }

    pub fn row(&self, row: usize) -> &[f64] {
        &self.rates[row * self.capacities.len()..(row + 1) * self.capacities.len()]
    }
}

/// A rate: ordinary, zero, a small integer (so that columns tie), or of a very different size.
fn rate() -> impl Strategy<Value = f64> {
    prop_oneof![4 => 0.01..1.0_f64, 2 => Just(0.0), 2 => (0..4_u8).prop_map(f64::from), 1 => (-2.0..2.0_f64).prop_map(|power| 10_f64.powf(power))]
}

/// 2–40 rows, 1–8 pools, from starved to idle; some pools empty, some columns equal, some rows repeated.
pub fn any_case() -> impl Strategy<Value = Case> {
    (2..=40_usize, 1..=8_usize, -1.5..1.5_f64, 0..4_u8).prop_flat_map(|(rows, columns, load, kind)| {
        let capacity = (0.05..1.0_f64).prop_map(move |part| part * 10_f64.powf(load) * rows as f64 / columns as f64);
        let sizes = prop::sample::select(vec![1.0, 1.0, 2.0, 4.0, 8.0]);
        let weights = prop::sample::select(vec![1.0, 1.0, 2.0, 5.0]);
        (
            prop::collection::vec(capacity, columns),
            prop::collection::vec(sizes, rows),
            prop::collection::vec(rate(), rows * columns),
            prop::collection::vec(weights, rows),
        )
            .prop_map(move |(mut capacities, mut sizes, mut rates, mut weights)| {
                match kind {
                    // Equal columns, an empty pool, or repeated rows.
                    1 if columns > 1 => rates.chunks_exact_mut(columns).for_each(|row| row[1] = row[0]),
                    2 if columns > 1 => capacities[0] = 0.0,
                    3 => {
                        let row = rates[..columns].to_vec();
                        rates[columns..2 * columns].copy_from_slice(&row);
                        (sizes[1], weights[1]) = (sizes[0], weights[0]);
                    }
                    _ => {}
                }
                // Nobody may be without any column that serves.
                for row in rates.chunks_exact_mut(columns) {
                    if row.iter().zip(&capacities).all(|(rate, capacity)| *rate <= 0.0 || *capacity <= 0.0) {
                        row[columns - 1] = 1.0;
                    }
                }
                Case { capacities, sizes, rates, weights }
            })
    })
}

/// Many distinct rows with contended pools.
pub fn large(rows: usize, columns: usize, seed: u64) -> Case {
    let mut state = seed;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let sizes: Vec<f64> = (0..rows).map(|_| [1.0, 1.0, 2.0, 4.0][(next() * 4.0) as usize]).collect();
    let rates = (0..rows * columns).map(|cell| (0.2 + next()) * (1.0 + (cell % columns) as f64 * 0.3)).collect();
    let weights = (0..rows).map(|_| 1.0 + (next() * 3.0).floor()).collect();
    let capacities = (0..columns).map(|_| (0.5 + next()) * 0.3 * rows as f64 / columns as f64).collect();
    Case { capacities, sizes, rates, weights }
}

/// What the simplex found. Its tolerances are absolute, so what its shares really give is a better witness than its objective.
pub struct Found {
    pub objective: f64,
    /// Clipped and scaled to fit, rows × columns.
    pub shares: Vec<f64>,
}

/// Maximises whatever `build` adds over the shares that fit; none if the simplex fails.
pub fn simplex(case: &Case, build: impl FnOnce(&mut microlp::Problem, &[Vec<microlp::Variable>])) -> Option<Found> {
    let columns = case.capacities.len();
    let mut program = microlp::Problem::new(microlp::OptimizationDirection::Maximize);
    let shares: Vec<Vec<microlp::Variable>> =
        case.sizes.iter().map(|_| (0..columns).map(|_| program.add_var(0.0, (0.0, f64::INFINITY))).collect()).collect();
    for row in &shares {
        let terms: Vec<_> = row.iter().map(|&share| (share, 1.0)).collect();
        program.add_constraint(terms.as_slice(), microlp::ComparisonOp::Le, 1.0);
    }
    for (column, &capacity) in case.capacities.iter().enumerate() {
        let terms: Vec<_> = shares.iter().zip(&case.sizes).map(|(row, &size)| (row[column], size)).collect();
        program.add_constraint(terms.as_slice(), microlp::ComparisonOp::Le, capacity);
    }
    build(&mut program, &shares);
    let Ok(microlp::SolveOutcome::Solution(solution)) = program.solve() else { return None };
    let mut values: Vec<f64> = shares.iter().flatten().map(|&share| solution[share].max(0.0)).collect();
    for row in values.chunks_exact_mut(columns) {
        for (share, &capacity) in row.iter_mut().zip(&case.capacities) {
            *share = if capacity > 0.0 { *share } else { 0.0 };
        }
    }
    let excess = 1.0 + case.problem().violation(&values);
    Some(Found { objective: solution.objective(), shares: values.iter().map(|share| share / excess).collect() })
}
