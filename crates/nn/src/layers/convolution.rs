//! A convolution of 3×3 with stride 1: the windows of a few images are laid out as a matrix, which is multiplied by the weights.

use super::parameter::Parameter;
use super::stack::Shape;
use crate::matrix::{Matrix, Product, multiply};

/// Numbers in the windows that are laid out at once: they should stay in the processor's second cache.
const WINDOWS: usize = 1 << 17;
/// Weights from one input channel to one output channel.
const KERNEL: usize = 9;

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
    windows: Vec<f32>,
}

impl Convolution {
    /// A convolution of these weights and biases.
    pub fn new(inputs: usize, outputs: usize, padding: usize, weights: Vec<f32>, biases: Vec<f32>) -> Self {
        debug_assert_eq!((weights.len(), biases.len()), (inputs * outputs * KERNEL, outputs));
        let (weights, biases) = (Parameter::new(weights), Parameter::new(biases));
        Self { inputs, outputs, padding, weights, biases, windows: Vec::new() }
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

    /// Images that are laid out at once.
    fn stretch(&self, pixels: usize) -> usize {
        (WINDOWS / (self.inputs * KERNEL * pixels).max(1)).max(1)
    }

    pub(super) fn forward(&mut self, input: &[f32], batch: usize, shape: Shape, output: &mut Vec<f32>) {
        let pixels = self.shape(shape).pixels();
        output.clear();
        for bias in &self.biases.values {
            output.resize(output.len() + batch * pixels, *bias);
        }
        let depth = self.inputs * KERNEL;
        let stretch = self.stretch(pixels);
        for first in (0..batch).step_by(stretch) {
            let images = stretch.min(batch - first);
            self.lay_out(input, batch, shape, first, images);
            let weights = Matrix::new(&self.weights.values, self.outputs, depth);
            let windows = Matrix::new(&self.windows, depth, images * pixels);
            multiply(weights, windows, Product::IsAdded, &mut output[first * pixels..], batch * pixels);
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
        let pixels = self.shape(shape).pixels();
        let depth = self.inputs * KERNEL;
        let stretch = self.stretch(pixels);
        self.weights.gradient.fill(0.0);
        for (gradient, channel) in self.biases.gradient.iter_mut().zip(slopes.chunks_exact(batch * pixels)) {
            *gradient = super::batch_norm::sum(channel);
        }
        if let Some(input_slopes) = &mut input_slopes {
            input_slopes.clear();
            input_slopes.resize(input.len(), 0.0);
        }
        for first in (0..batch).step_by(stretch) {
            let images = stretch.min(batch - first);
            self.lay_out(input, batch, shape, first, images);
            let own = Matrix::strided(&slopes[first * pixels..], self.outputs, images * pixels, batch * pixels);
            let windows = Matrix::new(&self.windows, depth, images * pixels).transposed();
            multiply(own, windows, Product::IsAdded, &mut self.weights.gradient, depth);
            if let Some(input_slopes) = &mut input_slopes {
                let weights = Matrix::new(&self.weights.values, self.outputs, depth).transposed();
                multiply(weights, own, Product::Replaces, &mut self.windows, images * pixels);
                self.gather(input_slopes, batch, shape, first, images);
            }
        }
    }

    /// The columns of an output row that a column of the kernel reads from inside the image, and the first column it reads.
    fn inside(&self, offset: usize, width: usize, out_width: usize) -> (usize, usize, usize) {
        let from = self.padding.saturating_sub(offset);
        let to = (width + self.padding).saturating_sub(offset).min(out_width);
        (from, to, from + offset - self.padding.min(from + offset))
    }

    /// Calls for every window row of some images: where its numbers stand among the windows, and which row of the input they come from.
    /// `None` says that the row lies in the padding.
    fn rows(
        &self,
        batch: usize,
        shape: Shape,
        first: usize,
        images: usize,
        mut tell: impl FnMut(usize, Option<usize>, (usize, usize, usize)),
    ) {
        let out = self.shape(shape);
        let mut place = 0;
        for channel in 0..self.inputs {
            for kernel in 0..KERNEL {
                let (down, across) = (kernel / 3, kernel % 3);
                let inside = self.inside(across, shape.width, out.width);
                for image in first..first + images {
                    let base = (channel * batch + image) * shape.pixels();
                    for row in 0..out.height {
                        let read = (row + down).checked_sub(self.padding).filter(|read| *read < shape.height);
                        tell(place, read.map(|read| base + read * shape.width), inside);
                        place += out.width;
                    }
                }
            }
        }
    }

    /// Lays the windows of some images out: a row for each input channel and kernel place, a column for each output pixel.
    fn lay_out(&mut self, input: &[f32], batch: usize, shape: Shape, first: usize, images: usize) {
        let out = self.shape(shape);
        let mut windows = std::mem::take(&mut self.windows);
        windows.resize(self.inputs * KERNEL * images * out.pixels(), 0.0);
        self.rows(batch, shape, first, images, |place, read, (from, to, start)| {
            let target = &mut windows[place..place + out.width];
            match read {
                Some(read) => {
                    target[..from].fill(0.0);
                    target[from..to].copy_from_slice(&input[read + start..read + start + (to - from)]);
                    target[to..].fill(0.0);
                }
                None => target.fill(0.0),
            }
        });
        self.windows = windows;
    }

    /// Adds the slopes of the windows to those of the pixels they were read from.
    fn gather(&self, input_slopes: &mut [f32], batch: usize, shape: Shape, first: usize, images: usize) {
        let windows = &self.windows;
        self.rows(batch, shape, first, images, |place, read, (from, to, start)| {
            if let Some(read) = read {
                let target = &mut input_slopes[read + start..read + start + (to - from)];
                target.iter_mut().zip(&windows[place + from..place + to]).for_each(|(slope, own)| *slope += own);
            }
        });
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
