//! Commands about the machine: `gpus`, `status`, `drain`, `resume`, `policy`, `claim`, `profiles`, `record`.

mod claim;
mod control;
mod gpus;
mod profiles;
mod record;
mod status;

pub use claim::claim;
pub use control::{drain, policy};
pub use gpus::{gpu_state, gpus};
pub use profiles::profiles;
pub use record::record;
pub use status::status;
