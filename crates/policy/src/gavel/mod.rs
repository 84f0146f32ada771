//! Gavel's policies that fill the cluster job by job rather than by shares of time.

pub(crate) mod allox;
pub(crate) mod fifo;
