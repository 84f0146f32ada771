//! What every picture is made of: axes, colours, rows of bars, SVG and PNG.

pub(crate) mod axis;
pub(crate) mod lanes;
pub(crate) mod palette;
pub(crate) mod png;
pub(crate) mod rows;
pub(crate) mod svg;
