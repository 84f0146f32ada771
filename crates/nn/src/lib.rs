//! Small dense networks: forward and backward over rows, the Adam optimiser, and files in the safetensors format.
//!
//! All parameters of a network are one list of numbers, so that an optimiser or a search over parameters needs to know nothing of layers.
//! Everything is deterministic: the same numbers in give the same numbers out, bit for bit, on one machine.

mod adam;
mod file;
mod kernel;
mod network;

pub use adam::Adam;
pub use file::{FileError, Stored, read, write};
pub use network::{Activation, BadSizes, LAYERS_MAX, Network, WIDTH_MAX, Workspace};
