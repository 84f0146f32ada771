//! The daemon: puts store, GPUs, queue and API together, and keeps them going until it is told to stop.

use crate::api::GpuName;
use crate::clock::{SystemClock, boot_id, boot_ns, rfc3339, wall_ns};
use crate::config::{Config, MetricsAccess};
use crate::forecast;
use crate::http::connections::raise_files;
use crate::http::{Lists, Rates, Sessions, Site, SiteSettings, Streams, WatchmenRoutes};
use crate::lease::routes::LeaseService;
use crate::machine::inventory::Machine;
use crate::machine::monitor;
use crate::machine::platform::{Message, message_of};
use crate::machine::power;
use crate::machine::run_requests::RunRequests;
use crate::machine::system_platform::SystemPlatform;
use crate::queue::restore::{keep_up, save_image, set_policy, take_inventory};
use crate::queue::switches::Leave;
use crate::queue::world::LiveWorld;
use crate::simulate::simulations::Simulations;
use crate::store::archives::Archives;
use crate::store::{Access, Stamp, Store, StoreError};
use crate::view::board::Board;
use crate::view::relay::Relay;
use crate::watchmen::keeper::Keeper;
use rota_core::Time;
use rota_engine::{Moment, Occasion, Session};
use rota_exec::{Executor, LocalSettings};
use rustix::fs::{FlockOperation, flock};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

mod executors;
mod leases;
mod ports;

use executors::{Executors, keep_allocations, leave_allocations, open_executor};
use leases::{open_leases, serve_leases};
use ports::Ports;

/// What a daemon is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Everything a site can set.
    pub config: Config,
    /// Where it keeps its things.
    pub state_dir: PathBuf,
    /// Invented GPUs in place of real ones.
    pub virtual_gpus: Option<String>,
    /// The program that supervises jobs when called with `__supervise DIR`.
    pub program: PathBuf,
    /// Speeds of job types beside others.
    pub throughputs: rota_core::ThroughputTable,
    /// Who runs next from now on, whatever was set live before.
    pub policy: Option<String>,
    /// The policies that can be chosen.
    pub registry: Arc<rota_policy::Registry>,
}

/// Why a daemon cannot start, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The state directory is somebody else's.
    #[error("{path} belongs to another user (uid {uid}): choose another directory with --state")]
    NotOurs {
        /// The state directory.
        path: PathBuf,
        /// The directory's owner.
        uid: u32,
    },
    /// Another daemon has it.
    #[error(
        "a daemon already runs on {path}{}: `rota status --state {path}` shows it, `rota down --state {path}` stops it",
        .pid.map_or_else(String::new, |pid| format!(" (pid {pid})"))
    )]
    Running {
        /// The state directory.
        path: PathBuf,
        /// The process of that daemon.
        pid: Option<u32>,
    },
    /// The port is taken.
    #[error("port {} on {} cannot be had ({source}): choose another with --port, or 0 for any free one", .address.port(), .address.ip())]
    Port {
        /// The address and port that were asked for.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The certificate or its key.
    #[error("TLS: {0}")]
    Tls(String),
    /// A file or a thread.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// What the system says.
        source: io::Error,
    },
    /// The store cannot be opened, read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The GPUs of this machine cannot be read.
    #[error(transparent)]
    Gpu(#[from] rota_gpu::GpuError),
    /// Slurm cannot be used.
    #[error("Slurm: {0}")]
    Slurm(String),
    /// The policy of the store or the configuration.
    #[error("policy: {0}")]
    Policy(String),
}

/// What a daemon says when it is ready.
#[derive(Clone, Debug)]
pub struct Ready {
    /// The path of its socket.
    pub socket: PathBuf,
    /// The address of its API and its page.
    pub http: Option<String>,
    /// Its second one, for clients of watchmen.
    pub watchmen: Option<SocketAddr>,
    /// Where workers connect to, and the token file that they need.
    pub workers: Option<(SocketAddr, PathBuf)>,
    /// The number of its GPUs.
    pub gpus: usize,
    /// What drives them.
    pub driver: String,
}

fn doing(what: impl Into<String>) -> impl FnOnce(io::Error) -> ServeError {
    let what = what.into();
    move |source| ServeError::Io { what, source }
}

/// Runs a daemon until it is told to stop. `ready` is called once when it can be spoken to.
///
/// It is long because it is a list: the parts of the daemon, in the order in which they need each other. In pieces the order would be hidden.
pub fn serve(options: Options, ready: impl FnOnce(&Ready)) -> Result<(), ServeError> {
    rota_exec::keep_little_memory();
    let uid = rustix::process::geteuid().as_raw();
    let (job_limits, files_before) = (rota_exec::ResourceLimits::of_this_process(), raise_files());
    let _lock = take_state_dir(&options.state_dir, uid)?;
    let state_dir = options.state_dir.canonicalize().map_err(doing(options.state_dir.display().to_string()))?;
    let database = state_dir.join("rota.db");
    let mut store = open_store(&database, options.policy.as_deref())?;
    let access = store.access();
    let (config, program) = (options.config, options.program.clone());

    let mut source = monitor::Source::open(options.virtual_gpus.as_deref())?;
    let (devices, _power) = capped_devices(&mut source, &config, &state_dir)?;
    let driver = source.driver();
    make_device_files(&devices, uid);
    let compute = source.modes()?;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let board = Arc::new(Board::default());
    let (inbox, messages) = std::sync::mpsc::channel();
    let clock = SystemClock::from(first_moment(&mut store, &boot_id(), boot_ns())?);
    let settings = local_settings(&host, &state_dir, &options.program, &config, files_before);
    let told = inbox.clone();
    let sink: rota_exec::EventSink = Arc::new(move |event| _ = told.send(message_of(event)));
    let (leases, lease_port) = open_leases(&state_dir, &config, clock)?;
    let Executors { executor, workers_port, workers, slurm } =
        open_executor(settings, &config, (&devices, compute), leases.address(), &sink, &board)?;
    let node = executor.node();
    let nodes = executor.inventory();
    let machine = Machine::new(&host, &nodes, cpu_slots(&config)).with_entities(&config.users.entities);
    where_there_is_room(remember_gpus(&mut store, &machine))?;
    let estimates = crate::memory::knowledge::estimates_of(&config, &machine);
    let requests = RunRequests::new(host.as_str().into(), &nodes, state_dir.clone(), &config);
    let requests = requests.with_leases(Arc::clone(&leases), options.program.clone(), devices.len());
    let platform = SystemPlatform::new(clock, messages, executor, requests);
    let world = LiveWorld::new(platform, store, Arc::clone(&board), config.clone(), machine)?;
    let mut world = world.with_throughputs(options.throughputs).with_leases(Arc::clone(&leases)).with_registry(options.registry);
    note_disk(&mut world, access, &database);

    let runtime = new_runtime().map_err(doing("starting threads"))?;
    let _inside = runtime.enter();
    let lease_port = TcpListener::from_std(lease_port).map_err(doing("lease port"))?;
    let socket = state_dir.join("rota.sock");
    let ports = Ports::open(&config, &socket, uid, &runtime)?;
    if let Some(url) = &ports.http {
        write_address(&state_dir, url).map_err(doing("http"))?;
    }
    // Without one, clients whose answers are held when the daemon is killed find their connections cut.
    let keeper = ports.clients.as_ref().and_then(|_| Keeper::start(&options.program).ok());
    board.tokens.take_own(&state_dir, uid).map_err(doing("token"))?;
    let (news, mail) = std::sync::mpsc::channel();
    crate::notify::start((&state_dir, access), &host, &config, Arc::clone(&board), (news.clone(), mail))?;
    runtime.spawn(crate::notify::follow(Arc::clone(&board), news.clone()));
    let site = Arc::new(Site {
        settings: SiteSettings {
            state_dir: state_dir.clone(),
            daemon_uid: uid,
            admins: config.users.admins.iter().filter_map(|name| crate::access::users::find(name)).collect(),
            is_private: config.users.private,
            job_limits,
            body_bytes_max: config.limits.request_mib << 20,
            has_tls: ports.tls.is_some(),
            metrics_open: config.http.metrics == MetricsAccess::Open && config.http.bind.is_loopback(),
            socket: socket.to_string_lossy().into_owned(),
            http: ports.http.clone(),
            started_at: rfc3339(wall_ns()),
            driver: driver.clone(),
            scheduler: config.scheduler_settings(),
        },
        board: Arc::clone(&board),
        inbox: inbox.clone(),
        archives: Archives::open(database, access)?,
        users: crate::access::users::Directory::default(),
        sessions: Sessions::open(state_dir.join("sessions"), config.http.session_hours, &board.tokens),
        rates: Rates::new(config.http.requests_per_second, config.http.burst),
        streams: Streams::new(&config.limits),
        lists: Lists::default(),
        relay: Relay::default(),
        learned: forecast::learned::SharedLearned::default(),
        simulations: Simulations::new(options.program, &state_dir, config.sharing.throughputs.as_deref())
            .map_err(doing("simulations"))?,
        estimates,
        watchmen: WatchmenRoutes::new(config.watchmen.clone(), devices.iter().map(|device| device.index).collect(), keeper),
        notify: news,
    });
    let (http, watchmen) = (ports.http.clone(), ports.clients.as_ref().and_then(|port| port.local_addr().ok()));
    stop_on_signals(&runtime, &inbox);
    // Whoever asks first finds the GPUs and jobs as they are.
    world.adopt();
    let mut session = world.restore().map_err(ServeError::Policy)?;
    ports.serve(&site, &config, &runtime);
    serve_leases(&runtime, lease_port, LeaseService { leases, board: Arc::clone(&board), inbox: inbox.clone() });

    let look_every = Duration::from_secs_f64(config.gpus.look_seconds);
    monitor::start(source, devices.clone(), look_every, Arc::clone(&board), node, inbox.clone())
        .map_err(doing("watching GPUs"))?;
    let (learned, believed) = (site.learned.clone(), site.estimates.clone());
    forecast::forecaster::start(Arc::clone(&board), site.archives.another()?, inbox.clone(), learned, believed)
        .map_err(doing("forecasts"))?;
    let allocations = keep_allocations(slurm, workers, &workers_port, program, &board, &inbox)?;
    ready(&Ready { socket: socket.clone(), http, watchmen, workers: workers_port, gpus: devices.len(), driver });
    let ran = run(&mut session);
    site.simulations.stop_all();
    leave_allocations(allocations, &board);
    ran?;
    clear_away(&socket, &state_dir, &site, runtime);
    Ok(())
}

/// The number of jobs without GPUs that run at once.
fn cpu_slots(config: &Config) -> u32 {
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    if config.jobs.cpu_slots == 0 { processors } else { config.jobs.cpu_slots }
}

/// Tells the queue that the disk is full, where it is.
fn note_disk(world: &mut LiveWorld<SystemPlatform>, access: Access, database: &Path) {
    if access == Access::Alone {
        world.note_full_disk(database);
    } else if crate::store::is_full(database) {
        world.note_store::<()>(&Err(StoreError::DiskFull(database.to_owned())));
    }
}

/// The GPUs that are used, under the power cap that is set. The limits are put back when the guard is dropped.
fn capped_devices(
    source: &mut monitor::Source,
    config: &Config,
    state_dir: &Path,
) -> Result<(Vec<rota_gpu::Device>, Option<power::PowerGuard>), ServeError> {
    let devices = chosen(source.list()?, config);
    let guard = power::begin(source, &devices, &config.gpus.cap(), state_dir).map_err(doing("power cap"))?;
    Ok((chosen(source.list()?, config), guard))
}

/// Takes away what others find the daemon by.
fn clear_away(socket: &Path, state_dir: &Path, site: &Site, runtime: tokio::runtime::Runtime) {
    // Best effort: whatever remains is found to be stale at the next start.
    _ = std::fs::remove_file(socket);
    _ = std::fs::remove_file(state_dir.join("http"));
    _ = runtime.block_on(tokio::time::timeout(Duration::from_millis(500), site.watchmen.close()));
    runtime.shutdown_timeout(Duration::from_millis(200));
}

/// How runs are made on this machine.
pub(crate) fn local_settings(
    host: &str,
    state_dir: &Path,
    program: &Path,
    config: &Config,
    files_before: Option<u64>,
) -> LocalSettings {
    LocalSettings {
        node: host.into(),
        state_dir: state_dir.to_owned(),
        program: program.to_owned(),
        arguments: vec!["__supervise".into()],
        cgroup: config.jobs.cgroups.then(rota_exec::cgroup_root).flatten(),
        mps_control: config.sharing.mps_control.clone(),
        hardening: rota_exec::Hardening {
            isolates_devices: config.jobs.isolate_devices,
            no_new_privileges: config.jobs.no_new_privileges,
        },
        files_max: files_before,
    }
}

fn open_store(database: &Path, policy: Option<&str>) -> Result<Store, StoreError> {
    let mut store = Store::open(database)?;
    // The moment of the first start: what is told to others about this queue is told once, for this queue.
    if store.meta("epoch_ns")?.is_none() {
        store.transaction(|writer| writer.set_meta("epoch_ns", &wall_ns().to_string()))?;
    }
    if let Some(policy) = policy
        && store.meta("policy")?.as_deref() != Some(policy)
    {
        store.transaction(|writer| writer.set_meta("policy", policy))?;
    }
    Ok(store)
}

fn new_runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).max_blocking_threads(16).enable_all().build()
}

/// Writes down where the port is, for callers that look for it.
fn write_address(state_dir: &Path, url: &str) -> io::Result<()> {
    match std::fs::write(state_dir.join("http"), format!("{url}\n")) {
        // On a full disk they find none until the next start; `rota status` names it.
        Err(error) if error.kind() == io::ErrorKind::StorageFull => Ok(()),
        written => written,
    }
}

/// The loop that simulations run in, on the live world, until the daemon is to end.
pub fn run<P: crate::machine::platform::Platform>(session: &mut Session<LiveWorld<P>>) -> Result<(), ServeError> {
    run_until_exit(session)?;
    session.world.write_samples(wall_ns() / 1_000_000_000);
    save_image(session);
    session.world.journal.store.checkpoint();
    Ok(())
}

/// The same, for a daemon that ends without a word.
pub(crate) fn run_until_exit<P: crate::machine::platform::Platform>(
    session: &mut Session<LiveWorld<P>>,
) -> Result<(), ServeError> {
    let mut observe = |_: &rota_core::Event| {};
    loop {
        while session.advance(&mut observe).is_some() {
            let target = session.ask();
            session.world.show_problems(session.engine.take_problems());
            session.hand_in(&target, &mut observe);
            if let Some(rows) = session.engine.compact() {
                session.world.rows.renumber(&rows);
                shrink_tables(&mut session.engine.state);
            }
            if session.world.journal.wants_image(session.world.records.jobs.len()) {
                keep_up(session);
            }
        }
        match session.world.take_leave() {
            Some(Leave::PlanRound) => plan_round(session),
            Some(Leave::Inventory) => take_inventory(session).map_err(ServeError::Policy)?,
            Some(Leave::Fork(asker)) => forecast::fork::hand_over(session, &asker),
            Some(Leave::SetPolicy(policy)) => set_policy(session, &policy).map_err(ServeError::Policy)?,
            Some(Leave::Exit) | None => return Ok(()),
        }
    }
}

/// Tables that were once much longer must not hold that memory for years.
fn shrink_tables(state: &mut rota_engine::State) {
    if state.jobs.capacity() / 4 > state.jobs.len() {
        let room = state.jobs.len() * 2;
        state.jobs.shrink_to(room);
        Arc::make_mut(&mut state.bound).jobs.shrink_to(room);
    }
}

/// Finds out at half time who will have to leave when the round ends, if nothing happens until then: those alone are not given longer
/// leases.
fn plan_round<P: crate::machine::platform::Platform>(session: &mut Session<LiveWorld<P>>) {
    let Some(end) = session.world.end_of_round() else { return };
    let mut engine = session.engine.clone();
    engine.look(Moment { now: end, occasion: Occasion::Tick });
    let target = engine.ask();
    let plan = engine.plan(&target);
    session.world.plan_leaves(&plan.stops);
}

/// The queue's time goes on where it was. It follows the clock that counts from boot, which nobody can set, and stands still while the
/// machine is off: a change of the wall clock is neither waiting time nor service.
fn first_moment(store: &mut Store, boot_id: &str, boot_ns: u64) -> Result<Time, ServeError> {
    let (_, _, last) = store.last()?;
    let known = store.meta("clock")?;
    let ahead = known.as_deref().and_then(|text| text.split_once(' ')).filter(|(boot, _)| *boot == boot_id);
    let behind_boot = ahead.and_then(|(_, behind)| behind.parse::<i128>().ok());
    let by_boot = behind_boot.and_then(|behind| u64::try_from(i128::from(boot_ns) - behind).ok()).unwrap_or(0);
    let first = last.max(by_boot) + 1;
    let behind = i128::from(boot_ns) - i128::from(first);
    // Without it the next start counts from the last event, as after a restart of the machine.
    where_there_is_room(store.transaction(|writer| writer.set_meta("clock", &format!("{boot_id} {behind}"))))?;
    Ok(Time(first))
}

/// Passes on what came of a write that the daemon can start without: on a full disk it must start, so that jobs can be cancelled.
fn where_there_is_room(written: Result<(), StoreError>) -> Result<(), StoreError> {
    match written {
        Err(StoreError::DiskFull(_)) => Ok(()),
        written => written,
    }
}

/// Writes down which GPUs there are, for those who look back when they are gone.
pub(crate) fn remember_gpus(store: &mut Store, machine: &Machine) -> Result<(), StoreError> {
    let stamp = Stamp { at: 0, wall_ns: wall_ns() };
    store.transaction(|writer| {
        for (device, kind) in machine.devices.iter().zip(&machine.kinds) {
            let (uuid, name) = (device.uuid.clone(), device.name.clone());
            writer.put_gpu(&GpuName { uuid, index: device.index, name, kind: kind.clone() }, stamp)?;
        }
        Ok(())
    })
}

/// CUDA makes the device of unified memory by itself, with a program that takes the rights of root. Jobs may not have those, so it is made
/// before the first of them.
fn make_device_files(devices: &[rota_gpu::Device], uid: u32) {
    let has_files = devices.iter().any(|device| device.minor.is_some());
    if uid == 0 && has_files && !Path::new("/dev/nvidia-uvm").exists() {
        // Where there is no such program, the files are made by others, or CUDA says what it lacks.
        _ = std::process::Command::new("nvidia-modprobe").args(["-u", "-c=0"]).stdin(std::process::Stdio::null()).output();
    }
}

fn chosen(devices: Vec<rota_gpu::Device>, config: &Config) -> Vec<rota_gpu::Device> {
    let only = &config.gpus.only;
    let is_chosen = |device: &rota_gpu::Device| {
        only.is_empty() || only.iter().any(|name| *name == device.uuid || *name == device.index.to_string())
    };
    devices.into_iter().filter(is_chosen).collect()
}

/// How long the lock of a daemon that is gone may be held by what it left.
const LOCK_LEFT_MAX: Duration = Duration::from_secs(5);

/// Makes the state directory ours, alone.
pub(crate) fn take_state_dir(dir: &Path, uid: u32) -> Result<File, ServeError> {
    let shown = dir.display().to_string();
    // Others must reach the socket of a root daemon; nobody else's business otherwise.
    let mode = if uid == 0 { 0o755 } else { 0o700 };
    DirBuilder::new().recursive(true).mode(mode).create(dir).map_err(doing(shown.clone()))?;
    let meta = std::fs::metadata(dir).map_err(doing(shown.clone()))?;
    if meta.uid() != uid {
        return Err(ServeError::NotOurs { path: dir.to_owned(), uid: meta.uid() });
    }
    // Jobs of other users reach their own log below it, and cannot list it.
    DirBuilder::new().recursive(true).mode(0o711).create(dir.join("jobs")).map_err(doing(format!("{shown}/jobs")))?;
    let path = dir.join("lock");
    let mut options = OpenOptions::new();
    let lock = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(doing(path.display().to_string()))?;
    let since = std::time::Instant::now();
    while flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        let pid = std::fs::read_to_string(&path).ok().and_then(|text| text.trim().parse::<u32>().ok());
        // A daemon that was killed while it made a process leaves its lock to that process, until it has become another program.
        let is_gone = pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
        if !is_gone || since.elapsed() > LOCK_LEFT_MAX {
            return Err(ServeError::Running { path: dir.to_owned(), pid });
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let write = || -> io::Result<()> {
        lock.set_len(0)?;
        io::Write::write_all(&mut &lock, format!("{}\n", std::process::id()).as_bytes())
    };
    // The number is for people; the lock is what counts.
    _ = write();
    Ok(lock)
}

fn stop_on_signals(runtime: &tokio::runtime::Runtime, inbox: &std::sync::mpsc::Sender<Message>) {
    use tokio::signal::unix::{SignalKind, signal};
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        if let Ok(mut signals) = signal(kind) {
            let inbox = inbox.clone();
            runtime.spawn(async move {
                while signals.recv().await.is_some() {
                    _ = inbox.send(Message::Shutdown);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests;
