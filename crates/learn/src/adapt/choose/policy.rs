//! The network that decides which block to deepen: layers read by an LSTM in both directions, the result by a second LSTM, and its last
//! state together with the time left by three dense layers. With four actions it has 54,980 parameters.

use crate::adapt::choose::vocabulary::EMBEDDING;
use rota_core::random::RandomStream;
use rota_nn::{DenseRow, Direction, Lstm, LstmTape, highest, softmax};
use std::ops::Range;

const ENCODER: usize = 50;
const ENCODED: usize = 2 * ENCODER;
const MODEL: usize = 16;
/// Numbers that tell the time left.
pub const TIME: usize = 8;
/// The width of the dense layers.
pub const WIDTH: usize = 128;

/// The three LSTMs in the order of their parameters.
pub const LSTMS: [Lstm; 3] = [
    Lstm { inputs: EMBEDDING, hidden: ENCODER, direction: Direction::Forward },
    Lstm { inputs: EMBEDDING, hidden: ENCODER, direction: Direction::Backward },
    Lstm { inputs: ENCODED, hidden: MODEL, direction: Direction::Forward },
];

/// The time left as numbers: 5·sin(2π·i·left/total) for i = 1 to 8.
pub fn time_encoding(left_s: f64, total_s: f64) -> [f32; TIME] {
    let turn = std::f64::consts::TAU * left_s / total_s;
    std::array::from_fn(|place| (5.0 * (turn * (place + 1) as f64).sin()) as f32)
}

/// What the policy sees: the vectors of the layers, and the time.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyState {
    /// The layers' vectors, row by row.
    pub layers: Vec<f32>,
    /// The time left, encoded.
    pub time: [f32; TIME],
}

/// A policy network. Its parameters are one list: both encoders, the model encoder, then the dense layers.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyNetwork {
    parameters: Vec<f32>,
    actions: usize,
}

/// What one decision leaves behind for learning.
#[derive(Clone, Debug, Default)]
pub struct Decision {
    tapes: [LstmTape; 3],
    encoded: Vec<f32>,
    states: Vec<f32>,
    /// The rows that went into each dense layer, after the bend of the one before.
    rows: [Vec<f32>; 3],
    /// The probabilities of the actions.
    pub probabilities: Vec<f32>,
}

impl Decision {
    /// The most probable action.
    pub fn greedy(&self) -> usize {
        highest(&self.probabilities)
    }
}

/// Where the parameters of each LSTM stand.
pub fn lstm_ranges() -> [Range<usize>; 3] {
    let ends = [0, 1, 2].map(|last| LSTMS[..=last].iter().map(|lstm| lstm.parameters()).sum::<usize>());
    [0..ends[0], ends[0]..ends[1], ends[1]..ends[2]]
}

impl PolicyNetwork {
    /// A network for this many actions with all parameters zero.
    pub fn zero(actions: usize) -> Self {
        let mut network = Self { parameters: Vec::new(), actions };
        network.parameters = vec![0.0; network.dense()[2].1.end];
        network
    }

    /// A network drawn as `PyTorch` draws by default: uniform, as wide as one over the root of the inputs (of the state, in an LSTM).
    pub fn random(actions: usize, stream: &mut RandomStream) -> Self {
        let mut network = Self::zero(actions);
        let lstms = LSTMS.iter().zip(lstm_ranges()).map(|(lstm, range)| (lstm.hidden, range));
        let dense = network.dense().map(|(layer, range)| (layer.inputs, range));
        for (size, range) in lstms.chain(dense) {
            let width = 1.0 / (size as f64).sqrt();
            for value in &mut network.parameters[range] {
                *value = stream.uniform(-width, width) as f32;
            }
        }
        network
    }

    /// The dense layers, with the places of their parameters.
    pub fn dense(&self) -> [(DenseRow, Range<usize>); 3] {
        let mut start = lstm_ranges()[2].end;
        [(TIME + MODEL, WIDTH), (WIDTH, WIDTH), (WIDTH, self.actions)].map(|(inputs, outputs)| {
            let layer = DenseRow { inputs, outputs };
            let range = start..start + layer.parameters();
            start = range.end;
            (layer, range)
        })
    }

    /// How many actions it chooses from.
    pub fn actions(&self) -> usize {
        self.actions
    }

    /// The parameters of all layers, one layer after another.
    pub fn parameters(&self) -> &[f32] {
        &self.parameters
    }

    /// All parameters, to be changed.
    pub fn parameters_mut(&mut self) -> &mut [f32] {
        &mut self.parameters
    }

    /// The probabilities of the actions in a state.
    pub fn decide(&self, state: &PolicyState, decision: &mut Decision) {
        let layers = state.layers.len() / EMBEDDING;
        let Decision { tapes: [ahead, back, model], encoded, states, rows, probabilities } = decision;
        let ranges = lstm_ranges().map(|range| &self.parameters[range]);
        encoded.clear();
        encoded.resize(layers * ENCODED, 0.0);
        LSTMS[0].forward(ranges[0], &state.layers, ahead, encoded, (ENCODED, 0));
        LSTMS[1].forward(ranges[1], &state.layers, back, encoded, (ENCODED, ENCODER));
        states.clear();
        states.resize(layers * MODEL, 0.0);
        LSTMS[2].forward(ranges[2], encoded, model, states, (MODEL, 0));
        rows[0].clear();
        rows[0].extend_from_slice(&state.time);
        rows[0].extend_from_slice(model.last_state(LSTMS[2]));
        let [first, second, third] = self.dense();
        let [start, middle, end] = rows;
        first.0.forward(&self.parameters[first.1], start, middle);
        for value in middle.iter_mut() {
            *value = value.max(0.0);
        }
        second.0.forward(&self.parameters[second.1], middle, end);
        for value in end.iter_mut() {
            *value = value.max(0.0);
        }
        third.0.forward(&self.parameters[third.1], end, probabilities);
        softmax(probabilities);
    }

    /// Adds to `gradient` the slopes of a loss, given its slopes by the scores (before the softmax) of a decision.
    pub fn learn(&self, decision: &mut Decision, score_slopes: &[f32], gradient: &mut [f32]) {
        let mut slopes = score_slopes.to_vec();
        let mut before = Vec::new();
        for (place, (layer, range)) in self.dense().into_iter().enumerate().rev() {
            let row = &decision.rows[place];
            layer.backward(&self.parameters[range.clone()], row, &slopes, &mut gradient[range], &mut before);
            if place > 0 {
                let dead = |(slope, value): (&mut f32, &f32)| *slope *= f32::from(u8::from(*value > 0.0));
                before.iter_mut().zip(row).for_each(dead);
            }
            std::mem::swap(&mut slopes, &mut before);
        }
        let layers = decision.states.len() / MODEL;
        let mut state_slopes = vec![0.0; layers * MODEL];
        state_slopes[layers.saturating_sub(1) * MODEL..].copy_from_slice(&slopes[TIME..]);
        let mut encoded_slopes = vec![0.0; layers * ENCODED];
        let [ahead, back, model] = &mut decision.tapes;
        let ranges = lstm_ranges();
        let parameters = ranges.clone().map(|range| &self.parameters[range]);
        let [ahead_range, back_range, model_range] = ranges;
        let own = &mut gradient[model_range];
        LSTMS[2].backward(parameters[2], model, &state_slopes, (MODEL, 0), own, Some(&mut encoded_slopes));
        LSTMS[0].backward(parameters[0], ahead, &encoded_slopes, (ENCODED, 0), &mut gradient[ahead_range], None);
        LSTMS[1].backward(parameters[1], back, &encoded_slopes, (ENCODED, ENCODER), &mut gradient[back_range], None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_the_studys_size() {
        assert_eq!(PolicyNetwork::zero(4).parameters().len(), 54_980);
    }

    #[test]
    fn the_time_is_told_by_sines() {
        let time = time_encoding(330.0, 400.0);
        assert!((f64::from(time[0]) - 5.0 * (std::f64::consts::TAU * 0.825).sin()).abs() < 1e-6);
        assert!((f64::from(time[7]) - 5.0 * (std::f64::consts::TAU * 6.6).sin()).abs() < 1e-5);
    }

    #[test]
    fn gradients_equal_finite_differences() {
        let mut stream = RandomStream::new(4, "test");
        let mut network = PolicyNetwork::random(4, &mut stream);
        let layers = (0..5 * EMBEDDING).map(|_| stream.normal() as f32).collect();
        let state = PolicyState { layers, time: time_encoding(123.0, 400.0) };
        let mut decision = Decision::default();
        network.decide(&state, &mut decision);
        // The loss is minus the logarithm of the probability of action 2.
        let mut slopes = decision.probabilities.clone();
        slopes[2] -= 1.0;
        let mut gradient = vec![0.0; network.parameters().len()];
        network.learn(&mut decision, &slopes, &mut gradient);
        let mut loss = |place: usize, step: f32| {
            let before = network.parameters[place];
            network.parameters[place] = before + step;
            network.decide(&state, &mut decision);
            network.parameters[place] = before;
            -f64::from(decision.probabilities[2]).ln()
        };
        let here = loss(0, 0.0);
        for place in (0..gradient.len()).step_by(97) {
            // Where the bend of a ReLU lies between both sides, the slope lies between theirs.
            let (above, below) = ((loss(place, 2e-3) - here) / 2e-3, (here - loss(place, -2e-3)) / 2e-3);
            let slope = f64::from(gradient[place]);
            let slack = 2e-3 * (1.0 + slope.abs());
            let bounds = above.min(below) - slack..=above.max(below) + slack;
            assert!(bounds.contains(&slope), "parameter {place}: {below} and {above} against {slope}");
        }
    }
}
