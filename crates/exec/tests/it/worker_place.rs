//! Workers in this process, each behind a relay that can cut its connection, and the daemon's side of them.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rota_exec::{
    DeviceLook, EventSink, Executor, JoinToken, Limits, LocalSettings, LogSettings, Notice, Place, PruneRule, ResourceLimits,
    RunKey, RunRequest, WorkerExecutor, WorkerSettings, WorkersSettings,
};
use rota_gpu::{Device, Devices, Virtual, parse_virtual};

use crate::slurm_place::SlurmPlace;
use crate::support::{SUPERVISOR, until};

/// Short, so that a loss is seen soon, and long enough for a machine that is busy.
const LOST_AFTER: Duration = Duration::from_secs(2);

/// Passes connections on to the daemon, until it is cut.
#[derive(Clone)]
struct Relay(Arc<Mutex<RelayState>>);

struct RelayState {
    target: Option<SocketAddr>,
    is_cut: bool,
    open: Vec<TcpStream>,
}

impl Relay {
    fn start() -> (Self, SocketAddr) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let relay = Self(Arc::new(Mutex::new(RelayState { target: None, is_cut: false, open: Vec::new() })));
        let relayed = relay.clone();
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                // A connection that cannot be passed on is closed, as by a machine that is not there.
                _ = relayed.pass(near);
            }
        });
        (relay, address)
    }

    fn pass(&self, near: TcpStream) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        let target = state.target.filter(|_| !state.is_cut).ok_or(io::ErrorKind::ConnectionRefused)?;
        let far = TcpStream::connect(target)?;
        for (mut from, mut to) in [(near.try_clone()?, far.try_clone()?), (far.try_clone()?, near.try_clone()?)] {
            std::thread::spawn(move || {
                _ = io::copy(&mut from, &mut to);
                _ = to.shutdown(Shutdown::Both);
            });
        }
        state.open.extend([near, far]);
        Ok(())
    }

    fn set(&self, target: Option<SocketAddr>, is_cut: bool) {
        let mut state = self.0.lock().unwrap();
        (state.target, state.is_cut) = (target.or(state.target), is_cut);
        for stream in state.open.drain(..) {
            _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn is_cut(&self) -> bool {
        self.0.lock().unwrap().is_cut
    }
}

struct Placed {
    relay: Relay,
    state_dir: PathBuf,
    devices: Arc<Mutex<Vec<Device>>>,
}

/// A daemon's directory and its workers.
pub struct WorkerPlace {
    folder: tempfile::TempDir,
    workers: HashMap<String, Placed>,
    addresses: Vec<(String, SocketAddr)>,
    /// When workers that are started from now on remove old runs.
    pub prune: PruneRule,
    /// The Slurm whose jobs the workers are, if they are.
    pub slurm: Option<SlurmPlace>,
}

impl WorkerPlace {
    /// A place with workers of these names and two GPUs each. They connect when there is an executor.
    pub fn new(names: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("daemon")).unwrap();
        let (mut workers, mut addresses) = (HashMap::new(), Vec::new());
        for name in names {
            let (relay, address) = Relay::start();
            let devices = virtual_gpus(name).list().unwrap();
            let state_dir = folder.path().join(name);
            workers.insert((*name).to_owned(), Placed { relay, state_dir, devices: Arc::new(Mutex::new(devices)) });
            addresses.push(((*name).to_owned(), address));
        }
        Self { folder, workers, addresses, prune: PruneRule::keeping(Duration::from_hours(24)), slurm: None }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The settings of a daemon's side.
    pub fn settings(&self) -> WorkersSettings {
        WorkersSettings {
            state_dir: self.folder.path().join("daemon"),
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            lost_after: LOST_AFTER,
            first_index: 0,
            leases: None,
        }
    }

    /// A new daemon's side, once all workers have found it that are not cut off.
    pub fn connect(&mut self, sink: EventSink) -> WorkerExecutor {
        let mut executor = WorkerExecutor::new(self.settings(), sink).unwrap();
        for worker in self.workers.values() {
            worker.relay.set(Some(executor.address()), worker.relay.is_cut());
        }
        for (name, address) in std::mem::take(&mut self.addresses) {
            self.start_worker(&name, address, executor.token_file());
        }
        executor.settle();
        until("all workers to connect", || {
            let answering = executor.inventory().into_iter().filter(|node| node.answers).count();
            answering == self.workers.values().filter(|worker| !worker.relay.is_cut()).count()
        });
        executor
    }

    /// Starts a worker in this process, where it works until the process ends, or as a job of Slurm.
    pub fn start_worker(&self, name: &str, address: SocketAddr, token_file: &Path) {
        let worker = &self.workers[name];
        if let Some(slurm) = &self.slurm {
            slurm.start_worker(name, address, token_file, &worker.state_dir);
            return;
        }
        let (state_dir, devices) = (worker.state_dir.clone(), Arc::clone(&worker.devices));
        let (name, token, prune) = (name.to_owned(), JoinToken::read(token_file).unwrap(), self.prune);
        std::thread::spawn(move || {
            let settings = settings_of(&name, address, token, state_dir, devices);
            rota_exec::work(WorkerSettings { prune, ..settings }).unwrap();
        });
    }

    /// A run of a script on the first node.
    pub fn request(&self, executor: &mut WorkerExecutor, run: RunKey, script: &str) -> RunRequest {
        let node = executor.inventory().swap_remove(0);
        RunRequest {
            run,
            identity: executor.prepare(run).unwrap(),
            places: vec![Place { node: node.name, uuids: vec![node.devices[0].uuid.clone()] }],
            spare_uuids: Vec::new(),
            command: ["sh", "-c", script].map(Into::into).to_vec(),
            cwd: self.folder().to_owned(),
            env: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
            variables: Vec::new(),
            run_as: None,
            log: LogSettings { bytes_max: 0, files_max: 1 },
            limits: Limits { time: None, grace: Duration::from_secs(20), memory_max_bytes: None, cpus_max: None },
            resource_limits: ResourceLimits::default(),
            notice: Notice::usual(Duration::from_secs(20)),
            mps: None,
        }
    }

    /// The directories that a run may have, one a worker.
    pub fn dirs(&self, run: RunKey) -> Vec<PathBuf> {
        let dir = |worker: &Placed| worker.state_dir.join("jobs").join(run.job.to_string()).join(run.attempt.to_string());
        self.workers.values().map(dir).collect()
    }

    pub fn move_jobs(&self, from: &str, to: &str) {
        for worker in self.workers.values() {
            std::fs::rename(worker.state_dir.join(from), worker.state_dir.join(to)).unwrap();
        }
    }

    pub fn cut(&self, name: &str) {
        self.workers[name].relay.set(None, true);
    }

    pub fn mend(&self, name: &str) {
        self.workers[name].relay.set(None, false);
    }

    pub fn lose_device(&self, name: &str) {
        self.workers[name].devices.lock().unwrap().pop();
    }
}

/// What a worker with two virtual GPUs is started with.
pub fn settings_of(
    name: &str,
    address: SocketAddr,
    token: JoinToken,
    state_dir: PathBuf,
    devices: Arc<Mutex<Vec<Device>>>,
) -> WorkerSettings {
    let local = LocalSettings {
        node: name.into(),
        state_dir,
        program: SUPERVISOR.into(),
        arguments: Vec::new(),
        cgroup: None,
        mps_control: "/nowhere/nvidia-cuda-mps-control".into(),
        hardening: rota_exec::Hardening::default(),
        files_max: None,
    };
    let there = devices.lock().unwrap().clone();
    let look = move |_: &HashMap<u32, u64>, _: &HashMap<u64, Vec<String>>| {
        let devices = devices.lock().unwrap().clone();
        let look = |device: &Device| DeviceLook { uuid: device.uuid.clone(), reading: None, owners: Vec::new(), is_lost: false };
        let looks = devices.iter().map(look).collect();
        (devices, looks)
    };
    WorkerSettings {
        local,
        devices: there,
        modes: Box::new(virtual_gpus(name).modes()),
        join: address.to_string(),
        token,
        address: None,
        is_in_allocation: false,
        down_file: None,
        look: Box::new(look),
        look_every: Duration::from_millis(50),
        prune: PruneRule::keeping(Duration::from_hours(24)),
        remark: Box::new(|_| {}),
    }
}

/// The GPUs of a worker.
pub fn virtual_gpus(name: &str) -> Virtual {
    Virtual::on_node(&parse_virtual("a100:2").unwrap(), name)
}
