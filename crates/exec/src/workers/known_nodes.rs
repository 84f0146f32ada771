//! The nodes that have ever joined, in a file of the daemon: a daemon that is started again knows which nodes to wait for, and a GPU
//! keeps its number.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rota_gpu::Device;
use serde::{Deserialize, Serialize};

use crate::executor::{RunIdentity, RunKey};

/// Proofs that are kept. The ends of runs are written down a moment after the proof.
const PROOFS_MAX: usize = 256;

/// The name of the file, below the state directory.
const FILE: &str = "nodes.json";

/// A node that has joined.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct KnownNode {
    pub(super) name: String,
    /// The worker's own directory.
    pub(super) place: String,
    /// The node's devices, with the numbers that they have in the whole cluster.
    pub(super) devices: Vec<Device>,
}

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct KnownNodes {
    /// The nodes in the order in which they joined.
    pub(super) nodes: Vec<KnownNode>,
    /// Numbers of GPUs by UUID, also of GPUs that are gone, so that a number is not given twice.
    numbers: BTreeMap<String, u32>,
    /// Runs that were given up with their nodes, by node: what is left of them is killed when the node is back.
    #[serde(default)]
    pub(super) given_up: Vec<(String, RunKey, RunIdentity)>,
    /// Nodes that were proved to be gone, and why: a daemon that was killed before it wrote down the ends of their runs asks again.
    #[serde(default)]
    proved_gone: Vec<(String, String)>,
    /// The file as it was written last.
    #[serde(skip)]
    written: Vec<u8>,
}

impl KnownNodes {
    /// Reads the file of a state directory; nothing is known where there is none.
    pub(super) fn read(state_dir: &Path) -> io::Result<Self> {
        let path = state_dir.join(FILE);
        match std::fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display()))),
        }
    }

    /// Writes the file, whole or not at all, if it would not be as it is: workers that come back are no news.
    pub(super) fn write(&mut self, state_dir: &Path) -> io::Result<()> {
        let (path, prepared): (PathBuf, PathBuf) = (state_dir.join(FILE), state_dir.join("nodes.json.new"));
        let bytes = serde_json::to_vec(self)?;
        if bytes == self.written {
            return Ok(());
        }
        let mut file = std::fs::File::create(&prepared)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        std::fs::rename(prepared, path)?;
        self.written = bytes;
        Ok(())
    }

    /// Gives devices the numbers that they had before, and new ones the next that are free. Numbers below `first` belong to the
    /// daemon's own machine.
    pub(super) fn number(&mut self, devices: &mut [Device], first: u32) {
        for device in devices {
            let known = self.numbers.get(&device.uuid).copied().filter(|number| *number >= first);
            device.index = known.unwrap_or_else(|| self.numbers.values().map(|number| number + 1).max().unwrap_or(0).max(first));
            self.numbers.insert(device.uuid.clone(), device.index);
        }
    }

    /// Keeps the proof that a node is gone.
    pub(super) fn prove_gone(&mut self, name: &str, reason: &str) {
        let surplus = (self.proved_gone.len() + 1).saturating_sub(PROOFS_MAX);
        self.proved_gone.drain(..surplus);
        self.proved_gone.push((name.to_owned(), reason.to_owned()));
    }

    /// Why no process is left on a node, if that was proved.
    pub(super) fn proof(&self, name: &str) -> Option<&str> {
        self.proved_gone.iter().rev().find(|(node, _)| node == name).map(|(_, reason)| reason.as_str())
    }

    /// Forgets a node and the numbers of its GPUs.
    pub(super) fn forget(&mut self, name: &str) {
        for node in self.nodes.extract_if(.., |node| node.name == name) {
            for device in node.devices {
                self.numbers.remove(&device.uuid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rota_gpu::{Devices, Virtual, parse_virtual};

    fn devices(node: &str) -> Vec<Device> {
        Virtual::on_node(&parse_virtual("a100:2").unwrap(), node).list().unwrap()
    }

    #[test]
    fn what_is_known_already_is_not_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut known = KnownNodes::default();
        let mut one = devices("one");
        known.number(&mut one, 0);
        known.write(folder.path()).unwrap();
        let file = folder.path().join(FILE);
        std::fs::remove_file(&file).unwrap();
        known.number(&mut one, 0);
        known.write(folder.path()).unwrap();
        assert!(!file.exists(), "the same node has come back");
        known.number(&mut devices("two"), 0);
        known.write(folder.path()).unwrap();
        assert!(file.exists());
    }

    #[test]
    fn a_gpu_keeps_its_number_and_no_two_have_one() {
        let folder = tempfile::tempdir().unwrap();
        let mut known = KnownNodes::read(folder.path()).unwrap();
        let (mut one, mut two) = (devices("one"), devices("two"));
        known.number(&mut one, 4);
        known.number(&mut two, 4);
        let numbers = |devices: &[Device]| devices.iter().map(|device| device.index).collect::<Vec<_>>();
        assert_eq!((numbers(&one), numbers(&two)), (vec![4, 5], vec![6, 7]));
        known.write(folder.path()).unwrap();
        let mut known = KnownNodes::read(folder.path()).unwrap();
        // The daemon's own machine has got a fifth GPU: the one that had its number moves.
        known.number(&mut one, 5);
        known.number(&mut two, 5);
        assert_eq!((numbers(&one), numbers(&two)), (vec![8, 5], vec![6, 7]));
    }
}
