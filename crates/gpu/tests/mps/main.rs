//! The life of MPS on a GPU, with a stand-in for NVIDIA's control program: what is done in which order, and what is left behind when
//! Rota dies in the middle of it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod crash;
mod life;
mod place;
mod refusals;
