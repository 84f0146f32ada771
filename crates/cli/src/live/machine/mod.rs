//! Commands about the machine: `gpus`, `status`, `drain`, `resume`, `policy`, `claim`, `profiles`, `record`, `worker`, `node`.

mod claim;
mod control;
mod gpus;
mod nodes;
mod profiles;
mod record;
mod status;
mod worker;

pub use claim::claim;
pub use control::{drain, policy};
pub use gpus::{gpu_state, gpus};
pub use nodes::node;
pub use profiles::profiles;
pub use record::record;
pub use status::status;
pub use worker::worker;
