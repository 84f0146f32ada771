//! The network that grows: how it is built, how blocks are added, and its weights in a file.

pub mod architecture;
pub mod growing;
pub mod weights;
