//! Commands about the machine: gpus, status, drain, resume, policy, claim.

use crate::live::args::{ClaimArgs, ClaimModeWord, DrainArgs, PlainArgs, PolicyVerb, ProfilesArgs, StateArgs};
use crate::live::client::{Client, Failure};
use crate::live::text::{ago, columns};
use crate::output;
use hyper::Method;
use rota_daemon::api::{Claim, ClaimMode, Drain, Gpu, GpuState, Job, PolicyChange, Profile, State, Status, Submitted};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// The GPUs and who is on them.
pub fn gpus(args: &PlainArgs) -> anyhow::Result<()> {
    let gpus: Vec<Gpu> = Client::new(&args.state)?.get("/api/v1/gpus")?;
    if args.json {
        return output::print_json(&gpus);
    }
    output::print(&if gpus.is_empty() { "no GPU".to_owned() } else { gpu_table(&gpus) })
}

fn gpu_table(gpus: &[Gpu]) -> String {
    let mut rows = vec![["GPU", "TYPE", "STATE", "MEMORY", "BUSY", "POWER", "TEMP", "WHO"].map(str::to_owned).to_vec()];
    for gpu in gpus {
        let unknown = || "-".to_owned();
        let memory = gpu.memory_used_mib.map_or_else(unknown, |used| format!("{used}/{} MiB", gpu.memory_total_mib));
        let jobs = gpu.jobs.iter().map(|job| format!("job {job}"));
        let strangers = gpu.processes.iter().filter(|process| process.job.is_none());
        let strangers = strangers.map(|process| {
            let memory = process.memory_mib.map_or_else(String::new, |memory| format!(" {memory} MiB"));
            format!("pid {} of {}{memory}", process.pid, process.user.as_deref().unwrap_or("?"))
        });
        rows.push(vec![
            gpu.index.to_string(),
            gpu.kind.clone(),
            gpu_state(gpu.state).to_owned(),
            memory,
            gpu.utilisation_percent.map_or_else(unknown, |busy| format!("{busy} %")),
            gpu.power_watts.map_or_else(unknown, |watts| format!("{watts:.0} W")),
            gpu.temperature_c.map_or_else(unknown, |degrees| format!("{degrees} °C")),
            jobs.chain(strangers).collect::<Vec<_>>().join(", "),
        ]);
    }
    columns(&rows, output::width())
}

/// Whose a GPU is, as a word.
pub fn gpu_state(state: GpuState) -> &'static str {
    match state {
        GpuState::Free => "free",
        GpuState::Shared => "shared",
        GpuState::Full => "full",
        GpuState::Stranger => "stranger",
        GpuState::Drained => "drained",
        GpuState::Lost => "lost",
    }
}

/// What is known of the memory of programs.
pub fn profiles(args: &ProfilesArgs) -> anyhow::Result<()> {
    let client = Client::new(&args.state)?;
    if let Some(class) = &args.forget {
        let class = form_urlencoded::byte_serialize(class.as_bytes()).collect::<String>();
        return client.send(Method::DELETE, &format!("/api/v1/profiles?class={class}"), &());
    }
    let profiles: Vec<Profile> = client.get("/api/v1/profiles")?;
    if args.json {
        return output::print_json(&profiles);
    }
    let mut rows = vec![["TYPE", "RUNS", "PEAK", "NEXT", "CLASS"].map(str::to_owned).to_vec()];
    let mib = |value: Option<u32>| value.map_or_else(|| "-".to_owned(), |value| format!("{value} MiB"));
    rows.extend(profiles.iter().map(|profile| {
        vec![
            profile.kind.clone(),
            profile.runs.to_string(),
            mib(profile.peak_mib),
            mib(profile.predicted_mib),
            profile.class.clone(),
        ]
    }));
    output::print(&if profiles.is_empty() { "nothing measured yet".to_owned() } else { columns(&rows, output::width()) })
}

/// The whole state at a glance.
pub fn status(args: &PlainArgs) -> anyhow::Result<()> {
    let client = Client::new(&args.state)?;
    let status: Status = client.get("/api/v1/status")?;
    if args.json {
        return output::print_json(&status);
    }
    let mut lines = vec![
        format!("daemon   pid {} on {}, up {}, {}", status.pid, status.state_dir, ago(&status.started_at), status.driver),
        format!(
            "policy   {}{}",
            status.policy,
            if status.draining { "; DRAINED: nothing is started, `rota resume` goes on" } else { "" }
        ),
        format!("queue    {} running, {} waiting, {} held", status.running, status.waiting, status.held),
    ];
    lines.extend(status.http.iter().map(|http| format!("http     {http} (token in {}/token)", status.state_dir)));
    lines.extend(status.warnings.iter().map(|warning| format!("WARNING  {warning}")));
    if !status.gpus.is_empty() {
        lines.push(String::new());
        lines.push(gpu_table(&status.gpus));
    }
    output::print(&lines.join("\n"))
}

/// Starts nothing more, or goes on.
pub fn drain(args: &DrainArgs, verb: &str) -> anyhow::Result<()> {
    let drain = Drain { gpus: args.gpus.clone(), then_exit: false };
    Client::new(&args.state)?.send(Method::POST, &format!("/api/v1/{verb}"), &drain)
}

/// Says or changes who runs next.
pub fn policy(verb: &PolicyVerb) -> anyhow::Result<()> {
    match verb {
        PolicyVerb::Set { state, policy } => {
            Client::new(state)?.send(Method::PUT, "/api/v1/policy", &PolicyChange { policy: policy.clone() })
        }
        PolicyVerb::Show { state } => {
            let status: Status = Client::new(state)?.get("/api/v1/status")?;
            output::print(&status.policy)
        }
    }
}

/// Who stops waiting for GPUs does not want them any more: granted later, they would be nobody's as long as the shell lives.
fn cancel_on(kind: SignalKind, state: StateArgs, id: u64) {
    std::thread::spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        let told = runtime.block_on(async { Some(signal(kind).ok()?.recv().await) });
        if told.is_none() {
            return;
        }
        if let Ok(client) = Client::new(&state) {
            // Without a daemon there is nobody to grant it either.
            _ = client.post::<Vec<u64>>(&format!("/api/v1/jobs/{id}/cancel"));
        }
        std::process::exit(1);
    });
}

/// Waits for GPUs and prints which; they are the caller's as long as it lives.
pub fn claim(args: &ClaimArgs) -> anyhow::Result<()> {
    let client = Client::new(&args.state)?;
    let parent = rustix::process::getppid().map_or(1, |pid| pid.as_raw_nonzero().get().unsigned_abs());
    let mode = if args.mode == ClaimModeWord::Queue { ClaimMode::Queue } else { ClaimMode::Schedule };
    let ask = Claim {
        gpus: args.gpus.unwrap_or(1),
        from: args.from.clone(),
        mode,
        pid: args.pid.unwrap_or(parent),
        name: args.name.clone(),
    };
    let submitted: Submitted = client.send(Method::POST, "/api/v1/claims", &ask)?;
    let id = submitted.ids.first().copied().unwrap_or_default();
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        cancel_on(kind, args.state.clone(), id);
    }
    let deadline = args.timeout.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
    loop {
        let left = deadline.map_or(60.0, |deadline| deadline.saturating_duration_since(Instant::now()).as_secs_f64().min(60.0));
        let job: Job = client.get(&format!("/api/v1/jobs/{id}/wait?started=true&timeout={left}"))?;
        match job.state {
            State::Running => {
                let indices = job.gpu_indices.clone().unwrap_or_default();
                if args.json {
                    return output::print_json(&job);
                }
                return output::print(&indices.iter().map(ToString::to_string).collect::<Vec<_>>().join(","));
            }
            state if state.is_over() => {
                return Err(anyhow::Error::new(Failure(format!(
                    "the claim is {}: {}",
                    state.word(),
                    job.reason.unwrap_or_default()
                ))));
            }
            _ if deadline.is_some_and(|deadline| deadline <= Instant::now()) => {
                // It must not be granted to nobody later.
                let _: Vec<u64> = client.post(&format!("/api/v1/jobs/{id}/cancel"))?;
                let why = job.reason.unwrap_or_default();
                return Err(anyhow::Error::new(Failure(format!("no GPU was to be had in time: {why}"))));
            }
            _ => {}
        }
    }
}
