//! A dense layer over a batch, with weights as `PyTorch` keeps them: outputs × inputs.

use super::parameter::Parameter;
use crate::matrix::{Matrix, Product, multiply};

/// A dense layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Linear {
    /// Numbers that go in.
    pub inputs: usize,
    /// Numbers that come out.
    pub outputs: usize,
    /// The weights: one for each pair of input and output.
    pub weights: Parameter,
    /// One number for each output.
    pub biases: Parameter,
}

impl Linear {
    /// A layer of these weights and biases.
    pub fn new(inputs: usize, outputs: usize, weights: Vec<f32>, biases: Vec<f32>) -> Self {
        debug_assert_eq!((weights.len(), biases.len()), (inputs * outputs, outputs));
        Self { inputs, outputs, weights: Parameter::new(weights), biases: Parameter::new(biases) }
    }

    /// A layer that gives back what it reads.
    pub fn identity(size: usize) -> Self {
        let weights = (0..size * size).map(|place| f32::from(u8::from(place / size == place % size))).collect();
        Self::new(size, size, weights, vec![0.0; size])
    }

    pub(super) fn forward(&self, input: &[f32], batch: usize, output: &mut Vec<f32>) {
        output.clear();
        for bias in &self.biases.values {
            output.resize(output.len() + batch, *bias);
        }
        let weights = Matrix::new(&self.weights.values, self.outputs, self.inputs);
        multiply(weights, Matrix::new(input, self.inputs, batch), Product::IsAdded, output, batch);
    }

    pub(super) fn backward(&mut self, input: &[f32], batch: usize, slopes: &[f32], input_slopes: &mut Vec<f32>) {
        for (gradient, own) in self.biases.gradient.iter_mut().zip(slopes.chunks_exact(batch)) {
            *gradient = own.iter().sum();
        }
        let own = Matrix::new(slopes, self.outputs, batch);
        let inputs = Matrix::new(input, self.inputs, batch).transposed();
        multiply(own, inputs, Product::Replaces, &mut self.weights.gradient, self.inputs);
        input_slopes.resize(self.inputs * batch, 0.0);
        let weights = Matrix::new(&self.weights.values, self.outputs, self.inputs).transposed();
        multiply(weights, own, Product::Replaces, input_slopes, batch);
    }
}
