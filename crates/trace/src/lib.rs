//! Workloads in and out: importers of public traces, generators, and Rota's own format.
//!
//! A trace goes: bytes → [bounded lines](self::read) → columns → jobs → [`rota_core::Workload`] in order of arrival.
//! Nothing here panics on any input; every fault names the file, the line, the field and what would be right.

mod cell;
mod clock;
mod cluster;
mod collect;
mod error;
mod fields;
mod format;
mod formats;
pub mod generate;
pub mod info;
mod lines;
mod load;
#[cfg(test)]
mod parity;
mod prices;
mod table;
mod throughputs;
mod write;

pub use cluster::{parse_cluster, read_cluster};
pub use error::{Problem, TraceError};
pub use format::{Format, detect};
pub use load::{Loaded, ReadOptions, parse, read, read_with};
pub use prices::{parse_prices, read_prices};
pub use throughputs::{
    default_throughputs, estimate, parse_throughputs, read_throughputs, read_throughputs_beside, write_throughputs_csv,
    write_throughputs_json, write_throughputs_toml,
};
pub use write::{GavelSteps, write_csv, write_gavel, write_swf, write_toml};
