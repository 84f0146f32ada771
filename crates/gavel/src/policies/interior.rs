//! A primal-dual interior-point method for linear and second-order cones, in the form published with ECOS (Domahidi, Chu and
//! Boyd, 2013): self-dual embedding, Nesterov-Todd scaling, Mehrotra's predictor and corrector.
//!
//! Where optimal shares are not unique, the path that a method takes decides at which of them it ends. Gavel's results were
//! made with this method, so this one, with its starting point, its step rules and its stopping rule, ends where Gavel's did but
//! for rounding; any other good solver ends at shares that are as good and give another schedule.

use clarabel::algebra::CscMatrix;
use clarabel::qdldl::{QDLDLFactorisation, QDLDLSettings, QDLDLSettingsBuilder};

/// Rows of one second-order cone: this module has no need of others.
pub(super) const CONE_ROWS: usize = 3;

const ITERATIONS_MAX: usize = 100;
const EQUILIBRATIONS: usize = 3;
/// Columns and rows whose largest entry is below this are left as they are.
const EQUILIBRATE_MIN: f64 = 1e-6;
/// Where the method stops unless it is told otherwise.
pub(super) const TOLERANCE: f64 = 1e-8;
const FEASIBILITY_INACCURATE: f64 = 1e-4;
const GAP_INACCURATE: f64 = 5e-5;
/// Part of the way to the boundary that is gone.
const STEP_FRACTION: f64 = 0.99;
const STEP_MIN: f64 = 1e-6;
const STEP_MAX: f64 = 0.999;
const CENTRING_MIN: f64 = 1e-4;
/// Added to the diagonal so that the system can always be factored. It is part of the system that is solved: its small effect
/// on the direction decides between shares that are equally good.
const REGULARISATION: f64 = 7e-8;
const REFINEMENTS_MAX: usize = 9;
const REFINED_ENOUGH: f64 = 1e-14;
/// A refinement that gains less than this factor is the last.
const REFINEMENT_GAIN: f64 = 6.0;

/// One row of the constraints: columns ascending.
pub(super) type SparseRow = Vec<(usize, f64)>;

/// Minimise `costs·x` with `bounds − rows·x` in the cone: first the linear rows, then second-order cones of three rows each.
pub(super) struct ConeProgram {
    pub costs: Vec<f64>,
    pub rows: Vec<SparseRow>,
    pub bounds: Vec<f64>,
    pub linear: usize,
    /// Residuals and gap at which it is solved.
    pub tolerance: f64,
}

/// How the solver stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Optimal,
    Inaccurate,
    Infeasible,
    Unbounded,
    Failed,
}

/// A point of the embedding.
#[derive(Clone)]
struct Point {
    x: Vec<f64>,
    s: Vec<f64>,
    z: Vec<f64>,
    tau: f64,
    kappa: f64,
}

/// How far a point is from an optimum, and what a stopping rule asks for.
struct Distance {
    rx: Vec<f64>,
    rz: Vec<f64>,
    rt: f64,
    mu: f64,
    gap: f64,
    relative_gap: f64,
    primal: f64,
    dual: f64,
    costs_x: f64,
    bounds_z: f64,
    infeasible: f64,
    unbounded: f64,
}

/// The scaling of a point: `linear[i]` is √(s/z), a cone has a small symmetric matrix; `lambda` is the scaled point.
struct Scaling {
    linear: Vec<f64>,
    cones: Vec<[[f64; CONE_ROWS]; CONE_ROWS]>,
    lambda: Vec<f64>,
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

fn norm(vector: &[f64]) -> f64 {
    dot(vector, vector).sqrt()
}

/// `s0² − |s1|²`, taken so that little is lost when it is small.
fn cone_residual(vector: &[f64]) -> f64 {
    let tail = norm(&vector[1..]);
    (vector[0] - tail) * (vector[0] + tail)
}

/// Solves a program.
pub(super) fn solve(mut program: ConeProgram) -> (Stop, Vec<f64>) {
    let scale = equilibrate(&mut program);
    let Some(mut kkt) = Kkt::new(&program) else { return (Stop::Failed, Vec::new()) };
    let (stop, point) = program.follow_path(&mut kkt);
    let x = point.x.iter().zip(scale).map(|(value, scale)| value / (scale * point.tau)).collect();
    (stop, x)
}

/// Brings the largest entries of rows and columns near 1; returns what columns were divided by.
fn equilibrate(program: &mut ConeProgram) -> Vec<f64> {
    let mut column_scale = vec![1.0; program.costs.len()];
    let root = |largest: f64| if largest.abs() < EQUILIBRATE_MIN { 1.0 } else { largest.sqrt() };
    for _ in 0..EQUILIBRATIONS {
        let mut columns = vec![0.0_f64; program.costs.len()];
        let mut rows = vec![0.0_f64; program.rows.len()];
        for (row, largest) in program.rows.iter().zip(&mut rows) {
            for &(column, value) in row {
                *largest = largest.max(value.abs());
                columns[column] = columns[column].max(value.abs());
            }
        }
        // The rows of a cone may only be scaled together.
        for cone in rows[program.linear..].chunks_mut(CONE_ROWS) {
            let sum = cone.iter().sum::<f64>();
            cone.fill(sum);
        }
        for largest in columns.iter_mut().chain(&mut rows) {
            *largest = root(*largest);
        }
        for ((row, scale), bound) in program.rows.iter_mut().zip(&rows).zip(&mut program.bounds) {
            for (column, value) in row {
                *value /= scale * columns[*column];
            }
            *bound /= scale;
        }
        for ((scale, by), cost) in column_scale.iter_mut().zip(&columns).zip(&mut program.costs) {
            *scale *= by;
            *cost /= by;
        }
    }
    column_scale
}

impl ConeProgram {
    fn times(&self, x: &[f64]) -> Vec<f64> {
        self.rows.iter().map(|row| row.iter().map(|&(column, value)| value * x[column]).sum()).collect()
    }

    fn transposed_times(&self, z: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; self.costs.len()];
        for (row, &z) in self.rows.iter().zip(z) {
            for &(column, value) in row {
                sums[column] += value * z;
            }
        }
        sums
    }

    fn follow_path(&self, kkt: &mut Kkt) -> (Stop, Point) {
        let Some(mut point) = self.start(kkt) else { return (Stop::Failed, self.origin()) };
        let mut best = point.clone();
        for _ in 0..ITERATIONS_MAX {
            let distance = self.distance(&point);
            if let Some(stop) = distance.stop(&point, self.tolerance, self.tolerance) {
                return (stop, point);
            }
            if !(distance.gap.is_finite() && point.tau > 0.0) {
                break;
            }
            best = point.clone();
            let Some(next) = self.step(&point, &distance, kkt) else { break };
            point = next;
        }
        let stop = match self.distance(&best).stop(&best, FEASIBILITY_INACCURATE, GAP_INACCURATE) {
            Some(Stop::Optimal) => Stop::Inaccurate,
            Some(other) => other,
            None => Stop::Failed,
        };
        (stop, best)
    }

    fn origin(&self) -> Point {
        let rows = self.rows.len();
        Point { x: vec![0.0; self.costs.len()], s: vec![1.0; rows], z: vec![1.0; rows], tau: 1.0, kappa: 1.0 }
    }

    /// The points of least size that meet the primal and the dual equations, moved into the cone.
    fn start(&self, kkt: &mut Kkt) -> Option<Point> {
        let ones = Scaling::identity(self);
        kkt.factor(&ones)?;
        let (x, residual) = kkt.solve(self, &ones, &vec![0.0; self.costs.len()], &self.bounds);
        let s = self.moved_into_cone(residual.iter().map(|value| -value).collect());
        let costs = self.costs.iter().map(|cost| -cost).collect::<Vec<_>>();
        let (_, z) = kkt.solve(self, &ones, &costs, &vec![0.0; self.rows.len()]);
        Some(Point { x, s, z: self.moved_into_cone(z), tau: 1.0, kappa: 1.0 })
    }

    fn moved_into_cone(&self, mut vector: Vec<f64>) -> Vec<f64> {
        let mut outside = -STEP_FRACTION;
        for &value in vector[..self.linear].iter().filter(|&&value| value <= 0.0) {
            outside = outside.max(-value);
        }
        for cone in vector[self.linear..].chunks(CONE_ROWS) {
            let residual = cone[0] - norm(&cone[1..]);
            if residual <= 0.0 {
                outside = outside.max(-residual);
            }
        }
        let shift = outside + 1.0;
        for value in &mut vector[..self.linear] {
            *value += shift;
        }
        vector[self.linear..].chunks_mut(CONE_ROWS).for_each(|cone| cone[0] += shift);
        vector
    }

    fn distance(&self, point: &Point) -> Distance {
        let Point { x, s, z, tau, kappa } = point;
        let mut rx = self.transposed_times(z);
        for value in &mut rx {
            *value = -*value;
        }
        let dual_alone = norm(&rx);
        rx.iter_mut().zip(&self.costs).for_each(|(value, cost)| *value -= cost * tau);
        let mut rz = self.times(x);
        rz.iter_mut().zip(s).for_each(|(value, s)| *value += s);
        let primal_alone = norm(&rz);
        rz.iter_mut().zip(&self.bounds).for_each(|(value, bound)| *value -= bound * tau);
        let (costs_x, bounds_z) = (dot(&self.costs, x), dot(&self.bounds, z));
        let (nx, nz, ns) = (norm(x), norm(z), norm(s));
        let gap = dot(s, z);
        let degree = self.linear + (self.rows.len() - self.linear) / CONE_ROWS;
        let (primal_cost, dual_cost) = (costs_x / tau, -bounds_z / tau);
        let relative_gap = if primal_cost < 0.0 {
            gap / -primal_cost
        } else if dual_cost > 0.0 {
            gap / dual_cost
        } else {
            f64::INFINITY
        };
        let scale = |size: f64| size.max(1.0);
        Distance {
            rt: kappa + costs_x + bounds_z,
            mu: (gap + kappa * tau) / (degree + 1) as f64,
            gap,
            relative_gap,
            primal: norm(&rz) / scale(scale(norm(&self.bounds)) + nx + ns) / tau,
            dual: norm(&rx) / scale(scale(norm(&self.costs)) + nz) / tau,
            costs_x,
            bounds_z,
            infeasible: if bounds_z / scale(nz) < -TOLERANCE { dual_alone / scale(nz) } else { f64::INFINITY },
            unbounded: if costs_x / scale(nx) < -TOLERANCE { primal_alone / scale(nx + ns) } else { f64::INFINITY },
            rx,
            rz,
        }
    }

    /// One step along the path; `None` if the system cannot be solved any more.
    fn step(&self, point: &Point, distance: &Distance, kkt: &mut Kkt) -> Option<Point> {
        let scaling = Scaling::of(self, point)?;
        kkt.factor(&scaling)?;
        let Point { x, s, z, tau, kappa } = point;
        let minus_costs = self.costs.iter().map(|cost| -cost).collect::<Vec<_>>();
        let (x1, z1) = kkt.solve(self, &scaling, &minus_costs, &self.bounds);
        let denominator = kappa / tau - dot(&self.costs, &x1) - dot(&self.bounds, &z1);

        // Straight at the optimum, to see how far that goes.
        let rhs_z = s.iter().zip(&distance.rz).map(|(s, rz)| s - rz).collect::<Vec<_>>();
        let (x2, z2) = kkt.solve(self, &scaling, &distance.rx, &rhs_z);
        let tau_aim = (distance.rt - kappa + dot(&self.costs, &x2) + dot(&self.bounds, &z2)) / denominator;
        let z_aim = z2.iter().zip(&z1).map(|(z2, z1)| z2 + tau_aim * z1).collect::<Vec<_>>();
        let z_aim_scaled = scaling.times(self, &z_aim);
        let s_aim_scaled = z_aim_scaled.iter().zip(&scaling.lambda).map(|(z, lambda)| -z - lambda).collect::<Vec<_>>();
        let kappa_aim = -kappa - kappa / tau * tau_aim;
        let reach = self.reach(&scaling.lambda, &s_aim_scaled, &z_aim_scaled, [(*tau, tau_aim), (*kappa, kappa_aim)]);
        let centring = (1.0 - reach).powi(3).clamp(CENTRING_MIN, 1.0);

        // The same, corrected for curvature and drawn to the middle.
        let keep = 1.0 - centring;
        let mut correction = self.product(&scaling.lambda, &scaling.lambda);
        let curvature = self.product(&s_aim_scaled, &z_aim_scaled);
        for (index, (value, curvature)) in correction.iter_mut().zip(curvature).enumerate() {
            let is_unit = index < self.linear || (index - self.linear).is_multiple_of(CONE_ROWS);
            *value += curvature - if is_unit { centring * distance.mu } else { 0.0 };
        }
        let corrected = self.quotient(&scaling.lambda, &correction);
        let spread = scaling.times(self, &corrected);
        let rhs_x = distance.rx.iter().map(|rx| keep * rx).collect::<Vec<_>>();
        let rhs_z = distance.rz.iter().zip(&spread).map(|(rz, spread)| spread - keep * rz).collect::<Vec<_>>();
        let (x2, z2) = kkt.solve(self, &scaling, &rhs_x, &rhs_z);
        let kappa_part = kappa * tau + kappa_aim * tau_aim - centring * distance.mu;
        let tau_step = (keep * distance.rt - kappa_part / tau + dot(&self.costs, &x2) + dot(&self.bounds, &z2)) / denominator;
        let dx = x2.iter().zip(&x1).map(|(x2, x1)| x2 + tau_step * x1);
        let dz = z2.iter().zip(&z1).map(|(z2, z1)| z2 + tau_step * z1).collect::<Vec<_>>();
        let moved_z = scaling.times(self, &dz);
        let turned_s = corrected.iter().zip(&moved_z).map(|(s, z)| -(s + z)).collect::<Vec<_>>();
        let ds = scaling.times(self, &turned_s);
        let kappa_step = -(kappa_part + kappa * tau_step) / tau;
        let length = STEP_FRACTION * self.reach(&scaling.lambda, &turned_s, &moved_z, [(*tau, tau_step), (*kappa, kappa_step)]);
        let moved = |from: &[f64], by: &[f64]| from.iter().zip(by).map(|(from, by)| from + length * by).collect::<Vec<_>>();
        let next = Point {
            x: x.iter().zip(dx).map(|(x, dx)| x + length * dx).collect(),
            s: moved(s, &ds),
            z: moved(z, &dz),
            tau: tau + length * tau_step,
            kappa: kappa + length * kappa_step,
        };
        (next.tau.is_finite() && next.x.iter().all(|value| value.is_finite())).then_some(next)
    }

    /// How far one can go from a scaled point before something leaves its cone.
    fn reach(&self, lambda: &[f64], ds: &[f64], dz: &[f64], scalars: [(f64, f64); 2]) -> f64 {
        let mut steepest = 0.0_f64;
        for row in 0..self.linear {
            steepest = steepest.max(-ds[row] / lambda[row]).max(-dz[row] / lambda[row]);
        }
        let mut reach = if steepest > 0.0 { 1.0 / steepest } else { f64::INFINITY };
        for (value, change) in scalars {
            if change < 0.0 {
                reach = reach.min(-value / change);
            }
        }
        for first in (self.linear..lambda.len()).step_by(CONE_ROWS) {
            let cone = first..first + CONE_ROWS;
            let lambda = &lambda[cone.clone()];
            let size = cone_residual(lambda).sqrt();
            for direction in [&ds[cone.clone()], &dz[cone]] {
                let across = (lambda[0] * direction[0] - dot(&lambda[1..], &direction[1..])) / size;
                let factor = (across + direction[0]) / (lambda[0] / size + 1.0);
                let rest = [1, 2].map(|index| (direction[index] - factor * lambda[index] / size) / size);
                let steepness = norm(&rest) - across / size;
                if steepness > 0.0 {
                    reach = reach.min(1.0 / steepness);
                }
            }
        }
        reach.clamp(STEP_MIN, STEP_MAX)
    }

    /// The product of the cone's algebra.
    fn product(&self, one: &[f64], other: &[f64]) -> Vec<f64> {
        let mut product = one.iter().zip(other).map(|(one, other)| one * other).collect::<Vec<_>>();
        for first in (self.linear..one.len()).step_by(CONE_ROWS) {
            let cone = first..first + CONE_ROWS;
            let (one, other) = (&one[cone.clone()], &other[cone]);
            product[first] = dot(one, other);
            for index in 1..CONE_ROWS {
                product[first + index] = one[0] * other[index] + other[0] * one[index];
            }
        }
        product
    }

    /// What must be multiplied with `divisor` to give `vector`.
    fn quotient(&self, divisor: &[f64], vector: &[f64]) -> Vec<f64> {
        let mut quotient = vector.iter().zip(divisor).map(|(value, divisor)| value / divisor).collect::<Vec<_>>();
        for first in (self.linear..vector.len()).step_by(CONE_ROWS) {
            let cone = first..first + CONE_ROWS;
            let (divisor, vector) = (&divisor[cone.clone()], &vector[cone]);
            let head = (divisor[0] * vector[0] - dot(&divisor[1..], &vector[1..])) / cone_residual(divisor);
            quotient[first] = head;
            for index in 1..CONE_ROWS {
                quotient[first + index] = (vector[index] - head * divisor[index]) / divisor[0];
            }
        }
        quotient
    }
}

impl Distance {
    fn stop(&self, point: &Point, feasibility: f64, gap: f64) -> Option<Stop> {
        let has_sign = -self.costs_x > 0.0 || -self.bounds_z >= -gap;
        if has_sign && self.primal < feasibility && self.dual < feasibility && (self.gap < gap || self.relative_gap < gap) {
            return Some(Stop::Optimal);
        }
        if self.unbounded < feasibility && point.tau < point.kappa {
            return Some(Stop::Unbounded);
        }
        (self.infeasible < feasibility && point.tau < point.kappa).then_some(Stop::Infeasible)
    }
}

impl Scaling {
    fn identity(program: &ConeProgram) -> Self {
        let unit = |row: usize, column: usize| if row == column { 1.0 } else { 0.0 };
        let cones = (program.rows.len() - program.linear) / CONE_ROWS;
        Self {
            linear: vec![1.0; program.linear],
            cones: vec![std::array::from_fn(|row| std::array::from_fn(|column| unit(row, column))); cones],
            lambda: Vec::new(),
        }
    }

    /// The scaling that takes `s` and `z` to the same point; `None` if one of them has left the cone.
    fn of(program: &ConeProgram, point: &Point) -> Option<Self> {
        let (s, z) = (&point.s, &point.z);
        let linear = (0..program.linear).map(|row| (s[row] / z[row]).sqrt()).collect::<Vec<_>>();
        if !linear.iter().all(|scale| scale.is_finite() && *scale > 0.0) {
            return None;
        }
        let mut cones = Vec::new();
        for first in (program.linear..s.len()).step_by(CONE_ROWS) {
            let cone = first..first + CONE_ROWS;
            let (s, z) = (&s[cone.clone()], &z[cone]);
            let (s_size, z_size) = (cone_residual(s).sqrt(), cone_residual(z).sqrt());
            if !(s_size > 0.0 && z_size > 0.0) {
                return None;
            }
            let middle = f64::midpoint(1.0, dot(s, z) / (s_size * z_size)).sqrt();
            let mirrored = |index: usize| if index == 0 { z[0] } else { -z[index] };
            let w: [f64; CONE_ROWS] =
                std::array::from_fn(|index| (s[index] / s_size + mirrored(index) / z_size) / (2.0 * middle));
            let size = (s_size / z_size).sqrt();
            let entry = |row: usize, column: usize| match (row, column) {
                (0, other) | (other, 0) => w[other],
                (row, column) => f64::from(u8::from(row == column)) + w[row] * w[column] / (1.0 + w[0]),
            };
            cones.push(std::array::from_fn(|row| std::array::from_fn(|column| size * entry(row, column))));
        }
        let mut scaling = Self { linear, cones, lambda: Vec::new() };
        scaling.lambda = scaling.times(program, z);
        Some(scaling)
    }

    fn times(&self, program: &ConeProgram, vector: &[f64]) -> Vec<f64> {
        let mut scaled = vector.to_vec();
        scaled[..program.linear].iter_mut().zip(&self.linear).for_each(|(value, scale)| *value *= scale);
        for (cone, matrix) in self.cones.iter().enumerate().map(|(index, matrix)| (program.linear + index * CONE_ROWS, matrix)) {
            for (row, entries) in matrix.iter().enumerate() {
                scaled[cone + row] = dot(entries, &vector[cone..cone + CONE_ROWS]);
            }
        }
        scaled
    }
}

/// The linear system of a step, `[0 Gᵀ; G −W²]`, with its factors.
struct Kkt {
    factors: QDLDLFactorisation<f64>,
    /// Where the entries of W² are: linear rows, then six for each cone.
    places: Vec<usize>,
    columns: usize,
}

impl Kkt {
    fn new(program: &ConeProgram) -> Option<Self> {
        let (columns, rows) = (program.costs.len(), program.rows.len());
        let (mut starts, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
        for column in 0..columns {
            indices.push(column);
            values.push(REGULARISATION);
            starts.push(indices.len());
        }
        let mut places = Vec::new();
        for (row, entries) in program.rows.iter().enumerate() {
            for &(column, value) in entries {
                indices.push(column);
                values.push(value);
            }
            let above = row.checked_sub(program.linear).map_or(0, |row| row % CONE_ROWS);
            for other in row - above..=row {
                places.push(indices.len());
                indices.push(columns + other);
                values.push(-1.0);
            }
            starts.push(indices.len());
        }
        let matrix = CscMatrix::new(columns + rows, columns + rows, starts, indices, values);
        let signs = (0..columns + rows).map(|index| if index < columns { 1 } else { -1 }).collect();
        let settings: QDLDLSettings<f64> = QDLDLSettingsBuilder::default().Dsigns(signs).build().ok()?;
        let factors = QDLDLFactorisation::new(&matrix, Some(settings)).ok()?;
        Some(Self { factors, places, columns })
    }

    fn factor(&mut self, scaling: &Scaling) -> Option<()> {
        let mut values = scaling.linear.iter().map(|scale| -(scale * scale) - REGULARISATION).collect::<Vec<_>>();
        for matrix in &scaling.cones {
            for row in 0..CONE_ROWS {
                for other in 0..=row {
                    values.push(-dot(&matrix[row], &matrix[other]) - if row == other { REGULARISATION } else { 0.0 });
                }
            }
        }
        self.factors.update_values(&self.places, &values);
        self.factors.refactor().ok()
    }

    /// Solves the system for both parts, refining until rounding is all that is left.
    fn solve(&mut self, program: &ConeProgram, scaling: &Scaling, rhs_x: &[f64], rhs_z: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let rhs = [rhs_x, rhs_z].concat();
        let enough = (1.0 + rhs.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()))) * REFINED_ENOUGH;
        let mut solution = rhs.clone();
        self.factors.solve(&mut solution);
        let mut before = f64::INFINITY;
        for _ in 0..REFINEMENTS_MAX {
            let (x, z) = solution.split_at(self.columns);
            let squared = scaling.times(program, &scaling.times(program, z));
            let upper = program.transposed_times(z).into_iter().zip(x).map(|(gz, x)| gz + REGULARISATION * x);
            let lower = program.times(x).into_iter().zip(squared).zip(z).map(|((gx, wz), z)| gx - wz - REGULARISATION * z);
            let mut missing = rhs.iter().zip(upper.chain(lower)).map(|(rhs, product)| rhs - product).collect::<Vec<_>>();
            let error = missing.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
            if error <= enough || before < error * REFINEMENT_GAIN || !error.is_finite() {
                break;
            }
            before = error;
            self.factors.solve(&mut missing);
            solution.iter_mut().zip(missing).for_each(|(value, missing)| *value += missing);
        }
        let z = solution.split_off(self.columns);
        (solution, z)
    }
}
