//! The live world: a queue that survives anything, on this machine's processes and GPUs.
//!
//! The path of a job: [`http`] takes a request and puts a message into the inbox; [`world`] writes it to the [`store`] and tells the
//! scheduler; the plan that comes back becomes processes through [`processes`]; their ends come back as messages; everybody looks at
//! the [`board`]. One thread does all of that in order ([`server::run`]), the loop being the one that simulations run in.

pub mod api;
mod board;
mod clock;
pub mod config;
mod endings;
mod explain;
mod history;
mod http;
mod intake;
mod machine;
mod model;
mod monitor;
mod out_of_memory;
mod platform;
mod processes;
mod profiles;
mod record;
mod restore;
mod server;
mod sharing;
mod store;
mod telemetry;
mod text;
mod tokens;
mod users;
#[cfg(test)]
mod virtual_test;
mod world;

pub use config::Config;
pub use http::openapi;
pub use server::{Options, Ready, ServeError, serve};
pub use text::Text;
