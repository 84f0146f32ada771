//! What a policy remembers: cloned for a fork, written down for a restart.

use crate::Policy;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A memory that cannot be taken up again: it was written by another version, or is damaged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what the policy remembered cannot be read: {0}")]
pub struct MemoryError(pub String);

/// Whatever is cloned and written down whole. Every policy that is plain data (`Clone`, `Serialize`, `Deserialize`) is of these.
pub trait Remember {
    /// A copy that goes its own way from here.
    fn fork(&self) -> Box<dyn Policy>;
    /// Everything it remembers, as bytes.
    fn save(&self) -> Vec<u8>;
    /// Takes up what was saved.
    fn load(&mut self, bytes: &[u8]) -> Result<(), MemoryError>;
}

impl<T: Policy + Clone + Serialize + DeserializeOwned + 'static> Remember for T {
    fn fork(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }

    fn save(&self) -> Vec<u8> {
        to_bytes(self)
    }

    fn load(&mut self, bytes: &[u8]) -> Result<(), MemoryError> {
        *self = from_bytes(bytes)?;
        Ok(())
    }
}

/// A value as bytes.
pub(crate) fn to_bytes(value: &impl Serialize) -> Vec<u8> {
    // Plain data can always be written to memory.
    postcard::to_allocvec(value).unwrap_or_default()
}

/// A value from its bytes.
pub(crate) fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, MemoryError> {
    postcard::from_bytes(bytes).map_err(|error| MemoryError(error.to_string()))
}
