//! A dense layer applied to one row at a time, with parameters that the caller owns: weights input by input, then biases.

use crate::vectorised::{add_row_times_matrix, matrix_times_column, vectorised};
use std::ops::Range;

/// The shape of a dense layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DenseRow {
    /// Numbers that go in.
    pub inputs: usize,
    /// Numbers that come out.
    pub outputs: usize,
}

vectorised! {
    /// Adds the product of a column and a row to a matrix.
    fn add_outer(column: &[f32], row: &[f32], matrix: &mut [f32]) {
        for (value, target) in column.iter().zip(matrix.chunks_exact_mut(row.len())) {
            for (target, other) in target.iter_mut().zip(row) {
                *target += value * other;
            }
        }
    }
}

impl DenseRow {
    /// How many parameters it has.
    pub fn parameters(self) -> usize {
        (self.inputs + 1) * self.outputs
    }

    /// Where the weights and the biases stand.
    pub fn ranges(self) -> [Range<usize>; 2] {
        let weights = self.inputs * self.outputs;
        [0..weights, weights..weights + self.outputs]
    }

    /// Applies the layer.
    pub fn forward(self, parameters: &[f32], row: &[f32], output: &mut Vec<f32>) {
        let [weights, biases] = self.ranges();
        output.clear();
        output.extend_from_slice(&parameters[biases]);
        add_row_times_matrix(&parameters[weights], row, output);
    }

    /// Adds the slopes of the parameters to `gradient` and sets those of the row that went in.
    pub fn backward(self, parameters: &[f32], row: &[f32], slopes: &[f32], gradient: &mut [f32], row_slopes: &mut Vec<f32>) {
        let [weights, biases] = self.ranges();
        gradient[biases].iter_mut().zip(slopes).for_each(|(gradient, slope)| *gradient += slope);
        add_outer(row, slopes, &mut gradient[weights.clone()]);
        row_slopes.clear();
        row_slopes.resize(self.inputs, 0.0);
        matrix_times_column(&parameters[weights], slopes, row_slopes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{assert_slopes, noise};

    #[test]
    fn gradients_equal_finite_differences() {
        let layer = DenseRow { inputs: 5, outputs: 9 };
        let mut draw = noise(2);
        let parameters = (0..layer.parameters()).map(|_| draw()).collect::<Vec<_>>();
        let row = (0..5).map(|_| draw()).collect::<Vec<_>>();
        let weights = (0..9).map(|_| draw()).collect::<Vec<_>>();
        let loss = |parameters: &[f32], row: &[f32]| {
            let mut output = Vec::new();
            layer.forward(parameters, row, &mut output);
            output.iter().zip(&weights).map(|(value, weight)| f64::from(value * weight)).sum::<f64>()
        };
        let mut gradient = vec![0.0; parameters.len()];
        let mut row_slopes = Vec::new();
        layer.backward(&parameters, &row, &weights, &mut gradient, &mut row_slopes);
        assert_slopes(&parameters, &gradient, |moved| loss(moved, &row));
        assert_slopes(&row, &row_slopes, |moved| loss(&parameters, moved));
    }
}
