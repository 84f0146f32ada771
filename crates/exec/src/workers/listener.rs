//! Where workers connect to: takes connections, checks who it is, and carries messages. Threads of its own; nothing here decides.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{Sender, UnboundedReceiver, UnboundedSender, channel, unbounded_channel};
use tokio::time::{Instant, interval, timeout};

use super::certificate::WorkerIdentity;
use super::frame;
use super::hub::{ConnectionEnds, Hub, Joined};
use super::protocol::{FRAME_BYTES_MAX, FromWorker, HELLO_BYTES_MAX, Hello, PROTOCOL, ToWorker, TunnelPiece, Welcome};
use super::tunnel;
use crate::executor::NodeName;

/// How long a caller may take to say who it is.
const HELLO_WITHIN: Duration = Duration::from_secs(20);
/// How often the caller is told what was seen on GPUs.
const TELL_LOOKS_EVERY: Duration = Duration::from_millis(100);
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
        let watcher = Arc::clone(&hub);
        runtime.spawn(async move {
            let mut ticks = interval((watcher.lost_after / 10).clamp(Duration::from_millis(20), Duration::from_secs(1)));
            loop {
                ticks.tick().await;
                watcher.look_for_lost();
            }
        });
        let teller = Arc::clone(&hub);
        runtime.spawn(async move {
            let mut ticks = interval(TELL_LOOKS_EVERY);
            loop {
                ticks.tick().await;
                teller.pass_looks_on();
            }
        });
        let gate = Arc::new(Gate { identity, hub, heard, leases });
        runtime.spawn(gate.open(listener));
        Ok(Self { runtime: Some(runtime) })
    }
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
        let ends = ConnectionEnds { worker: peer.ip(), daemon: stream.get_ref().0.local_addr()?.ip() };
        let joined = self.admit(&bytes, ends);
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

    fn admit(&self, bytes: &[u8], ends: ConnectionEnds) -> Result<Joined, String> {
        let version = env!("CARGO_PKG_VERSION");
        let fields: serde_json::Value = serde_json::from_slice(bytes).map_err(|_| "this is no worker".to_owned())?;
        if !fields["token"].as_str().is_some_and(|token| self.identity.knows(token)) {
            let file = self.identity.token_file.file_name().unwrap_or_default().to_string_lossy();
            return Err(format!("the token is not this daemon's: copy the file `{file}` from its state directory again"));
        }
        if fields["protocol"] != PROTOCOL {
            let other = fields["version"].as_str().unwrap_or("unknown");
            return Err(format!("the worker has version {other} and the daemon {version}: install the same version on both"));
        }
        let hello: Hello = serde_json::from_value(fields).map_err(|error| format!("the worker's first message: {error}"))?;
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.hub.join(hello, ends, wall.as_millis() as i64)
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
                heard_ms.store(self.hub.now_ms(), Ordering::Relaxed);
                match frame::decode(&bytes) {
                    Ok(FromWorker::Beat) => {}
                    Ok(FromWorker::Tunnel(piece)) => self.pass_on(&mut tunnels, piece, &answers),
                    Ok(message) => {
                        if self.heard.send((name.clone(), number, message)).await.is_err() {
                            return;
                        }
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
