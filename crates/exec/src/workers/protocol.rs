//! The messages between a daemon and its workers.
//!
//! A connection begins with one [`Hello`] and one [`Welcome`], both as JSON, which stay readable between versions. Everything after is
//! `postcard`, and both sides have the same [`PROTOCOL`].

use std::ffi::OsString;
use std::net::IpAddr;

use rota_gpu::Device;
use serde::{Deserialize, Serialize};

use crate::executor::{DeviceLook, RunEnd, RunIdentity, RunKey, RunRequest, Stop};

/// The version of the messages. Daemon and worker must agree.
pub(super) const PROTOCOL: u32 = 1;

/// The largest first message: devices, and a line for each run directory of the node.
pub(super) const HELLO_BYTES_MAX: usize = 64 << 20;

/// The largest message after that: a job with its environment, or a page of output.
pub(super) const FRAME_BYTES_MAX: usize = 16 << 20;

/// The largest page of output.
pub(super) const OUTPUT_BYTES_MAX: usize = 256 << 10;

/// What a worker says first.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    /// The version of the messages.
    pub(super) protocol: u32,
    /// The version of the program.
    pub(super) version: String,
    /// The secret of the token file.
    pub(super) token: String,
    /// The name of the node.
    pub(super) name: String,
    /// The worker's own directory: random, made with the directory and kept in it.
    pub(super) place: String,
    /// The boot of the node.
    pub(super) boot_id: String,
    /// The time by the worker's clock, in milliseconds since 1970.
    pub(super) wall_ms: i64,
    /// The address at which other nodes reach this one, where it is not the one that the connection comes from.
    pub(super) address: Option<IpAddr>,
    /// The GPUs of the node.
    pub(super) devices: Vec<Device>,
    /// All runs that have a directory here.
    pub(super) runs: Vec<HeldRun>,
}

/// A run on a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct HeldRun {
    pub(super) run: RunKey,
    pub(super) identity: RunIdentity,
    pub(super) state: HeldState,
}

/// What a worker knows of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum HeldState {
    /// The run's supervisor is alive.
    Running,
    /// The run is being started, or cannot be read now. It is told later.
    Unknown,
    /// The run has ended.
    Ended(RunEnd),
}

/// The daemon's answer to a [`Hello`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Welcome {
    /// The worker is one of the daemon's nodes now.
    Accepted {
        /// A side that hears nothing for so long gives the connection up.
        lost_after_ms: u64,
        /// Where running jobs ask about their leases, at the daemon. There is none where jobs have no leases.
        has_leases: bool,
    },
    /// The worker cannot be one of the daemon's nodes.
    Refused {
        /// Why, and what to do.
        reason: String,
    },
}

/// What the daemon tells a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToWorker {
    /// The daemon is there.
    Beat,
    /// Start a run that is on this node alone.
    Start(Box<RunRequest>),
    /// Make ready a run that is on several nodes.
    Prepare(Box<RunRequest>),
    /// All nodes are ready: start it, with these variables more.
    Launch(RunKey, Vec<(OsString, OsString)>),
    /// Not all nodes are ready: it will not be started.
    Discard(RunKey),
    /// Stop a run.
    Stop(RunKey, Stop),
    /// Tell what has become of a run, and its output from this place on.
    Report(RunKey, OutputPlace),
    /// A piece of a connection of a job to the lease service.
    Tunnel(TunnelPiece),
}

/// What a worker tells the daemon.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromWorker {
    /// The worker is there.
    Beat,
    /// A run that is on several nodes is ready on this one, where this port is free; or why not.
    Prepared(RunKey, Result<u16, String>),
    /// A run is running.
    Running(RunKey),
    /// A run has ended, and all its output was sent before.
    Ended(RunKey, RunIdentity, RunEnd),
    /// It cannot be read now what has become of a run.
    Unreadable(RunKey, String),
    /// The GPUs of the node are others than before.
    Devices(Vec<Device>),
    /// A GPU is held by something that a run has left, for this reason, or is free again.
    Held(String, Option<String>),
    /// What was seen on the GPUs.
    Looks(Vec<DeviceLook>),
    /// Output of a run, which begins at a place.
    Output {
        run: RunKey,
        place: OutputPlace,
        /// How many files of output are kept.
        files_max: u32,
        bytes: Vec<u8>,
    },
    /// Something that an administrator should know.
    Warning(String),
    /// A piece of a connection of a job to the lease service.
    Tunnel(TunnelPiece),
}

/// A place in the output of a run, which is in several files where it is long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct OutputPlace {
    /// The file, counted from 0.
    pub(super) part: u32,
    /// The byte in it.
    pub(super) offset: u64,
}

/// A piece of a connection that is carried inside the worker's own.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TunnelPiece {
    /// The connection's number, given by the worker.
    pub(super) connection: u64,
    /// The bytes; none when the side that sends this has closed.
    pub(super) bytes: Vec<u8>,
}
