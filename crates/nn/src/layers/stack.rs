//! A network for images: layers one after the other, with what a training step needs to remember between the way there and the way back.

use super::batch_norm::BatchNorm;
use super::convolution::Convolution;
use super::linear::Linear;
use super::parameter::Parameter;
use super::pool;
use crate::vectorised::vectorised;

/// The shape of one image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field is its own name")]
pub struct Shape {
    pub channels: usize,
    pub height: usize,
    pub width: usize,
}

impl Shape {
    /// Pixels of one channel.
    pub fn pixels(self) -> usize {
        self.height * self.width
    }

    /// Numbers of one image.
    pub fn numbers(self) -> usize {
        self.channels * self.pixels()
    }
}

/// Whether batch normalisation uses the batch or what it remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The batch's own moments.
    Train,
    /// The running moments.
    Evaluate,
}

/// A layer of a network.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "they are called as everybody calls them")]
pub enum Layer {
    Convolution(Convolution),
    BatchNorm(BatchNorm),
    Relu,
    AveragePool,
    GlobalPool,
    /// Lays an image flat ahead of a dense layer.
    Flatten,
    Linear(Linear),
}

/// Layers that do not fit each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("layer {place} takes {wanted} channels, but {found} reach it")]
pub struct LayerError {
    /// The layer, from 0.
    pub place: usize,
    /// Channels that it takes.
    pub wanted: usize,
    /// Channels that there are.
    pub found: usize,
}

impl Layer {
    /// The tensors that learn.
    pub fn parameters(&self) -> Vec<(&'static str, &Parameter)> {
        match self {
            Self::Convolution(layer) => vec![("weight", &layer.weights), ("bias", &layer.biases)],
            Self::BatchNorm(layer) => vec![("weight", &layer.scale), ("bias", &layer.shift)],
            Self::Linear(layer) => vec![("weight", &layer.weights), ("bias", &layer.biases)],
            Self::Relu | Self::AveragePool | Self::GlobalPool | Self::Flatten => Vec::new(),
        }
    }

    /// The tensors that learn, to be changed.
    pub fn parameters_mut(&mut self) -> Vec<&mut Parameter> {
        match self {
            Self::Convolution(layer) => vec![&mut layer.weights, &mut layer.biases],
            Self::BatchNorm(layer) => vec![&mut layer.scale, &mut layer.shift],
            Self::Linear(layer) => vec![&mut layer.weights, &mut layer.biases],
            Self::Relu | Self::AveragePool | Self::GlobalPool | Self::Flatten => Vec::new(),
        }
    }

    fn shape(&self, input: Shape) -> Shape {
        match self {
            Self::Convolution(layer) => layer.shape(input),
            Self::BatchNorm(_) | Self::Relu => input,
            Self::AveragePool => Shape { height: input.height / 2, width: input.width / 2, ..input },
            Self::GlobalPool => Shape { height: 1, width: 1, ..input },
            Self::Flatten => Shape { channels: input.numbers(), height: 1, width: 1 },
            Self::Linear(layer) => Shape { channels: layer.outputs, height: 1, width: 1 },
        }
    }
}

vectorised! {
    fn bend(values: &mut [f32]) {
        for value in values.iter_mut() {
            *value = value.max(0.0);
        }
    }
}

vectorised! {
    fn bend_back(slopes: &mut [f32], values: &[f32]) {
        for (slope, value) in slopes.iter_mut().zip(values) {
            *slope = if *value > 0.0 { *slope } else { 0.0 };
        }
    }
}

/// A network: layers one after another, with the values of its last pass.
#[derive(Clone, Debug)]
pub struct Stack {
    /// The shape of an image.
    pub input: Shape,
    /// The layers, from input to output.
    pub layers: Vec<Layer>,
    /// What went into each layer, and what came out of the last. What a `ReLU` read is overwritten by what it gave.
    values: Vec<Vec<f32>>,
    slopes: Vec<f32>,
    next_slopes: Vec<f32>,
}

impl Stack {
    /// A network of layers that fit each other.
    pub fn new(input: Shape, layers: Vec<Layer>) -> Result<Self, LayerError> {
        let mut shape = input;
        for (place, layer) in layers.iter().enumerate() {
            let wanted = match layer {
                Layer::Convolution(layer) => layer.inputs,
                Layer::BatchNorm(layer) => layer.running_mean.len(),
                Layer::Linear(layer) => layer.inputs,
                Layer::Relu | Layer::AveragePool | Layer::GlobalPool | Layer::Flatten => shape.channels,
            };
            if wanted != shape.channels {
                return Err(LayerError { place, wanted, found: shape.channels });
            }
            shape = layer.shape(shape);
        }
        Ok(Self { input, layers, values: Vec::new(), slopes: Vec::new(), next_slopes: Vec::new() })
    }

    /// How many numbers learn.
    pub fn parameters(&self) -> usize {
        self.layers.iter().flat_map(Layer::parameters).map(|(_, parameter)| parameter.values.len()).sum()
    }

    /// The scores of a batch (images lie channel by channel), one row for each image.
    pub fn forward(&mut self, images: &[f32], batch: usize, mode: Mode) -> Vec<f32> {
        self.forward_to(images, batch, mode, self.layers.len());
        let last = self.values.last().map_or(&[][..], Vec::as_slice);
        let classes = last.len() / batch.max(1);
        (0..batch).flat_map(|image| (0..classes).map(move |class| last[class * batch + image])).collect()
    }

    /// What a batch is after the first `count` layers, channel by channel.
    pub fn forward_to(&mut self, images: &[f32], batch: usize, mode: Mode, count: usize) -> &[f32] {
        let mut shape = self.input;
        self.values.resize_with(count + 1, Vec::new);
        self.values.truncate(count + 1);
        self.values[0].clear();
        self.values[0].extend_from_slice(images);
        for (place, layer) in self.layers[..count].iter_mut().enumerate() {
            let (before, after) = self.values.split_at_mut(place + 1);
            let (input, output) = (&mut before[place], &mut after[0]);
            match layer {
                Layer::Convolution(layer) => layer.forward(input, batch, shape, output),
                Layer::BatchNorm(layer) if mode == Mode::Train => layer.train(input, output),
                Layer::BatchNorm(layer) => layer.evaluate(input, output),
                Layer::Relu => {
                    std::mem::swap(input, output);
                    bend(output);
                }
                Layer::AveragePool => pool::average(input, shape, output),
                Layer::GlobalPool => pool::global(input, shape, output),
                Layer::Flatten => pool::flat(input, batch, shape, output),
                Layer::Linear(layer) => layer.forward(input, batch, output),
            }
            shape = layer.shape(shape);
        }
        &self.values[count]
    }

    /// Sets the slopes of all parameters, given those of the scores (one row for each image) after a forward pass in training mode.
    pub fn backward(&mut self, score_slopes: &[f32], batch: usize) {
        let classes = score_slopes.len() / batch.max(1);
        let mut shapes = vec![self.input];
        for layer in &self.layers {
            shapes.push(layer.shape(shapes[shapes.len() - 1]));
        }
        let Self { layers, values, slopes, next_slopes, .. } = self;
        slopes.clear();
        slopes.extend((0..classes).flat_map(|class| (0..batch).map(move |image| score_slopes[image * classes + class])));
        for (place, layer) in layers.iter_mut().enumerate().rev() {
            let (input, shape) = (&values[place], shapes[place]);
            let first = place == 0;
            match layer {
                Layer::Relu => bend_back(slopes, &values[place + 1]),
                Layer::BatchNorm(layer) => layer.backward(input, slopes),
                Layer::Flatten => return,
                Layer::Convolution(layer) => {
                    layer.backward(input, batch, shape, slopes, (!first).then_some(&mut *next_slopes));
                    std::mem::swap(slopes, next_slopes);
                }
                Layer::AveragePool => {
                    pool::average_back(slopes, shape, next_slopes);
                    std::mem::swap(slopes, next_slopes);
                }
                Layer::GlobalPool => {
                    pool::global_back(slopes, shape, next_slopes);
                    std::mem::swap(slopes, next_slopes);
                }
                Layer::Linear(layer) => {
                    layer.backward(input, batch, slopes, next_slopes);
                    std::mem::swap(slopes, next_slopes);
                }
            }
        }
    }

    /// Moves every parameter one step of Adam.
    pub fn step(&mut self, rate: f64) {
        for layer in &mut self.layers {
            layer.parameters_mut().into_iter().for_each(|parameter| parameter.step(rate));
        }
    }

    /// Empties the optimiser.
    pub fn forget(&mut self) {
        for layer in &mut self.layers {
            layer.parameters_mut().into_iter().for_each(Parameter::forget);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{assert_slopes, noise};
    use crate::cross_entropy;

    fn example() -> (Stack, Vec<f32>) {
        let mut draw = noise(12);
        let mut numbers = |count: usize| (0..count).map(|_| draw()).collect::<Vec<_>>();
        let layers = vec![
            Layer::Convolution(Convolution::new(1, 3, 0, numbers(27), numbers(3))),
            Layer::BatchNorm(BatchNorm::new(3)),
            Layer::Relu,
            Layer::AveragePool,
            Layer::Convolution(Convolution::new(3, 4, 1, numbers(108), numbers(4))),
            Layer::BatchNorm(BatchNorm::new(4)),
            Layer::Relu,
            Layer::GlobalPool,
            Layer::Linear(Linear::new(4, 5, numbers(20), numbers(5))),
        ];
        let images = numbers(3 * 49);
        (Stack::new(Shape { channels: 1, height: 7, width: 7 }, layers).unwrap(), images)
    }

    #[test]
    fn gradients_of_a_whole_network_equal_finite_differences() {
        let (mut stack, images) = example();
        let labels = [0, 4, 2];
        let mut scores = stack.forward(&images, 3, Mode::Train);
        cross_entropy(&mut scores, 5, &labels);
        stack.backward(&scores, 3);
        for place in [0, 1, 4, 5, 8] {
            for which in 0..2 {
                let parameter = stack.layers[place].parameters()[which].1.clone();
                assert_slopes(&parameter.values, &parameter.gradient, |moved| {
                    let mut other = stack.clone();
                    other.layers[place].parameters_mut()[which].values.copy_from_slice(moved);
                    cross_entropy(&mut other.forward(&images, 3, Mode::Train), 5, &labels).0
                });
            }
        }
    }

    #[test]
    fn a_network_learns_three_images_by_heart() {
        let (mut stack, images) = example();
        let labels = [0, 4, 2];
        let mut losses = Vec::new();
        for _ in 0..200 {
            let mut scores = stack.forward(&images, 3, Mode::Train);
            losses.push(cross_entropy(&mut scores, 5, &labels).0);
            stack.backward(&scores, 3);
            stack.step(0.02);
        }
        assert!(losses[199] < 0.1 * losses[0], "{} to {}", losses[0], losses[199]);
    }

    #[test]
    fn layers_that_do_not_fit_are_refused() {
        let layers = vec![Layer::BatchNorm(BatchNorm::new(3))];
        let error = Stack::new(Shape { channels: 1, height: 7, width: 7 }, layers).unwrap_err();
        assert_eq!(error.to_string(), "layer 0 takes 3 channels, but 1 reach it");
    }
}
