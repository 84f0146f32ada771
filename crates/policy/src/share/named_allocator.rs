//! An allocator with its name, so that it can be made anew and take up what it remembered.

use crate::allocation::{self, Allocator, Solver};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An allocator that can be cloned and written down with its name.
pub struct Named {
    /// The name of the allocation.
    pub name: String,
    /// What solves it.
    pub solver: Solver,
    /// The allocator itself, with what it remembers.
    pub allocator: Box<dyn Allocator>,
}

impl Clone for Named {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), solver: self.solver, allocator: self.allocator.fork() }
    }
}

impl Serialize for Named {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (&self.name, self.solver, self.allocator.save()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Named {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (name, solver, memory): (String, Solver, Vec<u8>) = Deserialize::deserialize(deserializer)?;
        let unknown = || serde::de::Error::custom(format!("there is no allocation `{name}`"));
        let mut allocator = allocation::allocator(&name, solver).ok_or_else(unknown)?;
        allocator.load(&memory).map_err(serde::de::Error::custom)?;
        Ok(Self { name, solver, allocator })
    }
}
