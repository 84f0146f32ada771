//! The socket and the ports where the daemon can be spoken to.

use super::{ServeError, doing};
use crate::config::Config;
use crate::http::{Listener, Seats, Site, Source, router, tls};
use crate::machine::platform::Message;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

/// Where the daemon can be spoken to.
pub(super) struct Ports {
    local: UnixListener,
    network: Option<TcpListener>,
    pub(super) tls: Option<TlsAcceptor>,
    /// The address of the API and the page.
    pub(super) http: Option<String>,
    /// For clients of watchmen.
    pub(super) clients: Option<TcpListener>,
}

impl Ports {
    pub(super) fn open(config: &Config, socket: &Path, uid: u32, runtime: &tokio::runtime::Runtime) -> Result<Self, ServeError> {
        let local = listen_locally(socket, uid)?;
        let tls = match &config.http {
            http if http.has_tls() => Some(tls(&http.tls_cert, &http.tls_key).map_err(ServeError::Tls)?),
            _ => None,
        };
        let network = if config.http.enabled { Some(listen_on((config.http.bind, config.port).into(), runtime)?) } else { None };
        let http = network.as_ref().and_then(|listener| listener.local_addr().ok()).map(|address| url(address, tls.is_some()));
        let loopback = |port: u16| SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, port));
        let clients = config.watchmen.port.map(|port| listen_on(loopback(port), runtime)).transpose()?;
        Ok(Self { local, network, tls, http, clients })
    }

    /// Answers on all of them from now on.
    pub(super) fn serve(self, site: &Arc<Site>, config: &Config, runtime: &tokio::runtime::Runtime) {
        let (told, relayed) = (site.board.listen(), Arc::clone(site));
        runtime.spawn(async move { relayed.relay.run(told).await });
        runtime.spawn(give_back_memory(Arc::clone(site)));
        let listener = Listener {
            seats: Arc::new(Seats::new(&config.limits, site.settings.daemon_uid)),
            own_seats: None,
            patience: Duration::from_secs_f64(config.http.patience_seconds),
            tls: None,
        };
        let router = router(Arc::clone(site));
        runtime.spawn(listener.clone().open(Source::Socket(self.local), router.clone()));
        if let Some(port) = self.network {
            let own_seats = Some(Arc::new(Semaphore::new(config.http.connections_max)));
            let listener = Listener { own_seats, tls: self.tls, ..listener.clone() };
            runtime.spawn(listener.open(Source::Port(port), router.clone()));
        }
        if let Some(port) = self.clients {
            runtime.spawn(listener.open(Source::Watchmen(port), router));
        }
    }
}

/// How often memory that was freed goes back to the system.
const GIVE_BACK_EVERY: Duration = Duration::from_secs(15);

/// How long the queue has to free what it keeps before the freed memory goes back.
const FREE_FIRST: Duration = Duration::from_secs(1);

/// Frees memory that is kept for speed only and gives freed memory back to the system, now and then, on a thread that nobody waits for.
async fn give_back_memory(site: Arc<Site>) {
    loop {
        tokio::time::sleep(GIVE_BACK_EVERY).await;
        // A queue that has ended needs no memory.
        _ = site.inbox.send(Message::Rest);
        tokio::time::sleep(FREE_FIRST).await;
        let site = Arc::clone(&site);
        let work = move || {
            site.archives.rest();
            site.lists.rest(Instant::now());
            rota_exec::give_back_memory();
        };
        // It cannot fail; a runtime that ends ends this, too.
        _ = tokio::task::spawn_blocking(work).await;
    }
}

fn listen_locally(path: &Path, uid: u32) -> Result<UnixListener, ServeError> {
    // We have the lock: whoever left this socket is gone.
    _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path).map_err(doing(path.display().to_string()))?;
    let mode = if uid == 0 { 0o666 } else { 0o600 };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(doing(path.display().to_string()))?;
    Ok(listener)
}

fn listen_on(address: SocketAddr, runtime: &tokio::runtime::Runtime) -> Result<TcpListener, ServeError> {
    runtime.block_on(TcpListener::bind(address)).map_err(|source| ServeError::Port { address, source })
}

/// Where to reach an address from here.
fn url(address: SocketAddr, has_tls: bool) -> String {
    let here = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    format!("{}://{}", if has_tls { "https" } else { "http" }, SocketAddr::new(here, address.port()))
}
