//! Ids are dense: a job, GPU or node is a row in its table, so look-ups are array accesses and ids never mix.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! dense_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The row of this id in its table.
            pub fn index(self) -> usize {
                self.0 as usize
            }

            /// The id of a row.
            pub fn from_index(index: usize) -> Self {
                Self(index as u32)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "{}", self.0)
            }
        }
    };
}

dense_id! {
    /// A job: its row in the workload, numbered by arrival.
    JobId
}
dense_id! {
    /// One GPU of the cluster.
    GpuId
}
dense_id! {
    /// One machine of the cluster.
    NodeId
}
dense_id! {
    /// A kind of GPU that the cluster has.
    GpuTypeId
}
