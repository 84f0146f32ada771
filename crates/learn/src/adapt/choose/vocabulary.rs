//! Layers as vectors: every layer's signature has a vector of random numbers that never learns.
//!
//! By default a signature's vector is drawn from a stream with the signature's name, so that no two layers share one and any layer has
//! one. The study's vocabulary knows 18 signatures and gives several of them one id: `compat` repeats that.

use crate::adapt::network::architecture::Leaf;
use rota_core::random::RandomStream;
use std::collections::HashMap;
use std::path::Path;

/// Numbers in the vector of a layer.
pub const EMBEDDING: usize = 16;

/// The study's ids by signature. Different layers under one id are its fault, not ours.
const STUDY: [(&str, usize); 18] = [
    ("none-layer", 0),
    ("Conv2d(3, 32, kernel_size=(3, 3), stride=(1, 1))", 1),
    ("BatchNorm2d(32, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)", 2),
    ("ReLU()", 3),
    ("Conv2d(32, 32, kernel_size=(3, 3), stride=(1, 1))", 4),
    ("AvgPool2d(kernel_size=(2, 2), stride=(2, 2), padding=0)", 5),
    ("AdaptiveAvgPool2d(output_size=(1, 1))", 6),
    ("Linear(in_features=32, out_features=10, bias=True)", 7),
    ("Conv2d(32, 32, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))", 8),
    ("Linear(in_features=10, out_features=10, bias=True)", 9),
    ("Linear(in_features=3072, out_features=10, bias=True)", 10),
    ("Linear(in_features=3072, out_features=32, bias=True)", 11),
    ("Linear(in_features=32, out_features=32, bias=True)", 12),
    ("Conv2d(3, 64, kernel_size=(3, 3), stride=(1, 1))", 9),
    ("BatchNorm2d(64, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)", 10),
    ("Conv2d(64, 32, kernel_size=(3, 3), stride=(1, 1))", 11),
    ("Conv2d(64, 64, kernel_size=(3, 3), stride=(1, 1))", 10),
    ("Conv2d(64, 64, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))", 10),
];

/// A vocabulary that cannot be read or does not know a layer.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum VocabularyError {
    #[error("the study's vocabulary does not know the layer `{0}`; without --compat every layer has a vector")]
    Unknown(String),
    #[error("cannot read `{path}`: {source}")]
    Read { path: String, source: csv::Error },
    #[error("`{path}`, line {line}: {problem}; a row is an id, a layer and {EMBEDDING} numbers")]
    Row { path: String, line: u64, problem: String },
}

/// Where the vectors come from.
#[derive(Clone, Debug)]
pub enum Vocabulary {
    /// A vector of its own for every signature, from this seed.
    Free(u64),
    /// These vectors by signature, and an error for any other layer.
    Fixed(HashMap<String, [f32; EMBEDDING]>),
}

fn vector(stream: &mut RandomStream) -> [f32; EMBEDDING] {
    std::array::from_fn(|_| stream.normal() as f32)
}

impl Vocabulary {
    /// The study's ids, with vectors drawn from this seed.
    pub fn compat(seed: u64) -> Self {
        let mut stream = RandomStream::new(seed, "embedding");
        let vectors = (0..=12).map(|_| vector(&mut stream)).collect::<Vec<_>>();
        Self::Fixed(STUDY.into_iter().map(|(signature, id)| (signature.to_owned(), vectors[id])).collect())
    }

    /// The vectors of a file with the columns id, layer, e0 … e15.
    pub fn read(path: &Path) -> Result<Self, VocabularyError> {
        let shown = path.display().to_string();
        let mut vectors = HashMap::new();
        let reading = |source| VocabularyError::Read { path: shown.clone(), source };
        for record in csv::Reader::from_path(path).map_err(reading)?.records() {
            let record = record.map_err(reading)?;
            let line = record.position().map_or(0, csv::Position::line);
            let wrong = |problem: String| VocabularyError::Row { path: shown.clone(), line, problem };
            if record.len() != EMBEDDING + 2 {
                return Err(wrong(format!("{} fields", record.len())));
            }
            let mut numbers = [0.0; EMBEDDING];
            for (number, text) in numbers.iter_mut().zip(record.iter().skip(2)) {
                let parsed = text.parse::<f32>().ok().filter(|value| value.is_finite());
                *number = parsed.ok_or_else(|| wrong(format!("`{text}` is no number")))?;
            }
            vectors.insert(record[1].to_owned(), numbers);
        }
        Ok(Self::Fixed(vectors))
    }

    /// The vectors of layers, one row a layer.
    pub fn rows(&self, leaves: impl Iterator<Item = Leaf>) -> Result<Vec<f32>, VocabularyError> {
        let mut rows = Vec::new();
        for leaf in leaves {
            let signature = leaf.signature();
            let vector = match self {
                Self::Free(seed) => vector(&mut RandomStream::new(*seed, &signature)),
                Self::Fixed(vectors) => *vectors.get(&signature).ok_or(VocabularyError::Unknown(signature))?,
            };
            rows.extend_from_slice(&vector);
        }
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_studys_vocabulary_confuses_layers() {
        let norm = Leaf::BatchNorm { channels: 64 };
        let added = Leaf::Convolution { inputs: 64, outputs: 64, padding: 1 };
        let row = |vocabulary: &Vocabulary, leaf| vocabulary.rows(std::iter::once(leaf)).unwrap();
        let (compat, free) = (Vocabulary::compat(1), Vocabulary::Free(1));
        assert_eq!(row(&compat, norm), row(&compat, added));
        assert_ne!(row(&free, norm), row(&free, added));
        let strange = Leaf::Linear { inputs: 7, outputs: 3 };
        assert!(compat.rows(std::iter::once(strange)).unwrap_err().to_string().contains("in_features=7"));
        assert_eq!(row(&free, strange).len(), EMBEDDING);
    }
}
