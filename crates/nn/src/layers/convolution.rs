//! A convolution of 3×3 with stride 1, as a sum of shifted planes ([`super::planes`]).

use super::parameter::Parameter;
use super::planes::{Geometry, KERNEL, Workbench, add_products, pack};
use super::stack::Shape;

/// Numbers of the planes that are worked on at once: they should stay in the processor's second cache.
const CACHED: usize = 1 << 16;

/// A convolution. Its weights lie as `PyTorch` keeps them: outputs × inputs × 3 × 3.
#[derive(Clone, Debug, PartialEq)]
pub struct Convolution {
    /// Channels that go in.
    pub inputs: usize,
    /// Channels that come out.
    pub outputs: usize,
    /// Rows and columns of zeros around the image.
    pub padding: usize,
    /// The weights: one window for each pair of channels.
    pub weights: Parameter,
    /// One number for each output channel.
    pub biases: Parameter,
    bench: Box<Workbench>,
}

impl Convolution {
    /// A convolution of these weights and biases.
    pub fn new(inputs: usize, outputs: usize, padding: usize, weights: Vec<f32>, biases: Vec<f32>) -> Self {
        debug_assert_eq!((weights.len(), biases.len()), (inputs * outputs * KERNEL, outputs));
        let (weights, biases) = (Parameter::new(weights), Parameter::new(biases));
        Self { inputs, outputs, padding, weights, biases, bench: Box::default() }
    }

    /// A convolution that gives back what it reads: as many channels out as in, padding 1.
    pub fn identity(channels: usize) -> Self {
        let mut weights = vec![0.0; channels * channels * KERNEL];
        for channel in 0..channels {
            weights[(channel * channels + channel) * KERNEL + KERNEL / 2] = 1.0;
        }
        Self::new(channels, channels, 1, weights, vec![0.0; channels])
    }

    /// The shape that comes out.
    pub fn shape(&self, input: Shape) -> Shape {
        let side = |length: usize| (length + 2 * self.padding).saturating_sub(2);
        Shape { channels: self.outputs, height: side(input.height), width: side(input.width) }
    }

    /// The images of a batch in stretches that are worked on at once.
    fn stretches(&self, batch: usize, geometry: Geometry) -> impl Iterator<Item = std::ops::Range<usize>> + use<> {
        let length = (CACHED / (self.inputs.max(self.outputs) * geometry.plane).max(1)).max(1);
        (0..batch).step_by(length).map(move |first| first..batch.min(first + length))
    }

    fn weight(&self, output: usize, input: usize, place: usize) -> f32 {
        self.weights.values[(output * self.inputs + input) * KERNEL + place]
    }

    pub(super) fn forward(&mut self, input: &[f32], batch: usize, shape: Shape, output: &mut Vec<f32>) {
        let (geometry, out) = (Geometry::new(shape, self.padding), self.shape(shape));
        output.clear();
        output.resize(self.outputs * batch * out.pixels(), 0.0);
        let packed = pack(self.inputs, self.outputs, |output, input, place| self.weight(output, input, place));
        for images in self.stretches(batch, geometry) {
            let Workbench { input: planes, summed, .. } = &mut *self.bench;
            planes.read(input, batch, images.clone(), geometry);
            summed.correlate(planes, &packed, self.outputs, images.len(), geometry);
            let biases = &self.biases.values;
            summed.write(output, batch, images, geometry.holding(out), |channel| biases[channel]);
        }
    }

    /// Sets the slopes of weights and biases, and those of what went in where they are wanted.
    pub(super) fn backward(
        &mut self,
        input: &[f32],
        batch: usize,
        shape: Shape,
        slopes: &[f32],
        mut input_slopes: Option<&mut Vec<f32>>,
    ) {
        let (geometry, out) = (Geometry::new(shape, self.padding), self.shape(shape));
        self.weights.gradient.fill(0.0);
        for (gradient, channel) in self.biases.gradient.iter_mut().zip(slopes.chunks_exact((batch * out.pixels()).max(1))) {
            *gradient = super::batch_norm::sum(channel);
        }
        if let Some(input_slopes) = &mut input_slopes {
            input_slopes.clear();
            input_slopes.resize(input.len(), 0.0);
        }
        // The way back reads the kernel from its end.
        let packed = pack(self.outputs, self.inputs, |input, output, place| self.weight(output, input, KERNEL - 1 - place));
        for images in self.stretches(batch, geometry) {
            let Workbench { input: planes, slopes: own, summed } = &mut *self.bench;
            planes.read(input, batch, images.clone(), geometry);
            own.read_back(slopes, batch, images.clone(), geometry.holding(out));
            let sizes = (self.outputs, self.inputs);
            add_products(&mut self.weights.gradient, own, planes, sizes, images.len(), geometry);
            if let Some(input_slopes) = &mut input_slopes {
                summed.correlate(own, &packed, self.inputs, images.len(), geometry);
                summed.write(input_slopes, batch, images, geometry, |_| 0.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{assert_slopes, noise};

    fn example(padding: usize) -> (Convolution, Vec<f32>, Shape) {
        let mut draw = noise(9);
        let (inputs, outputs) = (2, 3);
        let shape = Shape { channels: inputs, height: 4, width: 5 };
        let weights = (0..inputs * outputs * KERNEL).map(|_| draw()).collect();
        let biases = (0..outputs).map(|_| draw()).collect();
        let input = (0..2 * shape.channels * shape.pixels()).map(|_| draw()).collect();
        (Convolution::new(inputs, outputs, padding, weights, biases), input, shape)
    }

    /// The definition of a convolution, number by number.
    fn plain(layer: &Convolution, input: &[f32], batch: usize, shape: Shape) -> Vec<f32> {
        let out = layer.shape(shape);
        let mut result = Vec::new();
        for output in 0..layer.outputs {
            for image in 0..batch {
                for place in 0..out.pixels() {
                    let mut sum = layer.biases.values[output];
                    for channel in 0..layer.inputs {
                        for kernel in 0..KERNEL {
                            let row = (place / out.width + kernel / 3).wrapping_sub(layer.padding);
                            let column = (place % out.width + kernel % 3).wrapping_sub(layer.padding);
                            if row < shape.height && column < shape.width {
                                let weight = layer.weights.values[(output * layer.inputs + channel) * KERNEL + kernel];
                                sum += weight * input[((channel * batch + image) * shape.height + row) * shape.width + column];
                            }
                        }
                    }
                    result.push(sum);
                }
            }
        }
        result
    }

    #[test]
    fn it_is_a_convolution_and_its_gradients_equal_finite_differences() {
        for padding in [0, 1] {
            let (mut layer, input, shape) = example(padding);
            let mut output = Vec::new();
            layer.forward(&input, 2, shape, &mut output);
            let wanted = plain(&layer, &input, 2, shape);
            assert!(output.len() == wanted.len() && output.iter().zip(&wanted).all(|(one, other)| (one - other).abs() < 1e-5));
            let mut draw = noise(1);
            let slopes = output.iter().map(|_| draw()).collect::<Vec<_>>();
            let loss = |layer: &Convolution, input: &[f32]| {
                let values = plain(layer, input, 2, shape);
                values.iter().zip(&slopes).map(|(value, slope)| f64::from(value * slope)).sum::<f64>()
            };
            let mut input_slopes = Vec::new();
            layer.backward(&input, 2, shape, &slopes, Some(&mut input_slopes));
            assert_slopes(&input, &input_slopes, |moved| loss(&layer, moved));
            let changed = |weights: Option<&[f32]>, biases: Option<&[f32]>| {
                let mut other = layer.clone();
                if let Some(values) = weights {
                    other.weights.values.copy_from_slice(values);
                }
                if let Some(values) = biases {
                    other.biases.values.copy_from_slice(values);
                }
                loss(&other, &input)
            };
            assert_slopes(&layer.weights.values, &layer.weights.gradient, |moved| changed(Some(moved), None));
            assert_slopes(&layer.biases.values, &layer.biases.gradient, |moved| changed(None, Some(moved)));
        }
    }

    #[test]
    fn an_identity_changes_nothing() {
        let (_, input, shape) = example(1);
        let mut output = Vec::new();
        Convolution::identity(2).forward(&input, 2, shape, &mut output);
        assert_eq!(output, input);
    }
}
