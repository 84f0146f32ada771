//! The space that a search moves in: which features a score may use, in which units each is measured, and where known rules lie in it.
//!
//! A feature is measured in its usual difference between one job and the next, so that a step of one means about as much for every
//! feature. A network with hidden layers begins as a known rule too: two units carry the rule's score through the bends, and the others
//! have no say yet.

use super::{Settings, TrainError};
use crate::features;
use crate::model::{Model, Ranges};
use crate::simulated::Episodes;
use crate::task::Task;
use rota_core::random::RandomStream;
use rota_nn::{Activation, BadSizes, Network};
use std::sync::{Arc, Mutex};

/// Differences below this are none.
const SCALE_MIN: f64 = 1e-6;
/// Episodes that the units are measured on.
const MEASURED: u64 = 4;

/// A rule as weights of features.
struct Known {
    name: &'static str,
    weights: &'static [(&'static str, f64)],
}

/// Rules that are sums of features. The scales of logarithms are undone, so that sums of them are products of what they stand for.
const KNOWN: [Known; 20] = [
    Known { name: "sjf", weights: &[("log_estimate", -1.0)] },
    Known { name: "saf", weights: &[("log_area", -1.0)] },
    Known { name: "f1", weights: &[("f1", -1.0)] },
    Known { name: "f2", weights: &[("f2", -1.0)] },
    Known { name: "f3", weights: &[("f3", -1.0)] },
    Known { name: "f4", weights: &[("f4", -1.0)] },
    Known { name: "wfp3", weights: &[("log_wait", 30.0), ("log_estimate", -30.0), ("log_gpus", 5.0)] },
    Known { name: "unicep", weights: &[("log_wait", 10.0), ("log_estimate", -10.0), ("log_log_gpus", -3.0)] },
    Known { name: "slowdown", weights: &[("log_slowdown", 1.0)] },
    Known { name: "fcfs", weights: &[("log_wait", 1.0)] },
    Known { name: "srtf", weights: &[("log_remaining", -1.0)] },
    Known { name: "srsf", weights: &[("log_remaining_area", -1.0)] },
    Known { name: "las", weights: &[("log_attained", -1.0)] },
    Known { name: "gittins by estimate", weights: &[("log_estimate_index", 20.0), ("log_gpus", -5.0)] },
    Known { name: "gittins by class", weights: &[("log_history_index", 20.0), ("log_gpus", -5.0)] },
    Known { name: "gittins by both", weights: &[("log_history_index", 10.0), ("log_estimate_index", 10.0), ("log_gpus", -5.0)] },
    Known { name: "sjf by class", weights: &[("log_history_likely", -1.0)] },
    Known { name: "saf by class", weights: &[("log_history_likely", -10.0), ("log_gpus", -5.0)] },
    Known { name: "priority", weights: &[("priority", 1.0)] },
    Known { name: "largest first", weights: &[("log_area", 1.0)] },
];

/// Where a search can go.
#[derive(Clone, Debug)]
pub(super) struct Space {
    /// The features that scores may use, by their places in a row.
    places: Vec<usize>,
    means: Vec<f64>,
    scales: Vec<f64>,
    /// All features of a row.
    features: usize,
    hidden: Vec<usize>,
}

impl Space {
    /// Measures the features that the settings allow on a few episodes. Features that do not differ between jobs are left out.
    pub fn measure(task: &Task, settings: &Settings) -> Result<Self, TrainError> {
        let names = task.features();
        let mut network = Network::zero(&[names.len(), 1], Activation::Relu)?;
        // The episodes are played by a rule that keeps queues short; where nothing is known of lengths, in order of arrival.
        let short = names.iter().position(|name| *name == "log_area");
        if let Some(place) = short {
            network.parameters_mut()[place] = -1.0;
        }
        let model = Arc::new(settings.model(task, "none", network));
        let ranges = Arc::new(Mutex::new(Ranges::new(names.len())));
        for seed in 0..MEASURED.min(settings.validation_episodes) {
            task.play_noting(&model, super::VALIDATION_SEEDS + seed, Episodes::Training, Some(&ranges))?;
        }
        let spread = ranges.lock().map(|ranges| ranges.spread()).unwrap_or_default();
        let mut space = Self {
            places: Vec::new(),
            means: Vec::new(),
            scales: Vec::new(),
            features: names.len(),
            hidden: settings.hidden.clone(),
        };
        for (place, (mean, scale)) in spread.into_iter().enumerate() {
            if settings.allows(names[place]) && scale > SCALE_MIN {
                space.places.push(place);
                space.means.push(mean);
                space.scales.push(scale);
            }
        }
        if space.places.is_empty() {
            return Err(TrainError::NothingToGoBy);
        }
        Ok(space)
    }

    fn sizes(&self, inputs: usize) -> Vec<usize> {
        std::iter::once(inputs).chain(self.hidden.iter().copied()).chain(std::iter::once(1)).collect()
    }

    /// The network of a point: a linear score's point has no offset, because an offset changes no order.
    pub fn network(&self, point: &[f64]) -> Result<Network, BadSizes> {
        let mut network = Network::zero(&self.sizes(self.features), Activation::Relu)?;
        let width = network.sizes()[1];
        let parameters = network.parameters_mut();
        let offsets = self.features * width;
        for (feature, place) in self.places.iter().enumerate() {
            for unit in 0..width {
                let weight = point[feature * width + unit] / self.scales[feature];
                parameters[place * width + unit] = weight as f32;
                if !self.hidden.is_empty() {
                    parameters[offsets + unit] -= (weight * self.means[feature]) as f32;
                }
            }
        }
        let rest = &point[self.places.len() * width..];
        parameters[offsets..].iter_mut().zip(rest).for_each(|(parameter, value)| *parameter += *value as f32);
        Ok(network)
    }

    /// The point of a network of this space's shape; `None` if it has another shape.
    pub fn point(&self, network: &Network) -> Option<Vec<f64>> {
        if network.sizes() != self.sizes(self.features) || network.activation() != Activation::Relu {
            return None;
        }
        let width = network.sizes()[1];
        let parameters = network.parameters();
        let mut point = Vec::new();
        let mut offsets = vec![0.0; width];
        for (feature, place) in self.places.iter().enumerate() {
            for (unit, offset) in offsets.iter_mut().enumerate() {
                let weight = f64::from(parameters[place * width + unit]);
                point.push(weight * self.scales[feature]);
                *offset += weight * self.means[feature];
            }
        }
        if self.hidden.is_empty() {
            scale_to_one(&mut point);
        } else {
            let rest = parameters[self.features * width..].iter().map(|parameter| f64::from(*parameter));
            let first = point.len();
            point.extend(rest);
            point[first..].iter_mut().zip(offsets).for_each(|(parameter, offset)| *parameter += offset);
        }
        Some(point)
    }

    /// The known rules that lie in this space, as points.
    pub fn known(&self, seed: u64) -> Vec<(&'static str, Vec<f64>)> {
        let point = |known: &Known| {
            let mut linear = vec![0.0; self.places.len()];
            for (name, weight) in known.weights {
                let place = features::place(name);
                let feature = self.places.iter().position(|other| *other == place)?;
                linear[feature] = weight * self.scales[feature];
            }
            scale_to_one(&mut linear);
            Some((known.name, self.carried(&linear, seed)))
        };
        KNOWN.iter().filter_map(point).collect()
    }

    /// A point whose score is this linear one, whatever layers lie between.
    pub fn carried(&self, linear: &[f64], seed: u64) -> Vec<f64> {
        if self.hidden.is_empty() {
            return linear.to_vec();
        }
        let mut stream = RandomStream::new(seed, "hidden units");
        let sizes = self.sizes(self.places.len());
        let mut point = Vec::new();
        for (layer, pair) in sizes.windows(2).enumerate() {
            let (from, to) = (pair[0], pair[1]);
            let is_last = layer + 2 == sizes.len();
            // After the first layer the score is the first unit less the second.
            let carrying = if layer == 0 { linear } else { &[1.0, -1.0] };
            for input in 0..from {
                let carried = carrying.get(input).copied().unwrap_or(0.0);
                for unit in 0..to {
                    let free = stream.normal() * (2.0 / from as f64).sqrt();
                    point.push(match unit {
                        0 => carried,
                        1 => -carried,
                        _ if is_last => 0.0,
                        _ => free,
                    });
                }
            }
            point.extend(std::iter::repeat_n(0.0, to));
        }
        point
    }

    /// The model of a point.
    pub fn model(&self, like: &Model, point: &[f64]) -> Result<Model, BadSizes> {
        Ok(Model { header: like.header.clone(), network: self.network(point)? })
    }
}

fn scale_to_one(point: &mut [f64]) {
    let norm = point.iter().map(|value| value * value).sum::<f64>().sqrt();
    if norm > 0.0 {
        for value in point {
            *value /= norm;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rota_nn::Workspace;

    fn space(hidden: &[usize]) -> Space {
        let places = vec![features::place("log_estimate"), features::place("log_gpus"), features::place("log_area")];
        Space {
            places,
            means: vec![0.4, 0.1, 0.5],
            scales: vec![0.2, 0.05, 0.1],
            features: features::COUNT,
            hidden: hidden.to_vec(),
        }
    }

    fn order(network: &Network) -> Vec<usize> {
        let mut rows = vec![0.0; 5 * features::COUNT];
        for (row, estimate) in [0.7, 0.1, 0.9, 0.3, 0.5].into_iter().enumerate() {
            rows[row * features::COUNT + features::place("log_estimate")] = estimate;
            rows[row * features::COUNT + features::place("log_area")] = 1.0 - estimate;
        }
        let mut workspace = Workspace::default();
        let scores = network.forward(&rows, &mut workspace);
        let mut order = (0..5).collect::<Vec<_>>();
        order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
        order
    }

    #[test]
    fn a_search_begins_at_the_known_rules_whatever_the_layers() {
        for hidden in [&[][..], &[8], &[8, 4]] {
            let space = space(hidden);
            let known = space.known(1);
            let of = |name: &str| &known.iter().find(|(known, _)| *known == name).unwrap().1;
            assert_eq!(order(&space.network(of("sjf")).unwrap()), [1, 3, 4, 0, 2], "{hidden:?}");
            assert_eq!(order(&space.network(of("saf")).unwrap()), [2, 0, 4, 3, 1], "{hidden:?}");
            assert!(known.iter().all(|(name, _)| *name != "priority"), "a rule over a feature that is not there");
        }
    }

    #[test]
    fn a_network_is_found_again_as_a_point() {
        for hidden in [&[][..], &[8], &[8, 4]] {
            let space = space(hidden);
            let (_, point) = &space.known(1)[0];
            let back = space.point(&space.network(point).unwrap()).unwrap();
            assert!(back.iter().zip(point).all(|(back, value)| (back - value).abs() < 1e-5), "{hidden:?}");
        }
        assert!(space(&[8]).point(&space(&[]).network(&[1.0, 0.0, 0.0]).unwrap()).is_none());
    }
}
