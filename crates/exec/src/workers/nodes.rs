//! A node as the daemon knows it, and whether a worker may be one.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rota_gpu::Device;
use tokio::sync::mpsc::UnboundedSender;

use super::home::HomeNode;
use super::hub::Table;
use super::protocol::{HeldState, Hello, ToWorker};
use crate::executor::{Node, NodeName, RunIdentity, RunKey};

/// A node that has joined.
pub(super) struct NodeEntry {
    pub(super) name: NodeName,
    pub(super) place: String,
    pub(super) devices: Vec<Device>,
    /// Whether the caller takes the node to answer.
    pub(super) answers: bool,
    /// Whether the caller was told that the node is gone.
    pub(super) is_told_gone: bool,
    /// Whether its GPUs were looked at since the worker joined.
    pub(super) is_seen: bool,
    pub(super) link: Option<Link>,
    /// When something was heard of the node, in milliseconds of the hub's clock.
    pub(super) heard_ms: Arc<AtomicU64>,
    /// The runs that the worker has.
    pub(super) held: HashMap<RunKey, (RunIdentity, HeldState)>,
    /// Where other nodes reach this one.
    pub(super) address: Option<IpAddr>,
    /// Where this node reaches the daemon's machine.
    pub(super) daemon_address: Option<IpAddr>,
    /// The token that the worker joined by, if it was not the secret of the token file.
    pub(super) token: Option<String>,
    /// What must be added to times by the node's clock.
    pub(super) clock_behind_ns: i64,
    /// The daemon's own machine; none for a worker.
    pub(super) home: Option<HomeNode>,
}

impl NodeEntry {
    /// The node as the caller sees it.
    pub(super) fn node(&self) -> Node {
        Node { name: self.name.clone(), devices: self.devices.clone(), answers: self.answers }
    }

    /// Tells the worker something. False if it is not connected.
    pub(super) fn send(&self, message: ToWorker) -> bool {
        self.link.as_ref().is_some_and(|link| link.sender.send(message).is_ok())
    }
}

/// The connection of a node.
pub(super) struct Link {
    pub(super) number: u64,
    pub(super) sender: UnboundedSender<ToWorker>,
}

/// Whether a worker may join under its name.
pub(super) fn check_join(table: &Table, hello: &Hello, name: &NodeName) -> Result<(), String> {
    let is_word = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
    if hello.name.is_empty() || hello.name.len() > 64 || !hello.name.chars().all(is_word) {
        return Err(format!(
            "`{}` is no name for a node: letters, digits and `._-`, at most 64; give one with --name",
            hello.name
        ));
    }
    for node in table.nodes.iter().filter(|node| node.name != *name) {
        let shared = hello.devices.iter().find(|device| node.devices.iter().any(|other| other.uuid == device.uuid));
        if let Some(shared) = shared {
            return Err(format!(
                "GPU {} is one of node {}: is this the same machine under another name?",
                shared.uuid, node.name
            ));
        }
    }
    let Some(node) = table.nodes.iter().find(|node| node.name == *name) else { return Ok(()) };
    if node.place == hello.place {
        return Ok(());
    }
    if node.link.is_some() {
        return Err(format!("another worker is connected as {name}: give this one another name with --name"));
    }
    let runs = table.runs.values().filter(|run| run.rank_on(name).is_some()).count();
    if runs > 0 {
        return Err(format!(
            "node {name} was another worker, with another directory, and {runs} of its runs may still be running: start that one again, \
             or say `rota node forget {name}` if it is gone for good"
        ));
    }
    Ok(())
}
