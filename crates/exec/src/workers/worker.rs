//! `rota worker`: one node of a daemon on another machine. Opens the connection, keeps it, and opens it again for ever.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rota_gpu::{ComputeModes, Device};
use rustix::fs::{FlockOperation, flock};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};
use tokio_rustls::client::TlsStream;

use super::certificate::{JoinToken, server_name};
use super::farewell::{self, left_path};
use super::protocol::{FRAME_BYTES_MAX, FromWorker, HELLO_BYTES_MAX, Hello, PROTOCOL, ToWorker, TunnelPiece, Welcome};
use super::pruning::PruneRule;
use super::runner::{Input, Outbox, Placed, Runner};
use super::{frame, tunnel};
use crate::executor::DeviceLook;
use crate::local::executor::new_identity;
use crate::local::processes::identity::boot_id;
use crate::{LocalExecutor, LocalSettings};

/// How long connecting and greeting may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(20);
/// The first pause before a connection is tried again, and the longest.
const AGAIN_MIN: Duration = Duration::from_millis(100);
const AGAIN_MAX: Duration = Duration::from_secs(5);

/// Looks at the GPUs: given the jobs of processes, and the GPUs of jobs. Says which GPUs there are, and what was seen on them.
pub type Looker = Box<dyn FnMut(&HashMap<u32, u64>, &HashMap<u64, Vec<String>>) -> (Vec<Device>, Vec<DeviceLook>) + Send>;

/// What a worker is started with.
pub struct WorkerSettings {
    /// How runs are made on this machine, with the name of this node and the worker's own directory.
    pub local: LocalSettings,
    /// The GPUs of this machine.
    pub devices: Vec<Device>,
    /// What sets the compute modes of the GPUs.
    pub modes: Box<dyn ComputeModes + Send>,
    /// The daemon, as `HOST:PORT`.
    pub join: String,
    /// What the token file says.
    pub token: JoinToken,
    /// The address at which other nodes reach this one, where it is not the one that the connection comes from.
    pub address: Option<IpAddr>,
    /// Whether the worker is in an allocation of a cluster manager, which ends with its jobs.
    pub is_in_allocation: bool,
    /// The file by which the daemon says that it has ended for good. The worker then leaves when nothing runs any more.
    pub down_file: Option<PathBuf>,
    /// What looks at the GPUs.
    pub look: Looker,
    /// How often the GPUs are looked at.
    pub look_every: Duration,
    /// When run directories are removed.
    pub prune: PruneRule,
    /// Where remarks for people go.
    pub remark: Box<dyn Fn(&str)>,
}

/// Why a worker cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// The daemon does not want this worker.
    #[error("{daemon} refuses this worker: {reason}")]
    Refused {
        /// The daemon's address.
        daemon: String,
        /// What the daemon says.
        reason: String,
    },
    /// The worker's directory is taken.
    #[error("a worker already runs on {0}: give this one another --name or --state")]
    Taken(String),
    /// A file, a thread or a port.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// What the system says.
        source: io::Error,
    },
}

fn doing(what: impl Into<String>) -> impl FnOnce(io::Error) -> WorkError {
    let what = what.into();
    move |source| WorkError::Io { what, source }
}

/// Works until it is told to end. Jobs run on, and are found again by the next worker on the same directory.
pub fn work(settings: WorkerSettings) -> Result<(), WorkError> {
    let dir = settings.local.state_dir.clone();
    let shown = dir.display().to_string();
    std::fs::create_dir_all(dir.join("jobs")).map_err(doing(shown.clone()))?;
    let _lock = take(&dir).map_err(doing(shown.clone()))?.ok_or(WorkError::Taken(shown.clone()))?;
    let place = place_of(&dir).map_err(doing(shown))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(doing("starting threads"))?;
    let leases = runtime.block_on(open_leases(&dir)).map_err(doing("the port for leases"))?;
    let lease_address = leases.local_addr().map_err(doing("the port for leases"))?;

    let (inputs, to_do) = std::sync::mpsc::channel();
    let told = inputs.clone();
    let sink = Arc::new(move |event| _ = told.send(Input::Event(event)));
    let executor = LocalExecutor::new(settings.local.clone(), settings.devices, settings.modes, sink);
    let executor = executor.map_err(doing("watching processes"))?;
    let placed = Placed::default();
    start_looking(&executor, Arc::clone(&placed), settings.look, settings.look_every, inputs.clone());
    let runner = Runner::new(executor, dir.join("jobs"), placed, lease_address)
        .in_allocation(settings.is_in_allocation)
        .pruning(settings.prune);
    let running = move || runner.run(&to_do);
    std::thread::Builder::new().name("runs".to_owned()).spawn(running).map_err(doing("starting threads"))?;

    let caller = Caller {
        name: settings.local.node.as_str().to_owned(),
        place,
        boot_id: boot_id().unwrap_or_default(),
        join: settings.join,
        token: settings.token,
        address: settings.address,
        inputs,
        remark: settings.remark,
        tunnels: Tunnels::default(),
    };
    let left = settings.down_file.as_ref().map(|file| left_path(file, &caller.name));
    // What an earlier worker of this name wrote is no longer so.
    if let Some(left) = &left {
        _ = std::fs::remove_file(left);
    }
    runtime.block_on(async {
        let mut ends = [SignalKind::terminate(), SignalKind::interrupt()].map(|kind| signal(kind).ok());
        let [first, second] = &mut ends;
        let leave = caller.inputs.clone();
        let asked = async {
            match (first, second) {
                (Some(first), Some(second)) => tokio::select! { _ = first.recv() => {}, _ = second.recv() => {} },
                _ => std::future::pending().await,
            }
            if settings.is_in_allocation {
                let (waits, ended) = tokio::sync::oneshot::channel();
                if leave.send(Input::Leave(waits)).is_ok() {
                    // The manager kills whatever does not end in time, this worker included.
                    _ = ended.await;
                }
            }
        };
        tokio::select! {
            stopped = caller.call_for_ever() => stopped,
            () = caller.tunnels.take_jobs(leases) => Ok(()),
            () = asked => Ok(()),
            () = caller.wait_until_unneeded(settings.down_file.as_deref(), left.as_deref(), &dir) => Ok(()),
        }
    })
}

/// Makes the directory this worker's alone; `None` if another has it.
fn take(dir: &Path) -> io::Result<Option<std::fs::File>> {
    let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(dir.join("lock"))?;
    Ok(flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok().then_some(lock))
}

/// What tells this directory from every other.
fn place_of(dir: &Path) -> io::Result<String> {
    let path = dir.join("place");
    match std::fs::read_to_string(&path) {
        Ok(place) if !place.trim().is_empty() => return Ok(place.trim().to_owned()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let place = new_identity()?.as_str().to_owned();
    let mut file = std::fs::File::create(path)?;
    file.write_all(place.as_bytes())?;
    file.sync_all()?;
    Ok(place)
}

/// The port on which jobs find the lease service. It stays the same, because running jobs know it.
async fn open_leases(dir: &Path) -> io::Result<TcpListener> {
    let path = dir.join("lease");
    let known = std::fs::read_to_string(&path).ok().and_then(|text| text.trim().parse::<SocketAddr>().ok());
    let known = match known {
        Some(known) => TcpListener::bind(known).await.ok(),
        None => None,
    };
    let listener = match known {
        Some(listener) => listener,
        None => TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?,
    };
    std::fs::write(path, listener.local_addr()?.to_string())?;
    Ok(listener)
}

fn start_looking(executor: &LocalExecutor, jobs: Placed, mut look: Looker, every: Duration, inputs: Sender<Input>) {
    let node = executor.node();
    let looking = move || {
        loop {
            let places = jobs.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let (devices, looks) = look(&node.jobs_by_pid(), &places);
            node.found(devices);
            if inputs.send(Input::Looks(looks)).is_err() {
                return;
            }
            std::thread::sleep(every);
        }
    };
    // Without looks the GPUs are shown without readings.
    _ = std::thread::Builder::new().name("gpus".to_owned()).spawn(looking);
}

/// Connections of jobs on this machine to the lease service.
#[derive(Default)]
struct Tunnels {
    open: Mutex<HashMap<u64, UnboundedSender<Vec<u8>>>>,
    /// Where their pieces go, while there is a connection to the daemon.
    outgoing: Mutex<Option<UnboundedSender<TunnelPiece>>>,
}

impl Tunnels {
    async fn take_jobs(&self, listener: TcpListener) {
        let mut count = 0;
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            count += 1;
            let connection = count;
            let outgoing = self.outgoing.lock().unwrap_or_else(PoisonError::into_inner).clone();
            // A job whose daemon is away asks again.
            let Some(outgoing) = outgoing else { continue };
            let (pieces, incoming) = unbounded_channel();
            self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(connection, pieces);
            tokio::spawn(async move {
                tunnel::carry(stream, connection, incoming, &outgoing).await;
                _ = outgoing.send(TunnelPiece { connection, bytes: Vec::new() });
            });
        }
    }

    fn take_piece(&self, piece: TunnelPiece) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = piece.bytes.is_empty() || open.get(&piece.connection).is_none_or(|job| job.send(piece.bytes).is_err());
        if is_over {
            open.remove(&piece.connection);
        }
    }

    fn has_daemon(&self) -> bool {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn set_daemon(&self, outgoing: Option<UnboundedSender<TunnelPiece>>) {
        *self.outgoing.lock().unwrap_or_else(PoisonError::into_inner) = outgoing;
        self.open.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// What opens connections to the daemon.
struct Caller {
    name: String,
    place: String,
    boot_id: String,
    join: String,
    token: JoinToken,
    address: Option<IpAddr>,
    inputs: Sender<Input>,
    remark: Box<dyn Fn(&str)>,
    tunnels: Tunnels,
}

/// What became of trying to connect.
enum Called {
    Refused(String),
    Failed(io::Error),
    /// The connection was there, and is gone.
    Ended,
}

impl Caller {
    async fn call_for_ever(&self) -> Result<(), WorkError> {
        let mut pause = AGAIN_MIN;
        let (mut has_joined, mut said) = (false, String::new());
        loop {
            let problem = match self.call().await {
                Called::Ended => {
                    (has_joined, pause) = (true, AGAIN_MIN);
                    format!("the connection to {} is gone; jobs run on, and it is tried again", self.join)
                }
                Called::Refused(reason) if !has_joined => {
                    return Err(WorkError::Refused { daemon: self.join.clone(), reason });
                }
                Called::Refused(reason) => format!("{} refuses this worker, and is tried again: {reason}", self.join),
                Called::Failed(error) => format!("{} cannot be reached, and is tried again: {error}", self.join),
            };
            // Said once, not at every try.
            if problem != said {
                (self.remark)(&problem);
                said = problem;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(AGAIN_MAX);
        }
    }

    /// Waits until the daemon has ended for good and nothing runs any more. How the runs have ended is written down then.
    async fn wait_until_unneeded(&self, down_file: Option<&Path>, left: Option<&Path>, dir: &Path) {
        let (Some(down_file), Some(left)) = (down_file, left) else { return std::future::pending().await };
        loop {
            tokio::time::sleep(farewell::LOOK_EVERY).await;
            if self.tunnels.has_daemon() || !down_file.exists() {
                continue;
            }
            let (reply, introduced) = oneshot::channel();
            if self.inputs.send(Input::Introduce(reply)).is_err() {
                continue;
            }
            let Ok((_, runs)) = introduced.await else { continue };
            if !farewell::are_over(&runs) {
                continue;
            }
            match farewell::write(left, dir.join("jobs"), runs) {
                Ok(()) => {
                    (self.remark)("the daemon has ended, and nothing runs here any more: this worker leaves");
                    return;
                }
                Err(error) => (self.remark)(&format!("{}: {error}", left.display())),
            }
        }
    }

    async fn call(&self) -> Called {
        let Ok(greeted) = timeout(CONNECT_WITHIN, self.greet()).await else {
            return Called::Failed(io::ErrorKind::TimedOut.into());
        };
        match greeted {
            Ok((stream, Welcome::Accepted { lost_after_ms, .. }, gpus)) => {
                (self.remark)(&format!("{} has joined {} with {gpus} GPUs", self.name, self.join));
                self.carry(stream, Duration::from_millis(lost_after_ms)).await;
                Called::Ended
            }
            Ok((_, Welcome::Refused { reason }, _)) => Called::Refused(reason),
            Err(error) => Called::Failed(error),
        }
    }

    async fn greet(&self) -> io::Result<(TlsStream<TcpStream>, Welcome, usize)> {
        let stream = TcpStream::connect(&self.join).await?;
        stream.set_nodelay(true)?;
        let mut stream = self.token.connector()?.connect(server_name()?, stream).await?;
        let (reply, introduced) = oneshot::channel();
        let gone = || io::Error::other("the thread that has the runs has ended");
        self.inputs.send(Input::Introduce(reply)).map_err(|_| gone())?;
        let (devices, runs) = introduced.await.map_err(|_| gone())?;
        let gpus = devices.len();
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let hello = Hello {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            token: self.token.secret.clone(),
            name: self.name.clone(),
            place: self.place.clone(),
            boot_id: self.boot_id.clone(),
            wall_ms: wall.as_millis() as i64,
            address: self.address,
            devices,
            runs,
        };
        frame::write_json(&mut stream, &hello).await?;
        let welcome = frame::read(&mut stream, HELLO_BYTES_MAX).await?;
        Ok((stream, serde_json::from_slice(&welcome)?, gpus))
    }

    /// Carries messages both ways until the connection ends, or nothing was heard for too long.
    async fn carry(&self, stream: TlsStream<TcpStream>, lost_after: Duration) {
        let (mut reader, writer) = tokio::io::split(stream);
        let (sender, outgoing) = unbounded_channel();
        let (to_service, pieces) = unbounded_channel();
        self.tunnels.set_daemon(Some(to_service));
        let outbox = Outbox { sender, queued_bytes: Arc::new(AtomicUsize::new(0)) };
        let queued = Arc::clone(&outbox.queued_bytes);
        // Without the thread that has the runs, nothing is asked of this worker any more.
        _ = self.inputs.send(Input::Connected(outbox));
        let beat = (lost_after / 6).min(Duration::from_secs(5));
        let hearing = async {
            while let Ok(Ok(bytes)) = timeout(lost_after, frame::read(&mut reader, FRAME_BYTES_MAX)).await {
                match frame::decode(&bytes) {
                    Ok(ToWorker::Beat) => {}
                    Ok(ToWorker::Tunnel(piece)) => self.tunnels.take_piece(piece),
                    Ok(message) => _ = self.inputs.send(Input::Message(message)),
                    Err(_) => return,
                }
            }
        };
        tokio::select! {
            () = send_all(writer, outgoing, pieces, &queued, beat) => {}
            () = hearing => {}
        }
        self.tunnels.set_daemon(None);
        _ = self.inputs.send(Input::Disconnected);
    }
}

async fn send_all(
    mut writer: impl AsyncWriteExt + Unpin,
    mut outgoing: UnboundedReceiver<FromWorker>,
    mut pieces: UnboundedReceiver<TunnelPiece>,
    queued_bytes: &AtomicUsize,
    beat: Duration,
) {
    let mut beats = tokio::time::interval_at(Instant::now() + beat, beat);
    loop {
        let message = tokio::select! {
            message = outgoing.recv() => match message {
                Some(message) => message,
                None => return,
            },
            Some(piece) = pieces.recv() => FromWorker::Tunnel(piece),
            _ = beats.tick() => FromWorker::Beat,
        };
        if let FromWorker::Output { bytes, .. } = &message {
            queued_bytes.fetch_sub(bytes.len(), Ordering::Relaxed);
        }
        let Ok(bytes) = frame::encode(&message) else { continue };
        if frame::write(&mut writer, &bytes).await.is_err() {
            return;
        }
    }
}
