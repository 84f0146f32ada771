//! The live world: a queue that survives anything, on this machine's processes and GPUs.
//!
//! The path of a job: [`http`] takes a request and puts a message into the inbox; [`queue`] writes it to the [`store`] and tells the
//! scheduler; the plan that comes back becomes processes on the [`machine`]; their ends come back as messages; [`view`] is what
//! everybody else may look at. One thread does all of that in order ([`server`]), the loop being the one that simulations run in.
//! [`api`] has the types of requests and answers, [`past`] what is read back from the store, [`memory`] how jobs share a GPU's memory,
//! [`forecast`] when waiting jobs are expected to start, [`upkeep`] backups and checks of a state directory.

mod access;
pub mod api;
mod clock;
pub mod config;
mod forecast;
mod http;
mod lease;
mod machine;
mod memory;
mod notify;
mod past;
mod queue;
mod server;
mod simulate;
mod slurm;
mod store;
pub mod upkeep;
mod view;
mod watchmen;
mod worker;

pub use api::text::Text;
pub use config::Config;
pub use http::connections::connections_for;
pub use http::openapi;
pub use past::replay::{NothingEnded, Outside, Replay};
pub use server::{Options, Ready, ServeError, serve};
pub use simulate::simulations::{HAPPENED_CLUSTER, HAPPENED_EVENTS, HAPPENED_SUMMARY};
pub use store::journal::end_of_word;
pub use store::{StoreError, check as check_store};
pub use watchmen::keeper::{KEEP, keep};
pub use worker::{WorkerError, WorkerOptions, work};
