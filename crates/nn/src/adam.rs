//! Adam: gradient descent with a step size for each parameter, from running means of the gradient and of its square.

use serde::{Deserialize, Serialize};

const MEAN_DECAY: f32 = 0.9;
const SQUARE_DECAY: f32 = 0.999;
/// Keeps a parameter whose gradient was always zero from being divided by zero.
const EPSILON: f32 = 1e-8;

/// The optimiser's memory for one list of parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Adam {
    mean: Vec<f32>,
    square: Vec<f32>,
    steps: i32,
}

impl Adam {
    /// An optimiser for this many parameters.
    pub fn new(parameters: usize) -> Self {
        Self { mean: vec![0.0; parameters], square: vec![0.0; parameters], steps: 0 }
    }

    /// Moves the parameters one step against the gradient. Lists of other lengths than the optimiser's are cut to the shortest.
    pub fn step(&mut self, parameters: &mut [f32], gradient: &[f32], rate: f32) {
        self.steps = self.steps.saturating_add(1);
        let mean_bias = 1.0 - MEAN_DECAY.powi(self.steps);
        let square_bias = 1.0 - SQUARE_DECAY.powi(self.steps);
        let moments = self.mean.iter_mut().zip(&mut self.square);
        for ((parameter, slope), (mean, square)) in parameters.iter_mut().zip(gradient).zip(moments) {
            *mean = MEAN_DECAY * *mean + (1.0 - MEAN_DECAY) * slope;
            *square = SQUARE_DECAY * *square + (1.0 - SQUARE_DECAY) * slope * slope;
            *parameter -= rate * (*mean / mean_bias) / ((*square / square_bias).sqrt() + EPSILON);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bowl_is_descended_to_its_bottom() {
        let mut point = [5.0_f32, -3.0];
        let mut adam = Adam::new(2);
        for _ in 0..2000 {
            let gradient = [2.0 * (point[0] - 1.0), 20.0 * (point[1] - 2.0)];
            adam.step(&mut point, &gradient, 0.02);
        }
        assert!((point[0] - 1.0).abs() < 1e-2 && (point[1] - 2.0).abs() < 1e-2, "{point:?}");
    }
}
