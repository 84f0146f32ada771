//! An LSTM over one sequence, as `PyTorch` defines it: gates in the order input, forget, cell, output, two bias vectors, a state of zeros
//! at the start. A sequence can be read from its first or from its last row.
//!
//! The weights lie input by input (`inputs × 4·hidden`, then `hidden × 4·hidden`, then both biases), so that a step runs over outputs that
//! lie side by side.

use crate::matrix::{Matrix, Product, multiply};
use crate::vectorised::{add_row_times_matrix, matrix_times_column, sigmoid, tanh, vectorised};

/// The end of the sequence that an LSTM starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the first row to the last.
    Forward,
    /// From the last row to the first.
    Backward,
}

/// The shape of an LSTM. Its parameters are a slice that the caller owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lstm {
    /// Numbers in a row.
    pub inputs: usize,
    /// Numbers in the state.
    pub hidden: usize,
    /// Where it starts.
    pub direction: Direction,
}

/// What a forward pass leaves behind, by steps in the order in which they were taken.
#[derive(Clone, Debug, Default)]
pub struct LstmTape {
    steps: usize,
    /// The rows in the order of the steps.
    inputs: Vec<f32>,
    /// The gates after their curves.
    gates: Vec<f32>,
    /// The cells after each step, with the zeros of the start before them.
    cells: Vec<f32>,
    /// The states after each step, with the zeros of the start before them.
    states: Vec<f32>,
    gate_slopes: Vec<f32>,
    input_slopes: Vec<f32>,
}

impl LstmTape {
    /// The state after the last step.
    pub fn last_state(&self, lstm: Lstm) -> &[f32] {
        &self.states[self.steps * lstm.hidden..]
    }
}

vectorised! {
    /// One step: gates become curves, the cell moves on, the state is made.
    fn advance(gates: &mut [f32], cell_before: &[f32], cell: &mut [f32], state: &mut [f32]) {
        let hidden = state.len();
        let (inlet, rest) = gates.split_at_mut(hidden);
        let (forget, rest) = rest.split_at_mut(hidden);
        let (fresh, outlet) = rest.split_at_mut(hidden);
        for value in inlet.iter_mut() {
            *value = sigmoid(*value);
        }
        for value in forget.iter_mut() {
            *value = sigmoid(*value);
        }
        for value in fresh.iter_mut() {
            *value = tanh(*value);
        }
        for value in outlet.iter_mut() {
            *value = sigmoid(*value);
        }
        for unit in 0..hidden {
            cell[unit] = forget[unit] * cell_before[unit] + inlet[unit] * fresh[unit];
            state[unit] = outlet[unit] * tanh(cell[unit]);
        }
    }
}

vectorised! {
    /// The way back of one step: from the slopes of state and cell to those of the gates and of the cell before.
    fn retreat(
        gates: &[f32],
        cells: &[f32],
        state_slopes: &[f32],
        cell_slopes: &mut [f32],
        gate_slopes: &mut [f32],
    ) {
        let hidden = state_slopes.len();
        let (cell_before, cell) = cells.split_at(hidden);
        let (inlet, rest) = gates.split_at(hidden);
        let (forget, rest) = rest.split_at(hidden);
        let (fresh, outlet) = rest.split_at(hidden);
        let (inlet_slopes, rest) = gate_slopes.split_at_mut(hidden);
        let (forget_slopes, rest) = rest.split_at_mut(hidden);
        let (fresh_slopes, outlet_slopes) = rest.split_at_mut(hidden);
        for unit in 0..hidden {
            let (i, f, g, o) = (inlet[unit], forget[unit], fresh[unit], outlet[unit]);
            let bent = tanh(cell[unit]);
            let slope = cell_slopes[unit] + state_slopes[unit] * o * (1.0 - bent * bent);
            inlet_slopes[unit] = slope * g * i * (1.0 - i);
            forget_slopes[unit] = slope * cell_before[unit] * f * (1.0 - f);
            fresh_slopes[unit] = slope * i * (1.0 - g * g);
            outlet_slopes[unit] = state_slopes[unit] * bent * o * (1.0 - o);
            cell_slopes[unit] = slope * f;
        }
    }
}

impl Lstm {
    /// How many parameters it has.
    pub fn parameters(self) -> usize {
        4 * self.hidden * (self.inputs + self.hidden + 2)
    }

    /// Where the weights of the input, the weights of the state, and the two biases stand.
    pub fn ranges(self) -> [std::ops::Range<usize>; 4] {
        let gates = 4 * self.hidden;
        let input_end = self.inputs * gates;
        let state_end = input_end + self.hidden * gates;
        [0..input_end, input_end..state_end, state_end..state_end + gates, state_end + gates..state_end + 2 * gates]
    }

    /// The place in the sequence of a step.
    fn place(self, step: usize, steps: usize) -> usize {
        match self.direction {
            Direction::Forward => step,
            Direction::Backward => steps - 1 - step,
        }
    }

    /// Reads a sequence of rows and writes the state after each to `output`, whose rows are `stride` wide, from column `offset` on; the
    /// state stands beside the row that was read last.
    pub fn forward(
        self,
        parameters: &[f32],
        rows: &[f32],
        tape: &mut LstmTape,
        output: &mut [f32],
        (stride, offset): (usize, usize),
    ) {
        let (hidden, gates) = (self.hidden, 4 * self.hidden);
        let steps = rows.len() / self.inputs;
        let [input_range, state_range, first_bias, second_bias] = self.ranges();
        let state_weights = &parameters[state_range];
        tape.steps = steps;
        tape.inputs.clear();
        for step in 0..steps {
            let place = self.place(step, steps);
            tape.inputs.extend_from_slice(&rows[place * self.inputs..(place + 1) * self.inputs]);
        }
        tape.gates.clear();
        let biases = parameters[first_bias].iter().zip(&parameters[second_bias]).map(|(first, second)| first + second);
        tape.gates.extend(biases);
        for _ in 1..steps {
            tape.gates.extend_from_within(..gates);
        }
        let inputs = Matrix::new(&tape.inputs, steps, self.inputs);
        multiply(inputs, Matrix::new(&parameters[input_range], self.inputs, gates), Product::IsAdded, &mut tape.gates, gates);
        tape.cells.clear();
        tape.cells.resize((steps + 1) * hidden, 0.0);
        tape.states.clear();
        tape.states.resize((steps + 1) * hidden, 0.0);
        for step in 0..steps {
            let gates = &mut tape.gates[step * gates..(step + 1) * gates];
            let (before, after) = tape.states.split_at_mut((step + 1) * hidden);
            let (cell_before, cell_after) = tape.cells.split_at_mut((step + 1) * hidden);
            if step > 0 {
                add_row_times_matrix(state_weights, &before[step * hidden..], gates);
            }
            let state = &mut after[..hidden];
            advance(gates, &cell_before[step * hidden..], &mut cell_after[..hidden], state);
            let start = self.place(step, steps) * stride + offset;
            output[start..start + hidden].copy_from_slice(state);
        }
    }

    /// Adds the slopes of all parameters to `gradient`, given the slopes of the states (laid out as `forward` wrote them), and gives the
    /// slopes of the rows that were read, if there is a place for them (which is added to).
    pub fn backward(
        self,
        parameters: &[f32],
        tape: &mut LstmTape,
        output_slopes: &[f32],
        (stride, offset): (usize, usize),
        gradient: &mut [f32],
        row_slopes: Option<&mut [f32]>,
    ) {
        let (hidden, gates, steps) = (self.hidden, 4 * self.hidden, tape.steps);
        let [input_range, state_range, first_bias, second_bias] = self.ranges();
        tape.gate_slopes.clear();
        tape.gate_slopes.resize(steps * gates, 0.0);
        let mut cell_slopes = vec![0.0; hidden];
        let mut state_slopes = vec![0.0; hidden];
        for step in (0..steps).rev() {
            let start = self.place(step, steps) * stride + offset;
            let told = &output_slopes[start..start + hidden];
            state_slopes.iter_mut().zip(told).for_each(|(slope, told)| *slope += told);
            let slopes = &mut tape.gate_slopes[step * gates..(step + 1) * gates];
            let step_gates = &tape.gates[step * gates..(step + 1) * gates];
            retreat(step_gates, &tape.cells[step * hidden..(step + 2) * hidden], &state_slopes, &mut cell_slopes, slopes);
            if step > 0 {
                matrix_times_column(&parameters[state_range.clone()], slopes, &mut state_slopes);
            }
        }
        let slopes = Matrix::new(&tape.gate_slopes, steps, gates);
        let inputs = Matrix::new(&tape.inputs, steps, self.inputs).transposed();
        multiply(inputs, slopes, Product::IsAdded, &mut gradient[input_range.clone()], gates);
        let states = Matrix::new(&tape.states, steps, hidden).transposed();
        multiply(states, slopes, Product::IsAdded, &mut gradient[state_range], gates);
        for row in tape.gate_slopes.chunks_exact(gates) {
            for bias in [&first_bias, &second_bias] {
                gradient[bias.clone()].iter_mut().zip(row).for_each(|(gradient, slope)| *gradient += slope);
            }
        }
        if let Some(row_slopes) = row_slopes {
            tape.input_slopes.clear();
            tape.input_slopes.resize(steps * self.inputs, 0.0);
            let weights = Matrix::new(&parameters[input_range], self.inputs, gates).transposed();
            multiply(slopes, weights, Product::Replaces, &mut tape.input_slopes, self.inputs);
            for step in 0..steps {
                let place = self.place(step, steps) * self.inputs;
                let target = &mut row_slopes[place..place + self.inputs];
                target.iter_mut().zip(&tape.input_slopes[step * self.inputs..]).for_each(|(slope, own)| *slope += own);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{assert_slopes, noise};

    #[test]
    fn gradients_equal_finite_differences() {
        for direction in [Direction::Forward, Direction::Backward] {
            let lstm = Lstm { inputs: 3, hidden: 5, direction };
            let (steps, stride, offset) = (4, 7, 1);
            let mut draw = noise(3);
            let parameters = (0..lstm.parameters()).map(|_| draw()).collect::<Vec<_>>();
            let rows = (0..steps * 3).map(|_| draw()).collect::<Vec<_>>();
            let weights = (0..steps * stride).map(|_| draw()).collect::<Vec<_>>();
            let loss = |parameters: &[f32], rows: &[f32]| {
                let mut output = vec![0.0; steps * stride];
                lstm.forward(parameters, rows, &mut LstmTape::default(), &mut output, (stride, offset));
                output.iter().zip(&weights).map(|(value, weight)| f64::from(value * weight)).sum::<f64>()
            };
            let mut tape = LstmTape::default();
            let mut output = vec![0.0; steps * stride];
            lstm.forward(&parameters, &rows, &mut tape, &mut output, (stride, offset));
            let mut gradient = vec![0.0; parameters.len()];
            let mut row_slopes = vec![0.0; rows.len()];
            lstm.backward(&parameters, &mut tape, &weights, (stride, offset), &mut gradient, Some(&mut row_slopes));
            assert_slopes(&parameters, &gradient, |moved| loss(moved, &rows));
            assert_slopes(&rows, &row_slopes, |moved| loss(&parameters, moved));
        }
    }

    #[test]
    fn both_biases_count() {
        let lstm = Lstm { inputs: 1, hidden: 1, direction: Direction::Forward };
        let mut parameters = vec![0.0; lstm.parameters()];
        let [.., first, second] = lstm.ranges();
        // Input gate and output gate wide open, the fresh value from the second bias: tanh(tanh(0.5)).
        parameters[first].copy_from_slice(&[50.0, 0.0, 0.0, 50.0]);
        parameters[second].copy_from_slice(&[0.0, 0.0, 0.5, 0.0]);
        let mut output = [0.0];
        lstm.forward(&parameters, &[1.0], &mut LstmTape::default(), &mut output, (1, 0));
        assert!((output[0] - 0.5_f32.tanh().tanh()).abs() < 1e-6, "{output:?}");
    }
}
