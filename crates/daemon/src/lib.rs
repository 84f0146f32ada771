//! The live world: a queue that survives anything, on this machine's processes and GPUs.
//!
//! The path of a job: [`http`] takes a request and puts a message into the inbox; [`world`] writes it to the [`store`] and tells the
//! scheduler; the plan that comes back becomes processes through [`processes`]; their ends come back as messages; everybody looks at
//! the [`board`]. One thread does all of that in order ([`server::run`]), the loop being the one that simulations run in.

mod access;
mod acts;
pub mod api;
mod archives;
mod board;
mod clock;
pub mod config;
mod connection;
mod curves;
mod endings;
mod explain;
mod heatmap;
mod history;
mod http;
mod intake;
mod keeper;
mod machine;
mod metrics;
mod model;
mod monitor;
mod notify;
mod orders;
mod out_of_memory;
mod platform;
mod priority;
mod processes;
mod profiles;
mod record;
mod relay;
mod restore;
mod runs;
mod server;
mod sharing;
mod simulations;
mod store;
mod story;
mod telemetry;
mod text;
mod tokens;
mod usage;
mod users;
#[cfg(test)]
mod virtual_test;
mod watchmen;
mod world;

pub use config::Config;
pub use http::openapi;
pub use keeper::{KEEP, keep};
pub use server::{Options, Ready, ServeError, serve};
pub use store::{StoreError, check as check_store};
pub use story::{NothingEnded, Story};
pub use text::Text;
