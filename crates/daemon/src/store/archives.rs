//! Archives: connections that only read the store, as many as there are readers at once. They are lent out and come back.

use crate::store::{Access, Archive, StoreError};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Connections that stay open while they are not used.
const IDLE_MAX: usize = 8;

/// The connections that are not in use now.
pub struct Archives {
    path: PathBuf,
    access: Access,
    idle: Mutex<Vec<Archive>>,
}

impl Archives {
    /// Connections to a store; fails if the store cannot be read.
    pub fn open(path: PathBuf, access: Access) -> Result<Self, StoreError> {
        let first = Archive::open(&path, access)?;
        Ok(Self { path, access, idle: Mutex::new(vec![first]) })
    }

    /// A connection of the caller's own, for an answer that takes long.
    pub fn another(&self) -> Result<Archive, StoreError> {
        Archive::open(&self.path, self.access)
    }

    /// Closes the connections that nobody uses now, and with them the pages that each keeps in memory.
    pub fn rest(&self) {
        let idle = std::mem::take(&mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner));
        drop(idle);
    }

    /// Reads with a connection of its own. The disk may be slow, so that async code must not call this.
    pub fn read<T>(&self, query: impl FnOnce(&Archive) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let archive = match idle {
            Some(archive) => archive,
            None => self.another()?,
        };
        let answer = query(&archive);
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(archive);
        }
        answer
    }
}
