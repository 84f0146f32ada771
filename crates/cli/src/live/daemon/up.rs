//! `rota up`, `rota down`, `rota config`: the daemon itself.

use crate::live::args::{ConfigVerb, DownArgs, UpArgs};
use crate::live::client::{Client, Failure, usual_dir};
use crate::output;
use anyhow::Context;
use rota_core::ThroughputTable;
use rota_daemon::api::{Drain, Status};
use rota_daemon::config::{EngineKind, Mechanism};
use rota_daemon::{Config, Options, Ready, ServeError};
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Starts a daemon.
pub fn up(args: &UpArgs) -> anyhow::Result<()> {
    let mut config = match &args.config {
        Some(path) => Config::read(path)?,
        None => Config::default(),
    };
    if let Some(port) = args.port {
        config.port = port;
    }
    if args.watchmen_port.is_some() {
        config.watchmen.port = args.watchmen_port;
    }
    if let Some(port) = args.workers_port {
        let ip = args.workers_bind.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        config.workers.listen = Some((ip, port).into());
    }
    if let Some(policy) = &args.policy {
        config.policy.clone_from(policy);
    }
    if let Some(mechanism) = &args.mechanism {
        config.mechanism = if mechanism == "rounds" { Mechanism::Rounds } else { Mechanism::Event };
    }
    if let Some(round) = args.round {
        config.round_seconds = round;
    }
    if args.min_run.is_some() {
        config.jobs.min_run_seconds = args.min_run;
    }
    if let Some(cap) = &args.power_cap {
        config.gpus.power_cap.clone_from(cap);
    }
    if let Some(bind) = args.bind {
        config.http.bind = bind;
    }
    if let (Some(cert), Some(key)) = (&args.tls_cert, &args.tls_key) {
        config.http.tls_cert.clone_from(cert);
        config.http.tls_key.clone_from(key);
    }
    if let Some(engine) = &args.engine {
        config.engine.kind = if engine == "slurm" { EngineKind::Slurm } else { EngineKind::Local };
    }
    config.check()?;
    if args.shadow {
        anyhow::ensure!(config.engine.kind == EngineKind::Slurm, "--shadow goes with --engine slurm");
        return crate::slurm::shadow(args, &config);
    }
    let throughputs = throughputs(&config)?;
    if args.detach {
        return detach(args);
    }
    let options = Options {
        config,
        state_dir: usual_dir(&args.state),
        virtual_gpus: args.virtual_gpus.clone(),
        program: std::env::current_exe().context("finding this program")?,
        policy: args.policy.clone(),
        throughputs,
        registry: std::sync::Arc::new(rota_learn::registry().clone()),
    };
    rota_daemon::serve(options, |ready| {
        // The caller may have closed its end of the output.
        _ = output::print(&greeting(ready));
    })
    .map_err(|error| match error {
        ServeError::Gpu(_) | ServeError::Policy(_) | ServeError::Tls(_) => anyhow::Error::new(error),
        other => anyhow::Error::new(Failure(other.to_string())),
    })
}

fn greeting(ready: &Ready) -> String {
    let gpus = match ready.gpus {
        0 => format!("no GPU ({}); jobs with -g 0 run, or try --virtual-gpus a100:4", ready.driver),
        1 => format!("1 GPU ({})", ready.driver),
        count => format!("{count} GPUs ({})", ready.driver),
    };
    let http = ready.http.as_ref().map_or_else(String::new, |url| format!(", {url}"));
    let watchmen = ready.watchmen.map_or_else(String::new, |address| format!(", watchmen http://{address}"));
    let workers = ready
        .workers
        .as_ref()
        .map_or_else(String::new, |(address, token)| format!(", workers on {address} with {}", token.display()));
    format!("rota is ready: socket {}{http}{watchmen}{workers}, {gpus}", ready.socket.display())
}

/// Starts the daemon as a process of its own, and waits until it is ready or has said why not.
fn detach(args: &UpArgs) -> anyhow::Result<()> {
    let dir = usual_dir(&args.state);
    std::fs::create_dir_all(&dir).with_context(|| format!("making {}", dir.display()))?;
    let log_path = dir.join("daemon.log");
    let log = std::fs::File::create(&log_path).with_context(|| format!("writing {}", log_path.display()))?;
    let mut command = Command::new(std::env::current_exe().context("finding this program")?);
    command.arg("up").arg("--foreground").arg("--state").arg(&dir);
    if let Some(config) = &args.config {
        command.arg("--config").arg(config.canonicalize().with_context(|| config.display().to_string())?);
    }
    if let Some(spec) = &args.virtual_gpus {
        command.arg("--virtual-gpus").arg(spec);
    }
    if let Some(port) = args.port {
        command.arg("--port").arg(port.to_string());
    }
    if let Some(port) = args.watchmen_port {
        command.arg("--watchmen-port").arg(port.to_string());
    }
    if let Some(port) = args.workers_port {
        command.arg("--workers-port").arg(port.to_string());
    }
    if let Some(bind) = &args.workers_bind {
        command.arg("--workers-bind").arg(bind.to_string());
    }
    if let Some(policy) = &args.policy {
        command.arg("--policy").arg(policy);
    }
    if let Some(mechanism) = &args.mechanism {
        command.arg("--mechanism").arg(mechanism);
    }
    if let Some(round) = args.round {
        command.arg("--round").arg(round.to_string());
    }
    if let Some(min_run) = args.min_run {
        command.arg("--min-run").arg(min_run.to_string());
    }
    if let Some(engine) = &args.engine {
        command.arg("--engine").arg(engine);
    }
    if let Some(cap) = &args.power_cap {
        command.arg("--power-cap").arg(cap);
    }
    if let Some(bind) = &args.bind {
        command.arg("--bind").arg(bind.to_string());
    }
    for (option, file) in [("--tls-cert", &args.tls_cert), ("--tls-key", &args.tls_key)] {
        if let Some(file) = file {
            command.arg(option).arg(file.canonicalize().with_context(|| file.display().to_string())?);
        }
    }
    // Out of this terminal's reach: what is typed here must not end it.
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .process_group(0)
        .spawn()
        .context("starting the daemon")?;
    let mut line = String::new();
    let stdout = child.stdout.take().context("the daemon's output")?;
    BufReader::new(stdout).read_line(&mut line).context("waiting for the daemon")?;
    if line.is_empty() {
        let status = child.wait().context("waiting for the daemon")?;
        let said = std::fs::read_to_string(&log_path).unwrap_or_default();
        let said = said.trim().trim_start_matches("rota: ").to_owned();
        if status.code() == Some(2) {
            anyhow::bail!(said);
        }
        return Err(anyhow::Error::new(Failure(if said.is_empty() {
            format!("the daemon ended at once: {status}")
        } else {
            said
        })));
    }
    output::print(line.trim_end())
}

/// Stops a daemon. Its jobs run on.
pub fn down(args: &DownArgs) -> anyhow::Result<()> {
    let client = Client::new(&args.state);
    let status: Status = client.get("/api/v1/status")?;
    if args.drain {
        let drain = Drain { gpus: Vec::new(), then_exit: true };
        let () = client.send(&hyper::Method::POST, "/api/v1/drain", &drain)?;
        output::remark(&format!("nothing more is started; the daemon stops when {} running jobs have ended", status.running));
    } else {
        let () = client.post("/api/v1/shutdown")?;
    }
    wait_for_end(status.pid);
    output::print(&format!("the daemon (pid {}) has stopped{}", status.pid, running(status.running, args.drain)))
}

fn running(count: u64, drained: bool) -> String {
    match count {
        0 => String::new(),
        _ if drained => String::new(),
        1 => "; 1 job runs on and is found again by the next `rota up`".to_owned(),
        count => format!("; {count} jobs run on and are found again by the next `rota up`"),
    }
}

/// Waits for a process by the kernel's word.
fn wait_for_end(pid: u32) {
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    if let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) {
        // Interrupted, we have waited long enough for the user.
        _ = poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], None);
    }
}

/// What the site knows of the speeds of jobs beside others.
fn throughputs(config: &Config) -> anyhow::Result<ThroughputTable> {
    match &config.sharing.throughputs {
        Some(path) => rota_trace::read_throughputs(path).context("sharing.throughputs"),
        None => Ok(ThroughputTable::new("none")),
    }
}

/// Looks at settings.
pub fn config(verb: &ConfigVerb) -> anyhow::Result<()> {
    match verb {
        ConfigVerb::Check { file } => {
            throughputs(&Config::read(file)?)?;
            output::print(&format!("{}: sound", file.display()))
        }
        ConfigVerb::Show { file } => {
            let config = match file {
                Some(path) => Config::read(path)?,
                None => Config::default(),
            };
            output::print(&toml::to_string(&config)?)
        }
        ConfigVerb::Schema => output::print(rota_daemon::config::SCHEMA),
    }
}
