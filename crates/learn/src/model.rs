//! A trained model: a network that gives a row of features a score, and the words that say what it was trained for.
//!
//! The file is safetensors with one JSON document in its header. Whatever the file holds, reading it gives a model whose numbers are all
//! finite and whose shapes fit together, or an error that says what is wrong.

use rota_nn::{Activation, BadSizes, FileError, Network, Stored, Workspace};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// The version of the header that this Rota writes and reads.
pub const VERSION: u32 = 1;
/// The largest model file read.
const BYTES_MAX: u64 = 64 << 20;
/// The range of a feature that a model does not name: nothing is outside it.
const FAR: f32 = 1e30;
/// The word of the safetensors header that holds ours.
const WORD: &str = "rota";

/// How the scores of a model are used in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a word of the file, and each can be true or false whatever the others are"
)]
pub struct Use {
    /// Whether a job with a better score takes GPUs from a running one with a worse score.
    pub preempt: bool,
    /// Whether a job that fits may pass the best one when that does not fit.
    pub pass: bool,
    /// Whether the model sees how long jobs are estimated to run.
    pub estimates: bool,
    /// Whether the best job that does not fit holds a reservation that others may not delay. Files that do not say so have none.
    #[serde(default)]
    pub reserve: bool,
}

/// What a model file says about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The version of this header.
    pub version: u32,
    /// The environment that the model was trained in.
    pub environment: String,
    /// What was made small or large in training.
    pub objective: String,
    /// The algorithm that trained it.
    pub algorithm: String,
    /// The seed of the training.
    pub seed: u64,
    /// Steps of the environment used in training.
    pub steps: u64,
    /// How its scores are used.
    pub used: Use,
    /// The features of a row, in order.
    pub features: Vec<String>,
    /// The smallest value of each feature in training.
    pub low: Vec<f32>,
    /// The largest value of each feature in training.
    pub high: Vec<f32>,
    /// The bend between layers.
    pub activation: Activation,
    /// The power limits in watts that the model chose for GPU types. Files that do not say so have none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub power_limits: BTreeMap<String, f64>,
}

/// The smallest and the largest value seen of each feature, and how much it differs from one job to the next.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranges {
    low: Vec<f32>,
    high: Vec<f32>,
    sum: Vec<f64>,
    /// Squares of differences between a row and the one before.
    squares: Vec<f64>,
    last: Vec<f32>,
    rows: u64,
}

impl Ranges {
    /// Ranges of this many features, before any was seen.
    pub fn new(features: usize) -> Self {
        Self {
            low: vec![f32::INFINITY; features],
            high: vec![f32::NEG_INFINITY; features],
            sum: vec![0.0; features],
            squares: vec![0.0; features],
            last: Vec::new(),
            rows: 0,
        }
    }

    /// Takes in rows.
    pub fn note(&mut self, rows: &[f32]) {
        for row in rows.chunks_exact(self.low.len()) {
            for (place, value) in row.iter().enumerate() {
                self.low[place] = self.low[place].min(*value);
                self.high[place] = self.high[place].max(*value);
                self.sum[place] += f64::from(*value);
                let last = self.last.get(place).unwrap_or(value);
                self.squares[place] += f64::from(value - last).powi(2);
            }
            self.last.clear();
            self.last.extend_from_slice(row);
            self.rows += 1;
        }
    }

    /// The mean of each feature, and its usual difference between two jobs that were looked at one after the other.
    pub fn spread(&self) -> Vec<(f64, f64)> {
        let rows = self.rows.max(1) as f64;
        let pair = |(sum, squares): (&f64, &f64)| (sum / rows, (squares / rows / 2.0).sqrt());
        self.sum.iter().zip(&self.squares).map(pair).collect()
    }

    /// Writes the ranges into a header, unless nothing was seen.
    pub fn put_into(&self, header: &mut Header) {
        if self.low.iter().chain(&self.high).all(|value| value.is_finite()) {
            (header.low, header.high) = (self.low.clone(), self.high.clone());
        }
    }
}

/// A network with its header.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// What it is.
    pub header: Header,
    /// Features in, one score out.
    pub network: Network,
}

/// A model file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The path of the model file.
        path: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// Too large for a model of ours.
    #[error("{path}: has {bytes} bytes; a model has at most {BYTES_MAX}")]
    TooLarge {
        /// The path of the model file.
        path: String,
        /// The size of the file.
        bytes: u64,
    },
    /// The networks in it are not as they must be.
    #[error("{path}: {source}")]
    Networks {
        /// The path of the model file.
        path: String,
        /// What is wrong with its content.
        source: FileError,
    },
    /// The header is not as it must be.
    #[error("{path}: {problem}")]
    Header {
        /// The path of the model file.
        path: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
}

impl Model {
    /// Reads a model that was trained on rows with these features.
    pub fn read(path: &Path, features: &[&str]) -> Result<Self, ModelError> {
        let name = path.display().to_string();
        let failed = |source| ModelError::File { path: name.clone(), source };
        let bytes = std::fs::metadata(path).map_err(failed)?.len();
        if bytes > BYTES_MAX {
            return Err(ModelError::TooLarge { path: name, bytes });
        }
        let data = std::fs::read(path).map_err(failed)?;
        Self::parse(&name, &data, features)
    }

    /// Reads a model from memory. `path` stands for the file in messages.
    pub fn parse(path: &str, data: &[u8], features: &[&str]) -> Result<Self, ModelError> {
        let wrong = |problem: String| ModelError::Header { path: path.to_owned(), problem };
        let mut header = Err(wrong("has no words of Rota in its header; `rota learn train` writes them".to_owned()));
        let stored = rota_nn::read(data, &[("score", true)], |words| {
            header = words.get(WORD).map_or_else(
                || Err(wrong("has no words of Rota in its header; `rota learn train` writes them".to_owned())),
                |text| read_header(text).map_err(wrong),
            );
            header.as_ref().map_or(Activation::Relu, |header| header.activation)
        });
        let stored = stored.map_err(|source| ModelError::Networks { path: path.to_owned(), source })?;
        let header = header?;
        let Some((_, network)) = stored.networks.into_iter().next() else { return Err(wrong("has no network".to_owned())) };
        let count = header.features.len();
        let Some(rows) = crate::block::rows(&network, count) else {
            let sizes = (network.inputs(), network.outputs());
            return Err(wrong(format!(
                "the network has sizes {sizes:?}; {count} features go in and one score comes out, or as many times that as it looks at rows"
            )));
        };
        arrange(header, &network, rows, features).map_err(wrong)
    }

    /// A model that gives every job of a queue the same score.
    pub(crate) fn blank(used: Use) -> Self {
        let features = crate::features::NAMES;
        let header = Header {
            version: VERSION,
            environment: String::new(),
            objective: String::new(),
            algorithm: "none".to_owned(),
            seed: 0,
            steps: 0,
            used,
            features: features.map(str::to_owned).to_vec(),
            low: vec![-FAR; features.len()],
            high: vec![FAR; features.len()],
            activation: Activation::Relu,
            power_limits: BTreeMap::new(),
        };
        Self { header, network: Network::linear(features.len()) }
    }

    /// Whether a feature, by its place, can change a score.
    pub fn uses(&self, feature: usize) -> bool {
        let (width, features) = (self.network.sizes()[1], self.header.features.len());
        let inputs = (feature..self.network.inputs()).step_by(features.max(1));
        let weights = |input: usize| &self.network.parameters()[input * width..(input + 1) * width];
        inputs.flat_map(weights).any(|weight| *weight != 0.0)
    }

    /// The bytes of the file.
    pub fn to_bytes(&self) -> Result<Vec<u8>, FileError> {
        let words = serde_json::to_string(&self.header).unwrap_or_default();
        rota_nn::write(&Stored {
            words: HashMap::from([(WORD.to_owned(), words)]),
            networks: vec![("score".to_owned(), self.network.clone())],
        })
    }

    /// The score of each row.
    pub fn scores<'a>(&self, rows: &[f32], workspace: &'a mut Workspace) -> &'a [f32] {
        crate::block::scores(&self.network, rows, workspace)
    }

    /// How many rows lie far outside what was seen in training: more than half its range beyond an end of it.
    pub fn strange_rows(&self, rows: &[f32]) -> usize {
        let is_strange = |row: &[f32]| {
            let ranges = self.header.low.iter().zip(&self.header.high);
            row.iter().zip(ranges).any(|(value, (low, high))| {
                let margin = 0.5 * (high - low) + 0.1;
                *value < low - margin || *value > high + margin
            })
        };
        rows.chunks_exact(self.header.features.len().max(1)).filter(|row| is_strange(row)).count()
    }
}

/// A network over rows with other features, or with the same in another order. Features that it did not have get no weight, and features that
/// are left out lose theirs.
pub(crate) fn rearranged(network: &Network, from: &[&str], to: &[&str]) -> Result<Network, BadSizes> {
    let sizes = std::iter::once(to.len()).chain(network.sizes()[1..].iter().copied()).collect::<Vec<_>>();
    let mut arranged = Network::zero(&sizes, network.activation())?;
    let width = sizes[1];
    for (place, name) in to.iter().enumerate() {
        if let Some(old) = from.iter().position(|known| known == name) {
            let weights = &network.parameters()[old * width..(old + 1) * width];
            arranged.parameters_mut()[place * width..(place + 1) * width].copy_from_slice(weights);
        }
    }
    let rest = &network.parameters()[network.inputs() * width..];
    arranged.parameters_mut()[to.len() * width..].copy_from_slice(rest);
    Ok(arranged)
}

/// The model with the features of each row in the order of `features`. A feature that the file does not name has no weight.
fn arrange(mut header: Header, network: &Network, rows: usize, features: &[&str]) -> Result<Model, String> {
    let mut places = Vec::new();
    for name in &header.features {
        let Some(place) = features.iter().position(|known| known == name) else {
            return Err(format!(
                "unknown feature `{name}`; it was trained in `{}`; known here are {}",
                header.environment,
                features.join(", ")
            ));
        };
        if places.contains(&place) {
            return Err(format!("names the feature `{name}` twice"));
        }
        places.push(place);
    }
    let sizes = std::iter::once(rows * features.len()).chain(network.sizes()[1..].iter().copied()).collect::<Vec<_>>();
    let mut arranged = Network::zero(&sizes, network.activation()).map_err(|error| error.to_string())?;
    let width = sizes[1];
    let mut ranges = (vec![-FAR; features.len()], vec![FAR; features.len()]);
    for (from, &to) in places.iter().enumerate() {
        for row in 0..rows {
            let (from, to) = (row * places.len() + from, row * features.len() + to);
            let weights = &network.parameters()[from * width..(from + 1) * width];
            arranged.parameters_mut()[to * width..(to + 1) * width].copy_from_slice(weights);
        }
        (ranges.0[to], ranges.1[to]) = (header.low[from], header.high[from]);
    }
    let rest = &network.parameters()[network.inputs() * width..];
    arranged.parameters_mut()[rows * features.len() * width..].copy_from_slice(rest);
    header.features = features.iter().map(|name| (*name).to_owned()).collect();
    (header.low, header.high) = ranges;
    Ok(Model { header, network: arranged })
}

fn read_header(text: &str) -> Result<Header, String> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    let versioned = serde_json::from_str::<Versioned>(text).map_err(|error| format!("its header: {error}"))?;
    if versioned.version != VERSION {
        return Err(format!("its header has version {}; this Rota reads version {VERSION}", versioned.version));
    }
    let header = serde_json::from_str::<Header>(text).map_err(|error| format!("its header: {error}"))?;
    let count = header.features.len();
    let finite = header.low.iter().chain(&header.high).all(|value| value.is_finite());
    let ordered = header.low.iter().zip(&header.high).all(|(low, high)| low <= high);
    if header.low.len() != count || header.high.len() != count || !finite || !ordered {
        return Err(format!("its training ranges are not {count} pairs of a low and a high number"));
    }
    if let Some((kind, watts)) = header.power_limits.iter().find(|(_, watts)| !(1.0..=10_000.0).contains(*watts)) {
        return Err(format!("its power limit of {kind} is {watts} W, which is not from 1 to 10,000"));
    }
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEATURES: [&str; 2] = ["gpu", "memory"];

    fn model() -> Model {
        let mut network = Network::zero(&[2, 3, 1], Activation::Relu).unwrap();
        network.parameters_mut().iter_mut().enumerate().for_each(|(place, value)| *value = place as f32 * 0.1);
        let header = Header {
            version: VERSION,
            environment: "test".to_owned(),
            objective: "reward".to_owned(),
            algorithm: "es".to_owned(),
            seed: 1,
            steps: 2,
            used: Use::default(),
            features: FEATURES.map(str::to_owned).to_vec(),
            low: vec![0.0; 2],
            high: vec![1.0; 2],
            activation: Activation::Relu,
            power_limits: BTreeMap::new(),
        };
        Model { header, network }
    }

    fn message(model: &Model) -> String {
        Model::parse("m", &model.to_bytes().unwrap(), &FEATURES).map_err(|error| error.to_string()).unwrap_err()
    }

    #[test]
    fn a_model_is_read_back_and_written_the_same() {
        let bytes = model().to_bytes().unwrap();
        let back = Model::parse("m", &bytes, &FEATURES).unwrap();
        assert_eq!(back, model());
        assert_eq!(back.to_bytes().unwrap(), bytes);
    }

    #[test]
    fn bad_files_are_told_apart() {
        let good = model();
        let changed = |change: &dyn Fn(&mut Model)| {
            let mut model = good.clone();
            change(&mut model);
            message(&model)
        };
        assert_eq!(changed(&|model| model.header.version = 9), "m: its header has version 9; this Rota reads version 1");
        assert!(changed(&|model| model.header.features[1] = "colour".to_owned()).starts_with("m: unknown feature `colour`"));
        assert!(changed(&|model| model.header.features[1] = "gpu".to_owned()).contains("names the feature `gpu` twice"));
        assert!(changed(&|model| model.header.low[0] = 2.0).contains("training ranges"));
        assert!(changed(&|model| model.header.high.truncate(1)).contains("training ranges"));
        assert!(changed(&|model| model.network.parameters_mut()[0] = f32::INFINITY).contains("no finite number"));
        assert!(changed(&|model| model.network = Network::zero(&[5, 1], Activation::Relu).unwrap()).contains("2 features go in"));
        let bytes = good.to_bytes().unwrap();
        for cut in [0, 4, 60, bytes.len() - 1] {
            assert!(Model::parse("m", &bytes[..cut], &FEATURES).unwrap_err().to_string().contains("damaged"), "{cut}");
        }
        let error = Model::read(Path::new("/nowhere/model"), &FEATURES).unwrap_err().to_string();
        assert!(error.starts_with("/nowhere/model: "), "{error}");
    }

    #[test]
    fn a_file_with_fewer_features_in_another_order_gives_the_same_scores() {
        let bytes = model().to_bytes().unwrap();
        let wider = Model::parse("m", &bytes, &["memory", "colour", "gpu"]).unwrap();
        let mut workspace = Workspace::default();
        let narrow_score = model().scores(&[0.3, 0.7], &mut workspace).to_vec();
        assert_eq!(wider.scores(&[0.7, 9.0, 0.3], &mut workspace), narrow_score);
        assert_eq!((wider.uses(0), wider.uses(1), wider.uses(2)), (true, false, true));
        assert_eq!(wider.strange_rows(&[0.7, 9.0, 0.3, 5.0, 0.0, 0.3]), 1);
    }

    #[test]
    fn rows_far_outside_the_training_ranges_are_counted() {
        assert_eq!(model().strange_rows(&[0.5, 0.5, 1.4, 0.0, 1.7, 0.0, 0.0, -0.7]), 2);
    }
}
