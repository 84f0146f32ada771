//! Layers of networks that read images. A batch lies channel by channel: all images of the first channel, then all of the second. A
//! convolution is then a sum of shifted channels, and a channel's numbers lie side by side for batch normalisation. Rows of numbers are
//! images of one pixel.

mod batch_norm;
mod convolution;
mod linear;
mod parameter;
mod planes;
mod pool;
mod stack;

pub use batch_norm::{BatchNorm, moments};
pub use convolution::Convolution;
pub use linear::Linear;
pub use parameter::Parameter;
pub use stack::{Layer, LayerError, Mode, Shape, Stack};
