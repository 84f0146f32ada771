//! Ways of choosing compared, on tables left out and on tables of other runs.

pub mod comparison;
pub mod evaluation;
