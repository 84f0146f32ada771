//! Interned names (users, job types): a million jobs share a handful of strings.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// A name in a [`Names`] table. [`Name::NONE`] is the empty name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Name(u32);

impl Name {
    /// The empty name: not given.
    pub const NONE: Self = Self(0);

    /// The place of the name among all, counted in the order in which they were first seen.
    pub fn index(self) -> u32 {
        self.0
    }

    /// Whether a name was given.
    pub fn is_some(self) -> bool {
        self != Self::NONE
    }
}

/// The table that gives each distinct string one [`Name`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Names {
    texts: Vec<Box<str>>,
    by_text: HashMap<Box<str>, Name>,
}

impl Default for Names {
    fn default() -> Self {
        Self { texts: vec!["".into()], by_text: HashMap::from([("".into(), Name::NONE)]) }
    }
}

impl Names {
    /// The name of a text, made if it is new.
    pub fn intern(&mut self, text: &str) -> Name {
        if let Some(&name) = self.by_text.get(text) {
            return name;
        }
        let name = Name(self.texts.len() as u32);
        self.texts.push(text.into());
        self.by_text.insert(text.into(), name);
        name
    }

    /// The name of a text, if it has one.
    pub fn find(&self, text: &str) -> Option<Name> {
        self.by_text.get(text).copied()
    }

    /// The text of a name.
    pub fn text(&self, name: Name) -> &str {
        self.texts.get(name.0 as usize).map_or("", |text| text)
    }
}
