//! What an executor tells its caller.

use std::sync::Arc;

use super::{DeviceKey, DeviceLook, Node, NodeName, RunEnd, RunKey};

/// Where events go. It is called from threads of the executor and must not wait.
pub type EventSink = Arc<dyn Fn(ExecutorEvent) + Send + Sync>;

/// What an executor tells its caller.
#[derive(Clone, Debug, PartialEq)]
pub enum ExecutorEvent {
    /// A run that was taken has been accepted by those who will start it, and waits there.
    Accepted {
        /// The run that waits.
        run: RunKey,
    },
    /// A run that was taken, or adopted without being found at once, is running.
    Running {
        /// The run that has begun.
        run: RunKey,
    },
    /// A run ended. Told once.
    Ended {
        /// The run that ended.
        run: RunKey,
        /// How it ended.
        end: RunEnd,
    },
    /// It cannot be read now what has become of a run. It is tried again until it can.
    Unreadable {
        /// The run that cannot be read.
        run: RunKey,
        /// What went wrong.
        problem: String,
    },
    /// The process that a claim is tied to is gone. Only the executor of the caller's own machine watches such processes.
    HolderGone {
        /// The claim whose holder is gone.
        run: RunKey,
    },
    /// A node does not answer. Its runs may go on; their ends are told when they are known.
    NodeGone {
        /// The name of the node that does not answer.
        node: NodeName,
        /// What is known of the cause.
        reason: String,
    },
    /// A node answers again, with these devices.
    NodeBack(Node),
    /// The devices of a node are others than before, or the node is new.
    InventoryChanged(Node),
    /// A node was forgotten: it is not in the inventory any more.
    NodeRemoved {
        /// The name of the node that was removed.
        node: NodeName,
    },
    /// What was seen on devices of nodes that are not the caller's own, of one node or of many.
    Looked(Vec<DeviceLook>),
    /// No run is on a device, and yet others cannot use it.
    DeviceHeld {
        /// The device that cannot be used.
        device: DeviceKey,
        /// What holds it.
        reason: String,
    },
    /// A device that was held can be used again.
    DeviceFree {
        /// The device that can be used again.
        device: DeviceKey,
    },
    /// Something that an administrator should know.
    Warning(String),
}

impl ExecutorEvent {
    /// The run that the event is about, if it is about one.
    pub fn run(&self) -> Option<RunKey> {
        match self {
            Self::Accepted { run }
            | Self::Running { run }
            | Self::Ended { run, .. }
            | Self::Unreadable { run, .. }
            | Self::HolderGone { run } => Some(*run),
            _ => None,
        }
    }
}
