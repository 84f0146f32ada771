//! What tests of notifications and metrics need: a Python with a mail server and a reader of metrics, and free ports.

use crate::live::machine::gpus::python_with;
use std::net::TcpListener;
use std::path::PathBuf;

/// A port that nobody listens on now.
pub fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

/// A Python with what `tests/watchers` needs, made once; `None` where that cannot be had.
pub fn python() -> Option<PathBuf> {
    python_with("target/watchers", "tests/watchers/requirements.txt")
}
