//! Where workers connect to: takes connections, checks who it is, and carries messages. Threads of its own; nothing here decides.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, SystemTime};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{Permit, Sender, UnboundedReceiver, UnboundedSender, channel, unbounded_channel};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::certificate::WorkerIdentity;
use super::frame;
use super::hub::{Connection, Hub, Joined};
use super::protocol::{FRAME_BYTES_MAX, FromWorker, HELLO_BYTES_MAX, Hello, PROTOCOL, ToWorker, TunnelPiece, Welcome};
use super::tunnel;
use crate::executor::NodeName;

/// How long a caller may take to say who it is.
const HELLO_WITHIN: Duration = Duration::from_secs(20);
/// How often the caller is told what was seen on the GPUs of all nodes: as often as the GPUs of its own machine are looked at.
const TELL_LOOKS_EVERY: Duration = Duration::from_millis(500);
/// Callers at once that have not said who they are.
const STRANGERS_MAX: usize = 64;
/// Messages that wait to be taken in before workers are made to wait.
const BACKLOG: usize = 1024;

/// A message, and the connection that it came over.
type Heard = (NodeName, u64, FromWorker);

/// Where workers connect to.
pub(super) struct Listener {
    /// Ends with the listener.
    runtime: Option<Runtime>,
    /// The thread that looks for lost nodes ends with this.
    _watch: std::sync::mpsc::Sender<()>,
}

struct Gate {
    identity: WorkerIdentity,
    hub: Arc<Hub>,
    heard: Sender<Heard>,
    leases: Option<SocketAddr>,
}

impl Listener {
    pub(super) fn open(
        port: std::net::TcpListener,
        identity: WorkerIdentity,
        hub: Arc<Hub>,
        leases: Option<SocketAddr>,
    ) -> io::Result<Self> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).thread_name("workers").enable_all().build()?;
        port.set_nonblocking(true)?;
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(port)?
        };
        let (heard, mut messages) = channel::<Heard>(BACKLOG);
        let taken_by = Arc::clone(&hub);
        std::thread::Builder::new().name("worker-news".to_owned()).spawn(move || {
            while let Some((node, number, message)) = messages.blocking_recv() {
                taken_by.hear(&node, number, message);
            }
        })?;
        let listening = Arc::clone(&hub);
        runtime.spawn(async move {
            let mut ticks = interval(listening.clock.every());
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                listening.clock.tick();
            }
        });
        let watch = watch(&hub)?;
        let gate = Arc::new(Gate { identity, hub, heard, leases });
        runtime.spawn(gate.open(listener));
        Ok(Self { runtime: Some(runtime), _watch: watch })
    }
}

/// Looks for lost nodes, and tells what was seen on the others, until what is given back is dropped. Not among the connections, which
/// may not wait for the table.
fn watch(hub: &Arc<Hub>) -> io::Result<std::sync::mpsc::Sender<()>> {
    let (watched, ends) = std::sync::mpsc::channel();
    let hub = Arc::clone(hub);
    let every = hub.clock.every().min(TELL_LOOKS_EVERY);
    let looking = move || {
        let mut told = std::time::Instant::now();
        while ends.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
            hub.cut_revoked();
            hub.look_for_lost();
            if told.elapsed() >= TELL_LOOKS_EVERY {
                hub.pass_looks_on();
                told = std::time::Instant::now();
            }
        }
    };
    std::thread::Builder::new().name("worker-watch".to_owned()).spawn(looking)?;
    Ok(watched)
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Gate {
    async fn open(self: Arc<Self>, listener: TcpListener) {
        let strangers = Arc::new(tokio::sync::Semaphore::new(STRANGERS_MAX));
        loop {
            let Ok(seat) = Arc::clone(&strangers).acquire_owned().await else { return };
            let Ok((stream, peer)) = listener.accept().await else {
                // As when all files are taken, which passes.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let gate = Arc::clone(&self);
            tokio::spawn(async move {
                let joined = timeout(HELLO_WITHIN, gate.greet(stream, peer)).await;
                drop(seat);
                if let Ok(Ok((stream, joined))) = joined {
                    let (name, number) = (joined.name.clone(), joined.number);
                    gate.carry(stream, joined).await;
                    gate.hub.disconnected(&name, number);
                }
            });
        }
    }

    /// Hears who a caller is, and answers. A caller without the secret learns nothing but that.
    async fn greet(&self, stream: TcpStream, peer: SocketAddr) -> io::Result<(impl AsyncRead + AsyncWrite + use<>, Joined)> {
        stream.set_nodelay(true)?;
        let mut stream = self.identity.acceptor.accept(stream).await?;
        let bytes = frame::read(&mut stream, HELLO_BYTES_MAX).await?;
        let ends = (peer.ip(), stream.get_ref().0.local_addr()?.ip());
        // A node that is new is written down, which takes the time of the disk.
        let joined = tokio::task::block_in_place(|| self.admit(&bytes, ends));
        let welcome = match &joined {
            Ok(_) => {
                Welcome::Accepted { lost_after_ms: self.hub.lost_after.as_millis() as u64, has_leases: self.leases.is_some() }
            }
            Err(reason) => Welcome::Refused { reason: reason.clone() },
        };
        frame::write_json(&mut stream, &welcome).await?;
        match joined {
            Ok(joined) => Ok((stream, joined)),
            Err(reason) => {
                stream.shutdown().await?;
                Err(io::Error::other(reason))
            }
        }
    }

    fn admit(&self, bytes: &[u8], (worker, daemon): (IpAddr, IpAddr)) -> Result<Joined, String> {
        let version = env!("CARGO_PKG_VERSION");
        let fields: serde_json::Value = serde_json::from_slice(bytes).map_err(|_| "this is no worker".to_owned())?;
        let told = fields["token"].as_str().unwrap_or_default();
        let token = (!self.identity.knows(told)).then(|| told.to_owned());
        if token.as_ref().is_some_and(|token| !self.hub.admits(token)) {
            let file = self.identity.token_file.file_name().unwrap_or_default().to_string_lossy();
            return Err(format!(
                "the token is not this daemon's, or was revoked: copy the file `{file}` from its state directory again, or make a token \
                 with `rota token create --scope worker`"
            ));
        }
        if fields["protocol"] != PROTOCOL {
            let other = fields["version"].as_str().unwrap_or("unknown");
            return Err(format!("the worker has version {other} and the daemon {version}: install the same version on both"));
        }
        let hello: Hello = serde_json::from_value(fields).map_err(|error| format!("the worker's first message: {error}"))?;
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.hub.join(hello, Connection { worker, daemon, token }, wall.as_millis() as i64)
    }

    /// Carries messages both ways until the connection ends or is replaced.
    async fn carry(&self, stream: impl AsyncRead + AsyncWrite, joined: Joined) {
        let Joined { name, number, outgoing, heard_ms } = joined;
        let (mut reader, writer) = tokio::io::split(stream);
        let (answers, from_leases) = unbounded_channel();
        let beat = (self.hub.lost_after / 6).min(Duration::from_secs(5));
        let sending = send_all(writer, outgoing, from_leases, beat);
        let mut tunnels = HashMap::new();
        let hearing = async {
            while let Ok(bytes) = frame::read(&mut reader, FRAME_BYTES_MAX).await {
                heard_ms.store(self.hub.clock.now_ms(), Ordering::Relaxed);
                match frame::decode(&bytes) {
                    Ok(FromWorker::Beat) => {}
                    Ok(FromWorker::Tunnel(piece)) => self.pass_on(&mut tunnels, piece, &answers),
                    Ok(message) => {
                        let Some(seat) = self.seat(&heard_ms, beat).await else { return };
                        seat.send((name.clone(), number, message));
                    }
                    Err(_) => return,
                }
            }
        };
        tokio::select! {
            () = sending => {}
            () = hearing => {}
        }
    }

    /// Waits for room among the messages. A node whose message waits is not silent, though nothing more of it is read.
    async fn seat(&self, heard_ms: &AtomicU64, beat: Duration) -> Option<Permit<'_, Heard>> {
        loop {
            if let Ok(seat) = timeout(beat, self.heard.reserve()).await {
                return seat.ok();
            }
            heard_ms.store(self.hub.clock.now_ms(), Ordering::Relaxed);
        }
    }

    /// Passes a piece of a job's connection on to the lease service.
    fn pass_on(
        &self,
        tunnels: &mut HashMap<u64, UnboundedSender<Vec<u8>>>,
        piece: TunnelPiece,
        answers: &UnboundedSender<TunnelPiece>,
    ) {
        let (Some(leases), TunnelPiece { connection, bytes }) = (self.leases, piece) else { return };
        if bytes.is_empty() {
            tunnels.remove(&connection);
            return;
        }
        let pieces = tunnels.entry(connection).or_insert_with(|| {
            let (pieces, to_service) = unbounded_channel();
            let answers = answers.clone();
            tokio::spawn(async move {
                if let Ok(stream) = TcpStream::connect(leases).await {
                    tunnel::carry(stream, connection, to_service, &answers).await;
                }
                // Nobody is left to tell if the worker's connection is gone.
                _ = answers.send(TunnelPiece { connection, bytes: Vec::new() });
            });
            pieces
        });
        if pieces.send(bytes).is_err() {
            tunnels.remove(&connection);
        }
    }
}

/// Sends what there is to send, and a beat where there is nothing, until the node has another connection or this one breaks.
async fn send_all(
    mut writer: impl AsyncWrite + Unpin,
    mut outgoing: UnboundedReceiver<ToWorker>,
    mut from_leases: UnboundedReceiver<TunnelPiece>,
    beat: Duration,
) {
    let mut beats = tokio::time::interval_at(Instant::now() + beat, beat);
    loop {
        let message = tokio::select! {
            message = outgoing.recv() => match message {
                Some(message) => message,
                None => return,
            },
            Some(piece) = from_leases.recv() => ToWorker::Tunnel(piece),
            _ = beats.tick() => ToWorker::Beat,
        };
        let Ok(bytes) = frame::encode(&message) else { continue };
        if frame::write(&mut writer, &bytes).await.is_err() {
            return;
        }
    }
}
