//! The lease service of a measurement: it never stops a workload, and has each of them tell its steps again and again.
//!
//! Leases are short and renewed for ever. A renewal carries the steps and the time of the run, which is all that a speed needs. Should this
//! process end, the leases run out and the workloads leave by themselves.

use anyhow::Context;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What a workload has told of itself at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// When it was heard.
    pub at: Instant,
    pub steps: u64,
    /// How long the workload had run, by its own clock.
    pub seconds: f64,
}

/// The samples of each workload, by its token.
type Samples = Mutex<HashMap<String, Vec<Sample>>>;

#[derive(Clone)]
struct Shared {
    samples: Arc<Samples>,
    lease_seconds: f64,
}

/// The service, until it is dropped.
pub struct Leases {
    pub address: SocketAddr,
    samples: Arc<Samples>,
    _runtime: tokio::runtime::Runtime,
}

/// A request, of which only some fields matter here.
#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    rank: u32,
    steps: Option<u64>,
    seconds: Option<f64>,
    step: Option<u64>,
}

impl Leases {
    /// Starts the service on a free port of loopback.
    pub fn start(lease_seconds: f64) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let samples = Arc::new(Samples::default());
        let listener = runtime
            .block_on(tokio::net::TcpListener::bind(("127.0.0.1", 0)))
            .context("no port on loopback could be opened for the workloads")?;
        let address = listener.local_addr()?;
        let router = Router::new()
            .route("/lease/v1/notice", get(notice))
            .route("/lease/v1/{verb}", post(answer))
            .with_state(Shared { samples: Arc::clone(&samples), lease_seconds });
        runtime.spawn(async move { axum::serve(listener, router).await });
        Ok(Self { address, samples, _runtime: runtime })
    }

    /// Lets in a workload; returns its token.
    pub fn admit(&self) -> anyhow::Result<String> {
        let mut secret = [0_u8; 16];
        getrandom::fill(&mut secret).map_err(|error| anyhow::anyhow!("no random numbers are to be had: {error}"))?;
        let token = format!("{:032x}", u128::from_ne_bytes(secret));
        locked(&self.samples).insert(token.clone(), Vec::new());
        Ok(token)
    }

    /// What a workload has told so far.
    pub fn samples(&self, token: &str) -> Vec<Sample> {
        locked(&self.samples).get(token).cloned().unwrap_or_default()
    }

    /// Forgets a workload.
    pub fn dismiss(&self, token: &str) {
        locked(&self.samples).remove(token);
    }
}

fn locked(samples: &Samples) -> MutexGuard<'_, HashMap<String, Vec<Sample>>> {
    // A list of samples is whole whenever the lock is free.
    samples.lock().unwrap_or_else(PoisonError::into_inner)
}

/// There is nothing to say: the answer never comes.
async fn notice() -> StatusCode {
    std::future::pending().await
}

async fn answer(
    State(shared): State<Shared>,
    Path(verb): Path<String>,
    headers: HeaderMap,
    Json(asked): Json<Asked>,
) -> (StatusCode, Json<Value>) {
    let token = headers.get("authorization").and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let mut samples = locked(&shared.samples);
    let Some(known) = token.and_then(|token| samples.get_mut(token)) else {
        return (StatusCode::UNAUTHORIZED, Json(json!({ "error": "the token is not of a workload that is being measured" })));
    };
    if let (0, Some(steps), Some(seconds)) = (asked.rank, asked.steps, asked.seconds) {
        known.push(Sample { at: Instant::now(), steps, seconds });
    }
    let max_seconds = asked.seconds.unwrap_or(0.0) + shared.lease_seconds;
    let said = match verb.as_str() {
        "grant" => json!({ "lease": 1, "max_seconds": max_seconds, "steps_done": 0, "resume_from": null }),
        "renew" => json!({ "state": "go", "max_seconds": max_seconds, "last_step": null, "grace_seconds": 60 }),
        "commit" => json!({ "step": asked.step }),
        "progress" | "complete" => json!({}),
        _ => return (StatusCode::NOT_FOUND, Json(json!({ "error": "there is no such request" }))),
    };
    (StatusCode::OK, Json(said))
}
