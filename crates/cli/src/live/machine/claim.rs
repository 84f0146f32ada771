//! `rota claim`: GPUs for a process that Rota did not start.

use crate::live::args::{ClaimArgs, ClaimModeWord, ClaimNames, StateArgs};
use crate::live::client::{Client, Failure};
use crate::output;
use hyper::Method;
use rota_daemon::api::{ClaimMode, Gpu, GpuClaim, Job, JobState, Submitted};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// Cancels the claim when this process is told to end. GPUs granted later would stand idle as long as the shell lives.
fn cancel_on(kind: SignalKind, state: StateArgs, id: u64) {
    std::thread::spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        let told = runtime.block_on(async { Some(signal(kind).ok()?.recv().await) });
        if told.is_none() {
            return;
        }
        // Without a daemon the claim cannot be granted either.
        _ = Client::new(&state).post::<Vec<u64>>(&format!("/api/v1/jobs/{id}/cancel"));
        std::process::exit(1);
    });
}

/// The granted GPUs as CUDA takes them: by index, or by UUID where an index may mean another card. CUDA counts the fastest card first
/// unless it is told otherwise, so that the two differ on a machine with several models.
fn names(client: &Client, args: &ClaimArgs, job: &Job) -> anyhow::Result<Vec<String>> {
    let by_uuid = match args.print {
        Some(ClaimNames::Uuid) => true,
        Some(ClaimNames::Index) => false,
        None => {
            let gpus: Vec<Gpu> = client.get("/api/v1/gpus")?;
            let is_virtual = gpus.iter().any(|gpu| gpu.name.starts_with("Virtual"));
            !is_virtual && gpus.iter().any(|gpu| gpu.name != gpus[0].name)
        }
    };
    let uuids = job.gpu_uuids.clone().unwrap_or_default();
    let indices = job.gpu_indices.iter().flatten().map(ToString::to_string).collect();
    Ok(if by_uuid { uuids } else { indices })
}

/// Waits for GPUs and prints which; they are the caller's as long as it lives.
pub fn claim(args: &ClaimArgs) -> anyhow::Result<()> {
    let client = Client::new(&args.state);
    let parent = rustix::process::getppid().map_or(1, |pid| pid.as_raw_nonzero().get().unsigned_abs());
    let mode = if args.mode == ClaimModeWord::Queue { ClaimMode::Queue } else { ClaimMode::Schedule };
    let ask = GpuClaim {
        gpus: args.gpus.unwrap_or(1),
        from: args.from.clone(),
        mode,
        pid: args.pid.unwrap_or(parent),
        name: args.name.clone(),
    };
    let submitted: Submitted = client.send(&Method::POST, "/api/v1/claims", &ask)?;
    let id = submitted.ids.first().copied().unwrap_or_default();
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        cancel_on(kind, args.state.clone(), id);
    }
    let deadline = args.timeout.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
    loop {
        let left = deadline.map_or(60.0, |deadline| deadline.saturating_duration_since(Instant::now()).as_secs_f64().min(60.0));
        let job: Job = client.get(&format!("/api/v1/jobs/{id}/wait?started=true&timeout={left}"))?;
        match job.state {
            JobState::Running => {
                if args.json {
                    return output::print_json(&job);
                }
                return output::print(&names(&client, args, &job)?.join(","));
            }
            state if state.is_over() => {
                return Err(anyhow::Error::new(Failure(format!(
                    "the claim is {}: {}",
                    state.word(),
                    job.reason.unwrap_or_default()
                ))));
            }
            _ if deadline.is_some_and(|deadline| deadline <= Instant::now()) => {
                // The claim must not be granted after its process has given up.
                let _: Vec<u64> = client.post(&format!("/api/v1/jobs/{id}/cancel"))?;
                let why = job.reason.unwrap_or_default();
                return Err(anyhow::Error::new(Failure(format!("no GPU was to be had in time: {why}"))));
            }
            _ => {}
        }
    }
}
