//! Speaking to the daemon, over its socket.

use crate::live::args::StateArgs;
use crate::live::demo_place;
use anyhow::Context;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rota_daemon::api::Problem;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use tokio::net::UnixStream;

/// What was asked could not be done; exit code 1, where mistakes of the caller have 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub String);

/// A daemon's socket, and a runtime to speak over it.
pub struct Client {
    socket: PathBuf,
    runtime: tokio::runtime::Runtime,
    /// Whether the last call found no daemon, or lost it before the answer.
    missed: std::cell::Cell<bool>,
}

/// Where the daemon that is meant keeps its things: the one that is named, this user's or the machine's, or a demo where neither answers.
pub fn state_dir(args: &StateArgs) -> PathBuf {
    let usual = usual_dir(args);
    if args.named().is_some() {
        return usual;
    }
    match demo_place::running_demo() {
        Some(demo) if !demo_place::answers(&usual) => demo,
        _ => usual,
    }
}

/// Where the daemon of this user keeps its things.
pub fn usual_dir(args: &StateArgs) -> PathBuf {
    let system = PathBuf::from("/var/lib/rota");
    if let Some(dir) = args.named() {
        return dir;
    }
    if rustix::process::geteuid().is_root() {
        return system;
    }
    let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = from("XDG_STATE_HOME").or_else(|| from("HOME").map(|home| home.join(".local/state")));
    let own = base.map_or_else(|| system.clone(), |base| base.join("rota"));
    // A user without a daemon of their own means the machine's.
    if !own.join("rota.sock").exists() && system.join("rota.sock").exists() { system } else { own }
}

impl Client {
    /// A client of the daemon that the options name.
    pub fn new(args: &StateArgs) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { socket: state_dir(args).join("rota.sock"), runtime, missed: std::cell::Cell::new(false) })
    }

    /// Whether the last call found no daemon, or lost it before the answer: it may be back soon.
    pub fn missed_the_daemon(&self) -> bool {
        self.missed.get()
    }

    /// Asks for something.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        self.runtime.block_on(self.call(Method::GET, path, Bytes::new()))
    }

    /// Asks for a list, page by page, until there is no more of it or `is_enough` says so.
    pub fn pages<T: DeserializeOwned>(
        &self,
        path: &str,
        mut is_enough: impl FnMut(&[Vec<T>]) -> bool,
    ) -> anyhow::Result<Vec<Vec<T>>> {
        self.runtime.block_on(async {
            let (mut pages, mut path) = (Vec::new(), path.to_owned());
            loop {
                let response = accepted(self.request(Method::GET, &path, Bytes::new()).await?).await?;
                let next = next_page(&response);
                pages.push(self.understood(response).await?);
                match next {
                    Some(next) if !is_enough(&pages) => path = next,
                    _ => return Ok(pages),
                }
            }
        })
    }

    /// Asks for something to be done.
    pub fn send<T: DeserializeOwned>(&self, method: Method, path: &str, body: &impl Serialize) -> anyhow::Result<T> {
        let body = Bytes::from(serde_json::to_vec(body)?);
        self.runtime.block_on(self.call(method, path, body))
    }

    /// Asks for something to be done that needs nothing said.
    pub fn post<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        self.runtime.block_on(self.call(Method::POST, path, Bytes::new()))
    }

    /// Hands on what comes, piece by piece, until it ends.
    pub fn stream(&self, path: &str, mut take: impl FnMut(&[u8]) -> anyhow::Result<()>) -> anyhow::Result<()> {
        self.runtime.block_on(async {
            let mut response = accepted(self.request(Method::GET, path, Bytes::new()).await?).await?;
            while let Some(frame) = response.body_mut().frame().await {
                if let Some(piece) = frame.map_err(|_| self.lost())?.data_ref() {
                    take(piece)?;
                }
            }
            Ok(())
        })
    }

    /// Does several things at once on this thread: what they ask is asked with [`Self::call`] and [`Self::open`].
    pub fn block_on<F: Future>(&self, work: F) -> F::Output {
        self.runtime.block_on(work)
    }

    /// The answer's body, piece by piece.
    pub async fn open(&self, path: &str) -> anyhow::Result<Incoming> {
        Ok(accepted(self.request(Method::GET, path, Bytes::new()).await?).await?.into_body())
    }

    /// Asks for something, or for something to be done.
    pub async fn call<T: DeserializeOwned>(&self, method: Method, path: &str, body: Bytes) -> anyhow::Result<T> {
        self.understood(accepted(self.request(method, path, body).await?).await?).await
    }

    async fn understood<T: DeserializeOwned>(&self, response: Response<Incoming>) -> anyhow::Result<T> {
        let mut incoming = response.into_body();
        let mut body = Vec::with_capacity(incoming.size_hint().exact().unwrap_or(0).min(1 << 26) as usize);
        while let Some(frame) = incoming.frame().await {
            if let Some(piece) = frame.map_err(|_| self.lost())?.data_ref() {
                body.extend_from_slice(piece);
            }
        }
        serde_json::from_slice(&body)
            .context("the daemon's answer cannot be understood; are `rota` and the daemon of one version?")
    }

    async fn request(&self, method: Method, path: &str, body: Bytes) -> anyhow::Result<Response<Incoming>> {
        self.missed.set(true);
        let stream = UnixStream::connect(&self.socket).await.map_err(|error| no_daemon(&self.socket, &error))?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|_| self.lost())?;
        tokio::spawn(connection);
        let request =
            Request::builder().method(method).uri(path).header("host", "rota").header("content-type", "application/json");
        let response = sender.send_request(request.body(Full::new(body))?).await;
        let response = response.map_err(|_| self.lost())?;
        self.missed.set(response.status() == StatusCode::SERVICE_UNAVAILABLE);
        Ok(response)
    }

    fn lost(&self) -> anyhow::Error {
        self.missed.set(true);
        anyhow::Error::new(Failure("the daemon went away before it had answered".to_owned()))
    }
}

/// The address of the next page of a list.
fn next_page(response: &Response<Incoming>) -> Option<String> {
    let links = response.headers().get(hyper::header::LINK)?.to_str().ok()?;
    let next = links.split(',').find(|link| link.contains("rel=\"next\""))?;
    Some(next.split_once('<')?.1.split_once('>')?.0.to_owned())
}

fn no_daemon(socket: &Path, error: &std::io::Error) -> anyhow::Error {
    let dir = socket.parent().unwrap_or(socket).display();
    let message = match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            format!("{dir} belongs to another user: name your own daemon's directory with --state")
        }
        _ => format!("no daemon on {dir} ({error}): start one with `rota up --detach`, or name another with --state"),
    };
    anyhow::Error::new(Failure(message))
}

/// A refusal of the daemon, with the exit code that it means.
async fn accepted(response: Response<Incoming>) -> anyhow::Result<Response<Incoming>> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = response.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let message = serde_json::from_slice::<Problem>(&body)
        .map_or_else(|_| format!("{status}: {}", String::from_utf8_lossy(&body)), |problem| problem.title);
    if matches!(status, StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY | StatusCode::PAYLOAD_TOO_LARGE) {
        anyhow::bail!(message);
    }
    Err(anyhow::Error::new(Failure(message)))
}
