//! The simulator with the real policies: textbook vectors, properties, determinism.
#![allow(missing_docs)]

mod backfill;
mod properties;
mod scene;
mod textbook;
