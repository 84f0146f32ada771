//! An executor that does not exist: three nodes, a clock that jumps, and faults on order. For tests of whatever uses an executor.
//!
//! A [`FakeCluster`] is the place; it stays when a caller is gone, as real nodes do. A [`FakeExecutor`] is a caller's way to it. What a
//! run does is in the first word of its command, see [`FakeDeed`]. Nothing happens before the clock is moved: [`FakeCluster::advance`].

mod cluster;
mod deed;

pub use cluster::{FakeCluster, FakeFault, FakeStart};
pub use deed::FakeDeed;

use std::io;
use std::path::PathBuf;

use crate::executor::{
    Adoption, EventSink, Executor, KnownRun, Node, PrepareError, RunIdentity, RunKey, RunRequest, StartError, Started, Stop,
    StopError,
};

/// A caller's way to a [`FakeCluster`]. Only the last one made hears of anything.
pub struct FakeExecutor {
    cluster: FakeCluster,
    caller: u64,
}

impl FakeExecutor {
    /// A caller of a cluster, whose events go to a sink.
    pub fn new(cluster: &FakeCluster, sink: EventSink) -> Self {
        Self { cluster: cluster.clone(), caller: cluster.connect(sink) }
    }

    /// The cluster, to move its clock and to order faults.
    pub fn cluster(&self) -> &FakeCluster {
        &self.cluster
    }
}

impl Drop for FakeExecutor {
    fn drop(&mut self) {
        self.cluster.disconnect(self.caller);
    }
}

impl Executor for FakeExecutor {
    fn inventory(&self) -> Vec<Node> {
        self.cluster.nodes()
    }

    fn check_mps(&self) -> Result<(), String> {
        Ok(())
    }

    fn prepare(&mut self, run: RunKey) -> Result<RunIdentity, PrepareError> {
        self.cluster.prepare(run)
    }

    fn start(&mut self, request: RunRequest) -> Result<Started, StartError> {
        self.cluster.start(self.caller, &request)
    }

    fn stop(&mut self, run: RunKey, how: Stop) -> Result<(), StopError> {
        self.cluster.stop(self.caller, run, how)
    }

    fn adopt(&mut self, run: &KnownRun) -> Adoption {
        self.cluster.adopt(self.caller, run)
    }

    fn settle(&mut self) {}

    fn log_path(&self, _: RunKey) -> Option<PathBuf> {
        None
    }

    fn log_end(&self, run: RunKey, bytes_max: u64) -> io::Result<Vec<u8>> {
        self.cluster.log_end(run, bytes_max)
    }

    fn highest_job(&self) -> io::Result<Option<u64>> {
        Ok(self.cluster.highest_job())
    }
}
