//! Speaking to the daemon, over its socket. One request is made without a runtime ([`exchange`]); what comes piece by piece, or beside
//! other work, is asked for by hyper.

use crate::live::args::StateArgs;
use crate::live::demo_place;
use crate::live::exchange::{Answer, Unanswered, exchange};
use anyhow::Context;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rota_daemon::api::Problem;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use tokio::net::UnixStream;

/// What was asked could not be done; exit code 1, where mistakes of the caller have 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub String);

/// A daemon's socket.
pub struct Client {
    socket: PathBuf,
    /// Whether the last call found no daemon, or lost it before the answer.
    missed: Cell<bool>,
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
    pub fn new(args: &StateArgs) -> Self {
        Self { socket: state_dir(args).join("rota.sock"), missed: Cell::new(false) }
    }

    /// Whether the last call found no daemon, or lost it before the answer: it may be back soon.
    pub fn missed_the_daemon(&self) -> bool {
        self.missed.get()
    }

    /// Asks for something.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        understood(self.ask(&Method::GET, path, &[])?.body())
    }

    /// Asks for a list, page by page, until there is no more of it or `is_enough` says so.
    pub fn pages<T: DeserializeOwned>(
        &self,
        path: &str,
        mut is_enough: impl FnMut(&[Vec<T>]) -> bool,
    ) -> anyhow::Result<Vec<Vec<T>>> {
        let (mut pages, mut path) = (Vec::new(), path.to_owned());
        loop {
            let answer = self.ask(&Method::GET, &path, &[])?;
            pages.push(understood(answer.body())?);
            match answer.link.as_deref().and_then(next_page) {
                Some(next) if !is_enough(&pages) => path = next,
                _ => return Ok(pages),
            }
        }
    }

    /// Asks for something to be done.
    pub fn send<T: DeserializeOwned>(&self, method: &Method, path: &str, body: &impl Serialize) -> anyhow::Result<T> {
        understood(self.ask(method, path, &serde_json::to_vec(body)?)?.body())
    }

    /// Asks for something to be done that needs nothing said.
    pub fn post<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        understood(self.ask(&Method::POST, path, &[])?.body())
    }

    /// Hands on what comes, piece by piece, until it ends.
    pub fn stream(&self, path: &str, mut take: impl FnMut(&[u8]) -> anyhow::Result<()>) -> anyhow::Result<()> {
        tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
            let mut body = self.open(path).await?;
            while let Some(frame) = body.frame().await {
                if let Some(piece) = frame.map_err(|_| self.lost())?.data_ref() {
                    take(piece)?;
                }
            }
            Ok(())
        })
    }

    /// Asks, and waits for the whole answer.
    fn ask(&self, method: &Method, path: &str, body: &[u8]) -> anyhow::Result<Answer> {
        self.missed.set(true);
        let answer = exchange(&self.socket, method, path, body).map_err(|why| match why {
            Unanswered::NoDaemon(error) => no_daemon(&self.socket, &error),
            Unanswered::WentAway => self.lost(),
        })?;
        self.missed.set(answer.status == StatusCode::SERVICE_UNAVAILABLE);
        if answer.status.is_success() { Ok(answer) } else { Err(refusal(answer.status, answer.body())) }
    }

    /// The answer's body, piece by piece.
    pub async fn open(&self, path: &str) -> anyhow::Result<Incoming> {
        Ok(accepted(self.request(Method::GET, path, Bytes::new()).await?).await?.into_body())
    }

    /// Asks for something, or for something to be done.
    pub async fn call<T: DeserializeOwned>(&self, method: Method, path: &str, body: Bytes) -> anyhow::Result<T> {
        let body = accepted(self.request(method, path, body).await?).await?.into_body().collect().await;
        understood(&body.map_err(|_| self.lost())?.to_bytes())
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

fn understood<T: DeserializeOwned>(body: &[u8]) -> anyhow::Result<T> {
    serde_json::from_slice(body).context("the daemon's answer cannot be understood; are `rota` and the daemon of one version?")
}

/// The address of the next page of a list.
fn next_page(links: &str) -> Option<String> {
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

/// The response, unless it is a refusal.
async fn accepted(response: Response<Incoming>) -> anyhow::Result<Response<Incoming>> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let body = response.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    Err(refusal(status, &body))
}

/// A refusal of the daemon, with the exit code that it means.
fn refusal(status: StatusCode, body: &[u8]) -> anyhow::Error {
    let message = serde_json::from_slice::<Problem>(body)
        .map_or_else(|_| format!("{status}: {}", String::from_utf8_lossy(body)), |problem| problem.title);
    match status {
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY | StatusCode::PAYLOAD_TOO_LARGE => anyhow::anyhow!(message),
        _ => anyhow::Error::new(Failure(message)),
    }
}
