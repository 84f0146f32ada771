//! A worker in an allocation of a cluster manager: how it leaves, with the allocation or after the daemon.

pub(super) mod farewell;
pub(super) mod leaving;
