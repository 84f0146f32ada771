//! A dense network: layers of weights and biases with a bend between them, applied to many rows at once.
//!
//! The weights of a layer lie input by input, so that the inner loop runs over the outputs, which lie side by side: the compiler turns
//! it into vector instructions without help.

use crate::kernel;
use serde::{Deserialize, Serialize};

/// The widest layer accepted.
pub const WIDTH_MAX: usize = 4096;
/// The most layers of weights accepted.
pub const LAYERS_MAX: usize = 16;

/// What is done to the outputs of every layer but the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// The larger of the value and zero.
    Relu,
    /// The hyperbolic tangent.
    Tanh,
}

impl Activation {
    /// The word that files use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Relu => "relu",
            Self::Tanh => "tanh",
        }
    }

    fn apply(self, values: &mut [f32]) {
        match self {
            Self::Relu => values.iter_mut().for_each(|value| *value = value.max(0.0)),
            Self::Tanh => kernel::bend_by_tanh(values),
        }
    }

    /// Multiplies slopes by the derivative, given the values after the bend.
    fn apply_slope(self, slopes: &mut [f32], values: &[f32]) {
        for (slope, value) in slopes.iter_mut().zip(values) {
            *slope *= match self {
                Self::Relu => f32::from(u8::from(*value > 0.0)),
                Self::Tanh => 1.0 - value * value,
            };
        }
    }
}

/// Sizes that no network can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("layer sizes {sizes:?}: give 2 to {most} sizes from 1 to {WIDTH_MAX}", most = LAYERS_MAX + 1)]
pub struct BadSizes {
    /// The sizes that were given.
    pub sizes: Vec<usize>,
}

/// A dense network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Network {
    sizes: Vec<usize>,
    activation: Activation,
    parameters: Vec<f32>,
}

/// What a forward pass leaves behind for the backward pass; reused, so that nothing is allocated in a loop.
#[derive(Clone, Debug, Default)]
pub struct Workspace {
    /// The rows that went in, then the rows after each layer.
    values: Vec<Vec<f32>>,
    slopes: Vec<f32>,
    next_slopes: Vec<f32>,
    /// The weights of a layer, output by output.
    turned: Vec<f32>,
}

impl Workspace {
    /// The rows that the last forward pass gave.
    pub fn output(&self) -> &[f32] {
        self.values.last().map_or(&[], Vec::as_slice)
    }
}

impl Network {
    /// A network with all parameters zero.
    pub fn zero(sizes: &[usize], activation: Activation) -> Result<Self, BadSizes> {
        let sound = (2..=LAYERS_MAX + 1).contains(&sizes.len()) && sizes.iter().all(|size| (1..=WIDTH_MAX).contains(size));
        if !sound {
            return Err(BadSizes { sizes: sizes.to_vec() });
        }
        let count = sizes.windows(2).map(|pair| (pair[0] + 1) * pair[1]).sum();
        Ok(Self { sizes: sizes.to_vec(), activation, parameters: vec![0.0; count] })
    }

    /// A network of one layer with one output, all parameters zero. Sizes beyond [`WIDTH_MAX`] are cut to it.
    pub fn linear(inputs: usize) -> Self {
        let inputs = inputs.clamp(1, WIDTH_MAX);
        Self { sizes: vec![inputs, 1], activation: Activation::Relu, parameters: vec![0.0; inputs + 1] }
    }

    /// A network with weights drawn from a normal distribution of the usual width (He for `relu`, Xavier for `tanh`), biases zero and
    /// the last layer made `last_scale` times smaller. `normal` draws standard normal numbers.
    pub fn random(
        sizes: &[usize],
        activation: Activation,
        last_scale: f32,
        normal: &mut dyn FnMut() -> f64,
    ) -> Result<Self, BadSizes> {
        let mut network = Self::zero(sizes, activation)?;
        let last = sizes.len() - 2;
        let gain = match activation {
            Activation::Relu => 2.0_f32,
            Activation::Tanh => 1.0,
        };
        for (layer, &inputs) in sizes[..=last].iter().enumerate() {
            let (weights, _) = network.layer_ranges(layer);
            let scale = (gain / inputs as f32).sqrt() * if layer == last { last_scale } else { 1.0 };
            network.parameters[weights].iter_mut().for_each(|weight| *weight = normal() as f32 * scale);
        }
        Ok(network)
    }

    /// The sizes of the rows: what goes in, after each layer, what comes out.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// The bend between layers.
    pub fn activation(&self) -> Activation {
        self.activation
    }

    /// Numbers in a row that goes in.
    pub fn inputs(&self) -> usize {
        self.sizes[0]
    }

    /// Numbers in a row that comes out.
    pub fn outputs(&self) -> usize {
        self.sizes[self.sizes.len() - 1]
    }

    /// All parameters, layer by layer: weights input by input, then biases.
    pub fn parameters(&self) -> &[f32] {
        &self.parameters
    }

    /// All parameters, to be changed.
    pub fn parameters_mut(&mut self) -> &mut [f32] {
        &mut self.parameters
    }

    /// Where the weights and the biases of a layer lie.
    pub(crate) fn layer_ranges(&self, layer: usize) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
        let start = self.sizes[..=layer].windows(2).map(|pair| (pair[0] + 1) * pair[1]).sum::<usize>();
        let middle = start + self.sizes[layer] * self.sizes[layer + 1];
        (start..middle, middle..middle + self.sizes[layer + 1])
    }

    /// Applies the network to rows of [`Self::inputs`] numbers. A row that is not whole is left out.
    pub fn forward<'a>(&self, rows: &[f32], workspace: &'a mut Workspace) -> &'a [f32] {
        let count = rows.len() / self.inputs();
        let layers = self.sizes.len() - 1;
        workspace.values.resize_with(layers + 1, Vec::new);
        workspace.values[0].clear();
        workspace.values[0].extend_from_slice(&rows[..count * self.inputs()]);
        for layer in 0..layers {
            let (weights, biases) = self.layer_ranges(layer);
            let (weights, biases) = (&self.parameters[weights], &self.parameters[biases]);
            let (before, after) = workspace.values.split_at_mut(layer + 1);
            let (input, output) = (&before[layer], &mut after[0]);
            let from = self.sizes[layer];
            output.clear();
            for row in input.chunks_exact(from) {
                let start = output.len();
                output.extend_from_slice(biases);
                kernel::add_products(row, weights, &mut output[start..]);
            }
            if layer + 1 < layers {
                self.activation.apply(output);
            }
        }
        workspace.output()
    }

    /// Adds to `gradient` the slope of a loss by every parameter, given the slopes of the loss by what the last forward pass gave.
    pub fn backward(&self, workspace: &mut Workspace, output_slopes: &[f32], gradient: &mut [f32]) {
        let layers = self.sizes.len() - 1;
        let Workspace { values, slopes, next_slopes, turned } = workspace;
        slopes.clear();
        slopes.extend_from_slice(output_slopes);
        for layer in (0..layers).rev() {
            let (from, to) = (self.sizes[layer], self.sizes[layer + 1]);
            if layer + 1 < layers {
                self.activation.apply_slope(slopes, &values[layer + 1]);
            }
            let (weight_range, bias_range) = self.layer_ranges(layer);
            let weights = &self.parameters[weight_range.clone()];
            next_slopes.clear();
            kernel::add_outer_products(&values[layer], from, slopes, to, &mut gradient[weight_range.clone()]);
            for slopes in slopes.chunks_exact(to) {
                for (gradient, slope) in gradient[bias_range.clone()].iter_mut().zip(slopes) {
                    *gradient += slope;
                }
            }
            if layer > 0 {
                kernel::turned(weights, to, turned);
                for slopes in slopes.chunks_exact(to) {
                    let start = next_slopes.len();
                    next_slopes.resize(start + from, 0.0);
                    kernel::add_products(slopes, turned, &mut next_slopes[start..]);
                }
            }
            std::mem::swap(slopes, next_slopes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look random and are the same in every run.
    fn noise(seed: u32) -> impl FnMut() -> f64 {
        let mut state = seed;
        move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(state >> 8) / f64::from(1_u32 << 24) * 2.0 - 1.0
        }
    }

    #[test]
    fn one_layer_is_a_matrix_and_an_offset() {
        let mut network = Network::zero(&[2, 2], Activation::Relu).unwrap();
        network.parameters_mut().copy_from_slice(&[1.0, 2.0, 3.0, 4.0, 0.5, -0.5]);
        let mut workspace = Workspace::default();
        assert_eq!(network.forward(&[1.0, 1.0, 0.0, -1.0], &mut workspace), [4.5, 5.5, -2.5, -4.5]);
    }

    #[test]
    fn gradients_equal_finite_differences() {
        for activation in [Activation::Tanh, Activation::Relu] {
            let mut draw = noise(7);
            let mut network = Network::random(&[3, 8, 5, 2], activation, 1.0, &mut draw).unwrap();
            network.parameters_mut().iter_mut().for_each(|parameter| *parameter += draw() as f32 * 0.1);
            let rows = (0..12).map(|_| draw() as f32).collect::<Vec<_>>();
            let wanted = (0..8).map(|_| draw() as f32).collect::<Vec<_>>();
            let loss = |network: &Network, workspace: &mut Workspace| -> f64 {
                let output = network.forward(&rows, workspace);
                output.iter().zip(&wanted).map(|(value, wanted)| f64::from(value - wanted).powi(2)).sum()
            };
            let mut workspace = Workspace::default();
            loss(&network, &mut workspace);
            let slopes = workspace.output().iter().zip(&wanted).map(|(value, wanted)| 2.0 * (value - wanted)).collect::<Vec<_>>();
            let mut gradient = vec![0.0; network.parameters().len()];
            network.backward(&mut workspace, &slopes, &mut gradient);
            for (position, slope) in gradient.iter().enumerate() {
                let at = network.parameters()[position];
                let step = 1e-3_f32;
                network.parameters_mut()[position] = at + step;
                let above = loss(&network, &mut workspace);
                network.parameters_mut()[position] = at - step;
                let below = loss(&network, &mut workspace);
                network.parameters_mut()[position] = at;
                let numeric = (above - below) / f64::from(2.0 * step);
                let error = (numeric - f64::from(*slope)).abs();
                assert!(error < 2e-2 * (1.0 + numeric.abs()), "{activation:?} {position}: {numeric} against {slope}");
            }
        }
    }

    #[test]
    fn sizes_that_make_no_network_are_refused() {
        for sizes in [&[][..], &[3], &[3, 0], &[WIDTH_MAX + 1, 1], &[1; LAYERS_MAX + 2]] {
            assert_eq!(Network::zero(sizes, Activation::Relu), Err(BadSizes { sizes: sizes.to_vec() }));
        }
    }
}
