//! The thread that keeps allocations, as the daemon has it in hand.

use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

/// Giving back may take this long when the daemon ends.
const CLOSE_WITHIN: Duration = Duration::from_secs(15);

/// The keeper's thread. It ends with this, and leaves allocations as they are unless it is closed.
pub(crate) struct KeeperThread {
    close: Sender<()>,
    is_done: Receiver<()>,
}

impl KeeperThread {
    /// A thread that ends when it hears the first, and tells the second.
    pub(super) fn new(close: Sender<()>, is_done: Receiver<()>) -> Self {
        Self { close, is_done }
    }

    /// Gives back the allocations that no job needs. A controller that does not answer is not waited for.
    pub fn close(self) {
        if self.close.send(()).is_ok() {
            _ = self.is_done.recv_timeout(CLOSE_WITHIN);
        }
    }
}
