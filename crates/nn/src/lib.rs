//! Small dense networks: forward and backward over rows, the Adam optimiser, and files in the safetensors format.
//!
//! All parameters of a network are one list of numbers, so that an optimiser or a search over parameters needs to know nothing of layers.
//! Everything is deterministic: the same numbers in give the same numbers out, bit for bit, on one machine.

mod adam;
#[cfg(test)]
mod check;
mod dense_row;
mod file;
mod kernel;
pub mod layers;
mod loss;
mod lstm;
mod matrix;
mod network;
mod vectorised;

pub use adam::Adam;
pub use dense_row::DenseRow;
pub use file::{FileError, Stored, read, write};
pub use loss::{cross_entropy, highest, softmax};
pub use lstm::{Direction, Lstm, LstmTape};
pub use matrix::{Matrix, Product, multiply};
pub use network::{Activation, BadSizes, LAYERS_MAX, Network, WIDTH_MAX, Workspace};
