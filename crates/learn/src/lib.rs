//! Learning to schedule: environments, training, evaluation, and the policy that runs a trained model.
//!
//! The path: an [`environment`] shows its state as rows of [`features`]; a [`model`] gives each row a score; [`train`] finds the model's
//! numbers; [`evaluate`] compares models with rules on the same episodes; [`policy`] lets a model decide in the simulator and in the
//! live queue, watched by a [`guard`].

pub mod adapt;
mod block;
pub mod environment;
pub mod evaluate;
pub mod features;
pub mod guard;
pub mod model;
pub mod policy;
mod room;
pub mod simulated;
pub mod task;
pub mod train;

pub use policy::registry;
