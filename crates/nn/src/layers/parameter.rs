//! Numbers that learn, with the slope of the loss by each, and what Adam remembers of them.

use crate::vectorised::vectorised;

const MEAN_DECAY: f32 = 0.9;
const SQUARE_DECAY: f32 = 0.999;
/// Keeps a number whose slope was always zero from being divided by zero.
const EPSILON: f32 = 1e-8;

/// A tensor that learns. Its optimiser state goes wherever it goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// The numbers of the tensor.
    pub values: Vec<f32>,
    /// The slope of the loss by each.
    pub gradient: Vec<f32>,
    /// Adam's running mean of the slopes.
    pub mean: Vec<f32>,
    /// Adam's running mean of their squares.
    pub square: Vec<f32>,
    /// Steps that Adam has taken.
    pub steps: i32,
    /// Whether the numbers stay as they are.
    pub frozen: bool,
}

vectorised! {
    /// One step of Adam; `rate` and `root` have the corrections for the first steps in them.
    fn step(values: &mut [f32], gradient: &[f32], mean: &mut [f32], square: &mut [f32], rate: f32, root: f32) {
        for ((value, slope), (mean, square)) in values.iter_mut().zip(gradient).zip(mean.iter_mut().zip(square)) {
            *mean = MEAN_DECAY * *mean + (1.0 - MEAN_DECAY) * slope;
            *square = SQUARE_DECAY * *square + (1.0 - SQUARE_DECAY) * slope * slope;
            *value -= rate * *mean / (square.sqrt() * root + EPSILON);
        }
    }
}

impl Parameter {
    /// Numbers with an empty optimiser.
    pub fn new(values: Vec<f32>) -> Self {
        let zeros = vec![0.0; values.len()];
        Self { gradient: zeros.clone(), mean: zeros.clone(), square: zeros, values, steps: 0, frozen: false }
    }

    /// Moves the numbers one step of Adam against their slopes, unless they are frozen.
    pub fn step(&mut self, rate: f64) {
        if self.frozen {
            return;
        }
        self.steps = self.steps.saturating_add(1);
        let mean_part = 1.0 - f64::from(MEAN_DECAY).powi(self.steps);
        let square_part = 1.0 - f64::from(SQUARE_DECAY).powi(self.steps);
        let (rate, root) = (rate / mean_part, 1.0 / square_part.sqrt());
        step(&mut self.values, &self.gradient, &mut self.mean, &mut self.square, rate as f32, root as f32);
    }

    /// Empties the optimiser.
    pub fn forget(&mut self) {
        self.mean.fill(0.0);
        self.square.fill(0.0);
        self.steps = 0;
    }

    /// A parameter whose numbers are taken from places of this one. Each place comes with what the value is divided by, and what the
    /// slope by it is divided by: Adam's memory goes along.
    #[must_use]
    pub fn gathered(&self, places: &[(usize, f32, f32)]) -> Self {
        Self {
            values: places.iter().map(|(place, divisor, _)| self.values[*place] / divisor).collect(),
            gradient: vec![0.0; places.len()],
            mean: places.iter().map(|(place, _, divisor)| self.mean[*place] / divisor).collect(),
            square: places.iter().map(|(place, _, divisor)| self.square[*place] / (divisor * divisor)).collect(),
            steps: self.steps,
            frozen: self.frozen,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Adam;

    #[test]
    fn it_steps_as_adam_does() {
        let mut parameter = Parameter::new(vec![1.0, -2.0, 0.5]);
        let mut adam = Adam::new(3);
        let mut values = parameter.values.clone();
        for step in 0..20 {
            let slopes = [0.3, -0.1 * step as f32, 0.0];
            parameter.gradient.copy_from_slice(&slopes);
            parameter.step(0.01);
            adam.step(&mut values, &slopes, 0.01);
        }
        for (one, other) in parameter.values.iter().zip(&values) {
            assert!((one - other).abs() < 1e-5, "{one} against {other}");
        }
    }
}
