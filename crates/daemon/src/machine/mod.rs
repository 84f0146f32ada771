//! The machine that jobs run on: its GPUs and processors ([`inventory`]), what is seen on the GPUs ([`monitor`], [`telemetry`]), the
//! jobs its processes belong to ([`process_owners`]), the owners of connections ([`socket_owner`]), the power caps of its GPUs ([`power`]), what the executor is asked to run ([`run_requests`]), and the seam behind which a test
//! puts an invented machine ([`platform`], [`system_platform`]).

pub mod devices;
pub mod gavel_command;
pub mod inventory;
pub mod monitor;
pub mod platform;
pub mod power;
pub mod process_owners;
pub mod run_requests;
pub mod socket_owner;
pub mod system_platform;
pub mod telemetry;
