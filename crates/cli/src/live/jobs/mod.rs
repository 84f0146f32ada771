//! Commands about jobs: `submit`, `run`, `batch`, `queue`, `show`, `explain`, `logs`, `cancel` and the like, `wait`.

mod batch;
mod batch_file;
mod change;
mod gang;
mod group;
mod queue;
mod run;
mod sanity;
mod select;
mod show;
mod submit;
mod wait;

pub use batch::batch;
pub use change::{act, prioritise};
pub use gang::gang;
pub use queue::{groups_of, queue, table};
pub use run::run;
pub use show::{explain, logs, show};
pub use submit::{environment, rlimits, submit};
pub use wait::wait;
