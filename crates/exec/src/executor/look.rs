//! What one look at a device showed, as a node tells it.

use rota_gpu::Reading;
use serde::{Deserialize, Serialize};

/// What one look at a device showed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceLook {
    /// The UUID of the device.
    pub uuid: String,
    /// The reading; `None` if the device does not answer.
    pub reading: Option<Reading>,
    /// The owners of the processes of the reading, in its order.
    pub owners: Vec<ProcessOwner>,
    /// Whether the driver says that the device is gone.
    pub is_lost: bool,
}

/// The owner of a process on a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessOwner {
    /// The process id, as the node numbers them.
    pub pid: u32,
    /// The name of the user.
    pub user: Option<String>,
    /// The name of the program.
    pub name: Option<String>,
    /// The memory that the process holds on the device.
    pub memory_mib: Option<u64>,
    /// The job that the process belongs to.
    pub job: Option<u64>,
}
