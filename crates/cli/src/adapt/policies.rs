//! Policy files, with the vectors of layers that they were learned with.

use anyhow::Context;
use rota_learn::adapt::choose::policy::PolicyNetwork;
use rota_learn::adapt::choose::policy_file::read_policy;
use rota_learn::adapt::choose::vocabulary::Vocabulary;
use std::collections::HashMap;
use std::path::Path;

/// The header's words about the vectors of layers: which vocabulary, and the seed that drew it.
const VOCABULARY: &str = "vocabulary";
const SEED: &str = "vocabulary_seed";

/// Where the vectors of layers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// The vectors are read from a file.
    File(&'a Path),
    /// The study's ids, drawn from a seed.
    Compat(u64),
    /// A vector of its own for every layer, drawn from a seed.
    Free(u64),
}

impl Source<'_> {
    /// The vectors of all layers.
    pub fn open(self) -> anyhow::Result<Vocabulary> {
        Ok(match self {
            Source::File(path) => Vocabulary::read(path)?,
            Source::Compat(seed) => Vocabulary::compat(seed),
            Source::Free(seed) => Vocabulary::Free(seed),
        })
    }

    /// The words that a policy file keeps, so that it can be used with the same vectors.
    pub fn words(self) -> HashMap<String, String> {
        let (kind, seed) = match self {
            Source::File(_) => ("file", None),
            Source::Compat(seed) => ("compat", Some(seed)),
            Source::Free(seed) => ("free", Some(seed)),
        };
        let seed = seed.map(|seed| (SEED.to_owned(), seed.to_string()));
        std::iter::once((VOCABULARY.to_owned(), kind.to_owned())).chain(seed).collect()
    }
}

/// A policy and the source of its vectors; a file that was given wins.
pub fn open<'a>(path: &Path, vocabulary: Option<&'a Path>) -> anyhow::Result<(PolicyNetwork, Source<'a>)> {
    let data = std::fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let (network, words) = read_policy(&data).with_context(|| format!("`{}`", path.display()))?;
    let seed = words.get(SEED).and_then(|seed| seed.parse().ok());
    let source = match (vocabulary, words.get(VOCABULARY).map(String::as_str), seed) {
        (Some(file), ..) => Source::File(file),
        (None, Some("compat"), Some(seed)) => Source::Compat(seed),
        (None, Some("free"), Some(seed)) => Source::Free(seed),
        _ => anyhow::bail!("`{}` does not say which vectors its layers had; give --vocabulary FILE", path.display()),
    };
    Ok((network, source))
}
