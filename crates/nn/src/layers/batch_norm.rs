//! Batch normalisation: every channel is brought to mean 0 and variance 1 over the batch, then scaled and shifted.

use super::parameter::Parameter;
use crate::vectorised::vectorised;

/// Keeps a channel that never changes from being divided by zero.
pub const EPSILON: f32 = 1e-5;
const MOMENTUM: f32 = 0.1;
const LANES: usize = 16;

/// Batch normalisation over channels.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchNorm {
    /// The scale of each channel.
    pub scale: Parameter,
    /// The shift of each channel.
    pub shift: Parameter,
    /// The running mean of each channel, which evaluation uses.
    pub running_mean: Vec<f32>,
    /// The running variance of each channel, which evaluation uses.
    pub running_variance: Vec<f32>,
    /// The mean and one over the standard deviation of each channel in the last batch.
    seen: Vec<(f32, f32)>,
}

#[expect(clippy::inline_always, reason = "the body must be compiled inside a vectorised function")]
#[inline(always)]
fn lanes(values: &[f32], other: &[f32], term: impl Fn(f32, f32) -> f32) -> f32 {
    let mut sums = [0.0; LANES];
    let whole = values.len() / LANES * LANES;
    for (values, other) in values[..whole].chunks_exact(LANES).zip(other[..whole].chunks_exact(LANES)) {
        for lane in 0..LANES {
            sums[lane] += term(values[lane], other[lane]);
        }
    }
    let rest = values[whole..].iter().zip(&other[whole..]).map(|(value, other)| term(*value, *other)).sum::<f32>();
    sums.iter().sum::<f32>() + rest
}

vectorised! {
    fn add_up(values: &[f32], total: &mut f32) {
        *total = lanes(values, values, |value, _| value);
    }
}

/// The sum of numbers.
pub(super) fn sum(values: &[f32]) -> f32 {
    let mut total = 0.0;
    add_up(values, &mut total);
    total
}

vectorised! {
    fn squares_around(values: &[f32], mean: f32, total: &mut f32) {
        *total = lanes(values, values, |value, _| (value - mean) * (value - mean));
    }
}

vectorised! {
    fn scaled(values: &[f32], factor: f32, offset: f32, output: &mut [f32]) {
        for (value, target) in values.iter().zip(output) {
            *target = value * factor + offset;
        }
    }
}

vectorised! {
    fn product_around(slopes: &[f32], values: &[f32], mean: f32, total: &mut f32) {
        *total = lanes(slopes, values, |slope, value| slope * (value - mean));
    }
}

vectorised! {
    fn back(slopes: &mut [f32], values: &[f32], mean: f32, factors: [f32; 3]) {
        let [outer, offset, tilt] = factors;
        for (slope, value) in slopes.iter_mut().zip(values) {
            *slope = outer * (*slope - offset - (value - mean) * tilt);
        }
    }
}

/// The mean and the variance of numbers.
pub fn moments(values: &[f32]) -> (f32, f32) {
    let count = values.len().max(1) as f32;
    let mean = sum(values) / count;
    let mut squares = 0.0;
    squares_around(values, mean, &mut squares);
    (mean, squares / count)
}

impl BatchNorm {
    /// Scale 1, shift 0, running mean 0 and variance 1.
    pub fn new(channels: usize) -> Self {
        Self {
            scale: Parameter::new(vec![1.0; channels]),
            shift: Parameter::new(vec![0.0; channels]),
            running_mean: vec![0.0; channels],
            running_variance: vec![1.0; channels],
            seen: vec![(0.0, 1.0); channels],
        }
    }

    /// A layer that gives back what it reads, in evaluation and, on a batch with these moments, in training too.
    pub fn calibrated(moments: &[(f32, f32)]) -> Self {
        let mut layer = Self::new(moments.len());
        for (channel, (mean, variance)) in moments.iter().enumerate() {
            layer.scale.values[channel] = (variance + EPSILON).sqrt();
            layer.shift.values[channel] = *mean;
            layer.running_mean[channel] = *mean;
            layer.running_variance[channel] = *variance;
        }
        layer
    }

    /// Normalises by the batch and moves the running moments towards it.
    pub(super) fn train(&mut self, input: &[f32], output: &mut Vec<f32>) {
        output.resize(input.len(), 0.0);
        let count = input.len() / self.seen.len();
        let unbiased = count as f32 / count.saturating_sub(1).max(1) as f32;
        let channels = input.chunks_exact(count).zip(output.chunks_exact_mut(count)).enumerate();
        for (channel, (values, target)) in channels {
            let (mean, variance) = moments(values);
            let inverse = 1.0 / (variance + EPSILON).sqrt();
            let factor = self.scale.values[channel] * inverse;
            scaled(values, factor, self.shift.values[channel] - mean * factor, target);
            self.seen[channel] = (mean, inverse);
            let running = &mut self.running_mean[channel];
            *running += MOMENTUM * (mean - *running);
            let running = &mut self.running_variance[channel];
            *running += MOMENTUM * (variance * unbiased - *running);
        }
    }

    /// Normalises by the running moments.
    pub(super) fn evaluate(&self, input: &[f32], output: &mut Vec<f32>) {
        output.resize(input.len(), 0.0);
        let count = input.len() / self.seen.len();
        let channels = input.chunks_exact(count).zip(output.chunks_exact_mut(count)).enumerate();
        for (channel, (values, target)) in channels {
            let factor = self.scale.values[channel] / (self.running_variance[channel] + EPSILON).sqrt();
            scaled(values, factor, self.shift.values[channel] - self.running_mean[channel] * factor, target);
        }
    }

    /// Sets the slopes of scale and shift, and turns the slopes of what came out into those of what went in.
    pub(super) fn backward(&mut self, input: &[f32], slopes: &mut [f32]) {
        let count = input.len() / self.seen.len();
        let channels = input.chunks_exact(count).zip(slopes.chunks_exact_mut(count)).enumerate();
        for (channel, (values, slopes)) in channels {
            let (mean, inverse) = self.seen[channel];
            let total = sum(slopes);
            let mut tilt = 0.0;
            product_around(slopes, values, mean, &mut tilt);
            self.shift.gradient[channel] = total;
            self.scale.gradient[channel] = tilt * inverse;
            let outer = self.scale.values[channel] * inverse;
            back(slopes, values, mean, [outer, total / count as f32, tilt * inverse * inverse / count as f32]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{assert_slopes, noise};

    #[test]
    fn gradients_equal_finite_differences() {
        let mut draw = noise(6);
        let mut layer = BatchNorm::new(2);
        layer.scale.values.copy_from_slice(&[1.5, -0.7]);
        layer.shift.values.copy_from_slice(&[0.2, 0.1]);
        let input = (0..40).map(|_| 3.0 * draw()).collect::<Vec<_>>();
        let weights = (0..40).map(|_| draw()).collect::<Vec<_>>();
        let loss = |layer: &BatchNorm, input: &[f32]| {
            let mut output = Vec::new();
            layer.clone().train(input, &mut output);
            output.iter().zip(&weights).map(|(value, weight)| f64::from(value * weight)).sum::<f64>()
        };
        let mut output = Vec::new();
        layer.train(&input, &mut output);
        let mut slopes = weights.clone();
        layer.backward(&input, &mut slopes);
        assert_slopes(&input, &slopes, |moved| loss(&layer, moved));
        let changed = |scale: &[f32], shift: &[f32]| {
            let mut other = layer.clone();
            other.scale.values.copy_from_slice(scale);
            other.shift.values.copy_from_slice(shift);
            loss(&other, &input)
        };
        assert_slopes(&layer.scale.values, &layer.scale.gradient, |moved| changed(moved, &layer.shift.values));
        assert_slopes(&layer.shift.values, &layer.shift.gradient, |moved| changed(&layer.scale.values, moved));
    }

    #[test]
    fn a_calibrated_layer_changes_nothing_in_both_modes() {
        let mut draw = noise(8);
        let input = (0..60).map(|_| 5.0 * draw() + 1.0).collect::<Vec<_>>();
        let mut layer = BatchNorm::calibrated(&[moments(&input[..30]), moments(&input[30..])]);
        for mode in ["evaluation", "training"] {
            let mut output = Vec::new();
            if mode == "training" {
                layer.train(&input, &mut output);
            } else {
                layer.evaluate(&input, &mut output);
            }
            let difference = input.iter().zip(&output).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max);
            assert!(difference < 1e-5, "{mode}: {difference}");
        }
    }
}
