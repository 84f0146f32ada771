//! Covariance matrix adaptation (CMA-ES, Hansen and Ostermeier): a search that learns from the order of its candidates' costs which
//! directions are worth going, and how far. For many parameters only the diagonal of the matrix is kept.

use rota_core::random::RandomStream;
use serde::{Deserialize, Serialize};

/// The most parameters for which directions are learned beside scales.
const FULL_MAX: usize = 64;
/// Generations between two decompositions of the matrix.
const DECOMPOSE_EVERY: u64 = 4;
/// Sweeps of the decomposition.
const SWEEPS: usize = 12;

/// The search between two generations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cma {
    mean: Vec<f64>,
    sigma: f64,
    /// The matrix row by row, or its diagonal.
    covariance: Vec<f64>,
    /// Directions, column by column; empty where only the diagonal is kept.
    directions: Vec<f64>,
    /// The deviation along each direction.
    deviations: Vec<f64>,
    sigma_path: Vec<f64>,
    path: Vec<f64>,
    generation: u64,
}

/// Weights and rates, which follow from the number of parameters and candidates.
struct Rates {
    weights: Vec<f64>,
    effective: f64,
    sigma: f64,
    damping: f64,
    path: f64,
    one: f64,
    many: f64,
    expected_norm: f64,
}

impl Rates {
    fn new(count: usize, candidates: usize, is_full: bool) -> Self {
        let n = count.max(1) as f64;
        let kept = (candidates / 2).max(1);
        let raw = (1..=kept).map(|rank| (kept as f64 + 0.5).ln() - (rank as f64).ln()).collect::<Vec<_>>();
        let sum = raw.iter().sum::<f64>();
        let weights = raw.iter().map(|weight| weight / sum).collect::<Vec<_>>();
        let effective = 1.0 / weights.iter().map(|weight| weight * weight).sum::<f64>();
        let sigma = (effective + 2.0) / (n + effective + 5.0);
        // A diagonal has fewer numbers to learn, so it may be learned faster.
        let faster = if is_full { 1.0 } else { (n + 2.0) / 3.0 };
        let one = (2.0 / ((n + 1.3).powi(2) + effective) * faster).min(0.5);
        let many = (2.0 * (effective - 2.0 + 1.0 / effective) / ((n + 2.0).powi(2) + effective) * faster).min(1.0 - one);
        Self {
            damping: 1.0 + 2.0 * (((effective - 1.0) / (n + 1.0)).sqrt() - 1.0).max(0.0) + sigma,
            path: (4.0 + effective / n) / (n + 4.0 + 2.0 * effective / n),
            expected_norm: n.sqrt() * (1.0 - 1.0 / (4.0 * n) + 1.0 / (21.0 * n * n)),
            weights,
            effective,
            sigma,
            one,
            many,
        }
    }
}

impl Cma {
    /// A search that begins here, with candidates about `sigma` away in every parameter.
    pub fn new(mean: Vec<f64>, sigma: f64) -> Self {
        let count = mean.len();
        let is_full = count <= FULL_MAX;
        let identity = |place: usize| f64::from(u8::from(place / count == place % count));
        let square = if is_full { (0..count * count).map(identity).collect() } else { Vec::new() };
        Self {
            covariance: if is_full { square.clone() } else { vec![1.0; count] },
            directions: square,
            deviations: vec![1.0; count],
            sigma_path: vec![0.0; count],
            path: vec![0.0; count],
            generation: 0,
            mean,
            sigma,
        }
    }

    /// The middle of the candidates.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// Candidates of a generation.
    pub fn ask(&self, candidates: usize, stream: &mut RandomStream) -> Vec<Vec<f64>> {
        let candidate = |_| {
            let drawn = self.deviations.iter().map(|deviation| deviation * stream.normal()).collect::<Vec<_>>();
            let step = self.turn(&drawn);
            self.mean.iter().zip(step).map(|(mean, step)| mean + self.sigma * step).collect()
        };
        (0..candidates).map(candidate).collect()
    }

    /// From lengths along the directions to parameters.
    fn turn(&self, along: &[f64]) -> Vec<f64> {
        if self.directions.is_empty() {
            return along.to_vec();
        }
        let rows = self.directions.chunks_exact(along.len());
        rows.map(|row| row.iter().zip(along).map(|(direction, length)| direction * length).sum()).collect()
    }

    /// The same step with a deviation of one along every direction.
    fn whiten(&self, step: &[f64]) -> Vec<f64> {
        let count = step.len();
        if self.directions.is_empty() {
            return step.iter().zip(&self.deviations).map(|(step, deviation)| step / deviation).collect();
        }
        let along = (0..count).map(|column| {
            let length = (0..count).map(|row| self.directions[row * count + column] * step[row]).sum::<f64>();
            length / self.deviations[column]
        });
        self.turn(&along.collect::<Vec<_>>())
    }

    /// Takes in what the candidates cost.
    pub fn tell(&mut self, candidates: &[Vec<f64>], costs: &[f64]) {
        let count = self.mean.len();
        let rates = Rates::new(count, candidates.len(), !self.directions.is_empty());
        let mut order = (0..costs.len()).collect::<Vec<_>>();
        order.sort_by(|a, b| costs[*a].total_cmp(&costs[*b]).then(a.cmp(b)));
        let step_of = |candidate: usize| -> Vec<f64> {
            candidates[candidate].iter().zip(&self.mean).map(|(value, mean)| (value - mean) / self.sigma).collect()
        };
        let steps = order.iter().take(rates.weights.len()).map(|candidate| step_of(*candidate)).collect::<Vec<_>>();
        let mut whole = vec![0.0; count];
        for (weight, step) in rates.weights.iter().zip(&steps) {
            whole.iter_mut().zip(step).for_each(|(whole, step)| *whole += weight * step);
        }
        self.generation += 1;
        let white = self.whiten(&whole);
        let keep = (rates.sigma * (2.0 - rates.sigma) * rates.effective).sqrt();
        for (path, white) in self.sigma_path.iter_mut().zip(white) {
            *path = (1.0 - rates.sigma) * *path + keep * white;
        }
        let norm = self.sigma_path.iter().map(|path| path * path).sum::<f64>().sqrt();
        let settled = (1.0 - (1.0 - rates.sigma).powi(2 * self.generation.min(10_000) as i32)).sqrt();
        let is_calm = norm / settled / rates.expected_norm < 1.4 + 2.0 / (count as f64 + 1.0);
        let keep = if is_calm { (rates.path * (2.0 - rates.path) * rates.effective).sqrt() } else { 0.0 };
        for (path, step) in self.path.iter_mut().zip(&whole) {
            *path = (1.0 - rates.path) * *path + keep * step;
        }
        self.learn(&rates, &steps);
        self.mean.iter_mut().zip(&whole).for_each(|(mean, step)| *mean += self.sigma * step);
        self.sigma *= ((rates.sigma / rates.damping) * (norm / rates.expected_norm - 1.0)).clamp(-1.0, 1.0).exp();
        self.sigma = self.sigma.clamp(1e-6, 1e3);
    }

    /// Moves the covariance towards the steps that did well.
    fn learn(&mut self, rates: &Rates, steps: &[Vec<f64>]) {
        let count = self.mean.len();
        let is_full = !self.directions.is_empty();
        let columns = if is_full { count } else { 1 };
        for row in 0..count {
            for column in 0..columns {
                let other = if is_full { column } else { row };
                let many = rates.weights.iter().zip(steps).map(|(weight, step)| weight * step[row] * step[other]).sum::<f64>();
                let kept = &mut self.covariance[row * columns + column];
                *kept =
                    (1.0 - rates.one - rates.many) * *kept + rates.one * self.path[row] * self.path[other] + rates.many * many;
            }
        }
        if !is_full {
            self.deviations = self.covariance.iter().map(|variance| variance.max(1e-20).sqrt()).collect();
        } else if self.generation.is_multiple_of(DECOMPOSE_EVERY) {
            let (values, directions) = eigen(&self.covariance, count);
            self.deviations = values.into_iter().map(|value| value.max(1e-20).sqrt()).collect();
            self.directions = directions;
        }
    }
}

/// Eigenvalues and eigenvectors (as columns) of a symmetric matrix, by Jacobi's rotations.
fn eigen(matrix: &[f64], count: usize) -> (Vec<f64>, Vec<f64>) {
    let mut a = matrix.to_vec();
    let mut vectors = (0..count * count).map(|place| f64::from(u8::from(place / count == place % count))).collect::<Vec<_>>();
    for _ in 0..SWEEPS {
        for p in 0..count {
            for q in p + 1..count {
                let off = a[p * count + q];
                if off.abs() < 1e-300 {
                    continue;
                }
                let theta = (a[q * count + q] - a[p * count + p]) / (2.0 * off);
                let t = theta.signum() / (theta.abs() + (theta * theta + 1.0).sqrt());
                let c = 1.0 / (t * t + 1.0).sqrt();
                let s = t * c;
                for k in 0..count {
                    let (kp, kq) = (a[k * count + p], a[k * count + q]);
                    (a[k * count + p], a[k * count + q]) = (c * kp - s * kq, s * kp + c * kq);
                }
                for k in 0..count {
                    let (pk, qk) = (a[p * count + k], a[q * count + k]);
                    (a[p * count + k], a[q * count + k]) = (c * pk - s * qk, s * pk + c * qk);
                    let (vp, vq) = (vectors[k * count + p], vectors[k * count + q]);
                    (vectors[k * count + p], vectors[k * count + q]) = (c * vp - s * vq, s * vp + c * vq);
                }
            }
        }
    }
    ((0..count).map(|place| a[place * count + place]).collect(), vectors)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minimum(count: usize, generations: usize) -> f64 {
        // A narrow valley that lies askew: neighbours are tied together, and scales differ by a factor of a hundred.
        let cost = |x: &[f64]| -> f64 {
            let along = x.iter().enumerate().map(|(place, value)| {
                let scale = 10_f64.powf(2.0 * place as f64 / (count - 1) as f64);
                let other = x.get(place + 1).copied().unwrap_or(1.0);
                scale * (value - 0.5 * other - 0.5).powi(2)
            });
            along.sum()
        };
        let mut search = Cma::new(vec![3.0; count], 0.5);
        let mut stream = RandomStream::new(1, "cma");
        for _ in 0..generations {
            let candidates = search.ask(16, &mut stream);
            let costs = candidates.iter().map(|candidate| cost(candidate)).collect::<Vec<_>>();
            search.tell(&candidates, &costs);
        }
        cost(search.mean())
    }

    #[test]
    fn the_bottom_of_a_narrow_valley_is_found() {
        assert!(minimum(8, 300) < 1e-8, "{}", minimum(8, 300));
    }

    #[test]
    fn many_parameters_are_searched_by_their_scales() {
        assert!(minimum(100, 800) < 1.0, "{}", minimum(100, 800));
    }

    #[test]
    fn eigenvectors_give_the_matrix_back() {
        let matrix = [4.0, 1.0, 0.5, 1.0, 3.0, -1.0, 0.5, -1.0, 2.0];
        let (values, vectors) = eigen(&matrix, 3);
        for row in 0..3 {
            for column in 0..3 {
                let back = (0..3).map(|k| vectors[row * 3 + k] * values[k] * vectors[column * 3 + k]).sum::<f64>();
                assert!((back - matrix[row * 3 + column]).abs() < 1e-9, "{row} {column}: {back}");
            }
        }
    }
}
