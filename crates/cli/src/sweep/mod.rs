//! `rota sweep`: a grid of simulations. [`run`] runs it, [`grid`] is what it runs over, [`rows`] its results, [`charts`] its pictures.

mod charts;
pub mod grid;
mod rows;
mod run;

pub use run::run;
