//! The contract suite for the executor of this machine, for workers, for workers in allocations of Slurm, and for the fake one.

use std::ffi::OsString;

use rota_exec::contract::Deed;

/// A script that does a deed with real processes.
fn script_of(deed: Deed) -> Vec<OsString> {
    let script = match deed {
        Deed::Exit(code) => format!("exit {code}"),
        Deed::KillItself => "kill -9 $$".to_owned(),
        Deed::Sleep => "touch $ROTA_RUN_DIR/working; exec sleep 1000".to_owned(),
        Deed::Stubborn => "trap '' TERM; touch $ROTA_RUN_DIR/working; while :; do sleep 1; done".to_owned(),
        Deed::Print => "echo hello".to_owned(),
        Deed::Missing => return vec!["/nowhere/at/all".into()],
    };
    ["sh", "-c", &script].map(OsString::from).to_vec()
}

/// Runs on this machine, by real supervisors.
mod local {
    use std::ffi::OsString;
    use std::path::{Path, PathBuf};
    use std::time::{Duration, Instant};

    use rota_exec::contract::{Deed, Harness};
    use rota_exec::{EventSink, Executor, LocalExecutor, LocalNode, LocalSettings, MpsSettings, NodeName, RunKey, RunRequest};
    use rota_gpu::{Devices, Virtual, parse_virtual};
    use rustix::process::Signal;

    use crate::support::{FAR, SUPERVISOR, signal, until};

    pub struct Local {
        folder: tempfile::TempDir,
        since: Instant,
        virtual_gpus: Virtual,
        node: Option<LocalNode>,
    }

    impl Local {
        pub fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir(folder.path().join("jobs")).unwrap();
            let virtual_gpus = Virtual::new(&parse_virtual("a100:2").unwrap());
            Self { folder, since: Instant::now(), virtual_gpus, node: None }
        }

        fn state(&self) -> &Path {
            self.folder.path()
        }

        fn dir(&self, run: RunKey) -> PathBuf {
            self.state().join("jobs").join(run.job.to_string()).join(run.attempt.to_string())
        }
    }

    impl Harness for Local {
        fn connect(&mut self, sink: EventSink) -> Box<dyn Executor> {
            let settings = LocalSettings {
                node: "here".into(),
                state_dir: self.state().to_owned(),
                program: SUPERVISOR.into(),
                arguments: Vec::new(),
                cgroup: None,
                mps_control: Path::new(env!("CARGO_MANIFEST_DIR")).join("../gpu/tests/mps/nvidia-cuda-mps-control"),
                hardening: rota_exec::Hardening::default(),
                files_max: None,
            };
            let modes = Box::new(self.virtual_gpus.modes());
            let executor = LocalExecutor::new(settings, self.virtual_gpus.list().unwrap(), modes, sink).unwrap();
            self.node = Some(executor.node());
            Box::new(executor)
        }

        fn command(&self, deed: Deed) -> Vec<OsString> {
            super::script_of(deed)
        }

        fn cwd(&self) -> PathBuf {
            self.state().to_owned()
        }

        fn pass(&mut self) -> bool {
            std::thread::sleep(Duration::from_millis(1));
            self.since.elapsed() < FAR
        }

        fn until_working(&mut self, run: RunKey) {
            let file = self.dir(run).join("working");
            until("the run to work", || file.exists());
        }

        fn kill_supervisor(&mut self, run: RunKey) {
            signal(rota_exec::taken(&self.dir(run)).unwrap().unwrap().supervisor.pid, Signal::KILL);
        }

        fn take_late(&mut self, request: &mut RunRequest) -> bool {
            request.mps =
                Some(MpsSettings { uid: rustix::process::geteuid().as_raw(), threads_percent: Some(30), memory_mib: None });
            true
        }

        fn keep_unreadable(&mut self, _: RunKey) -> bool {
            // As if the file system with all run directories were away.
            std::fs::rename(self.state().join("jobs"), self.state().join("away")).is_ok()
        }

        fn let_read(&mut self) {
            std::fs::rename(self.state().join("away"), self.state().join("jobs")).unwrap();
        }

        fn lose_node(&mut self, _: &NodeName) -> bool {
            false
        }

        fn return_node(&mut self, _: &NodeName) {}

        fn change_devices(&mut self, _: &NodeName) -> bool {
            let mut devices = self.virtual_gpus.list().unwrap();
            devices.pop();
            self.node.as_ref().unwrap().found(devices);
            true
        }
    }

    rota_exec::executor_contract!(Local::new);
}

/// Runs on two workers, each over a connection that can be cut.
mod workers {
    use std::ffi::OsString;
    use std::path::PathBuf;
    use std::time::{Duration, Instant};

    use rota_exec::contract::{Deed, Harness};
    use rota_exec::{EventSink, Executor, NodeName, RunKey, RunRequest};
    use rustix::process::Signal;

    use crate::slurm_place::{SlurmPlace, is_installed};
    use crate::support::{signal, until};
    use crate::worker_place::WorkerPlace;

    /// Longer than any check takes, on a loaded machine.
    const FAR: Duration = Duration::from_mins(1);

    pub struct Workers {
        place: WorkerPlace,
        since: Instant,
    }

    impl Workers {
        pub fn new() -> Self {
            Self { place: WorkerPlace::new(&["one", "two"]), since: Instant::now() }
        }

        /// The same with workers that Slurm starts.
        fn in_allocations() -> Self {
            let mut workers = Self::new();
            workers.place.slurm = Some(SlurmPlace::default());
            workers
        }
    }

    impl Harness for Workers {
        fn connect(&mut self, sink: EventSink) -> Box<dyn Executor> {
            Box::new(self.place.connect(sink))
        }

        fn command(&self, deed: Deed) -> Vec<OsString> {
            super::script_of(deed)
        }

        fn cwd(&self) -> PathBuf {
            self.place.folder().to_owned()
        }

        fn pass(&mut self) -> bool {
            std::thread::sleep(Duration::from_millis(1));
            self.since.elapsed() < FAR
        }

        fn until_working(&mut self, run: RunKey) {
            until("the run to work", || self.place.dirs(run).iter().any(|dir| dir.join("working").exists()));
        }

        fn kill_supervisor(&mut self, run: RunKey) {
            let taken = self.place.dirs(run).iter().find_map(|dir| rota_exec::taken(dir).ok().flatten());
            signal(taken.unwrap().supervisor.pid, Signal::KILL);
        }

        fn take_late(&mut self, _: &mut RunRequest) -> bool {
            // Every run is.
            true
        }

        fn keep_unreadable(&mut self, _: RunKey) -> bool {
            self.place.move_jobs("jobs", "away");
            true
        }

        fn let_read(&mut self) {
            self.place.move_jobs("away", "jobs");
        }

        fn lose_node(&mut self, node: &NodeName) -> bool {
            self.place.cut(node.as_str());
            true
        }

        fn return_node(&mut self, node: &NodeName) {
            self.place.mend(node.as_str());
        }

        fn change_devices(&mut self, node: &NodeName) -> bool {
            self.place.lose_device(node.as_str());
            // The GPUs of a worker in another process cannot be taken from here.
            self.place.slurm.is_none()
        }
    }

    rota_exec::executor_contract!(Workers::new);
    rota_exec::executor_contract!(one keep_the_contract, Workers::in_allocations);

    #[test]
    #[ignore = "takes half a minute and needs Slurm: `make test` runs it alone"]
    fn workers_in_allocations_of_slurm_keep_the_contract() {
        if is_installed() {
            keep_the_contract();
        } else {
            eprintln!("not run: Slurm is not installed");
        }
    }
}

/// Runs on three nodes that do not exist.
mod fake {
    use std::ffi::OsString;
    use std::path::PathBuf;
    use std::time::Duration;

    use rota_exec::contract::{Deed, Harness};
    use rota_exec::fake::{FakeCluster, FakeDeed, FakeExecutor, FakeFault};
    use rota_exec::{EventSink, Executor, NodeName, RunKey, RunRequest};

    /// Longer than any check takes, on the clock of the cluster.
    const FAR_NS: u64 = 60_000_000_000;
    const STEP_NS: u64 = 1_000_000;

    pub struct Fake {
        cluster: FakeCluster,
    }

    impl Fake {
        pub fn new() -> Self {
            let cluster = FakeCluster::default();
            // Whatever the nodes tell twice, the caller is told once.
            (0..20).for_each(|_| cluster.order(FakeFault::DuplicateEnd));
            Self { cluster }
        }
    }

    impl Harness for Fake {
        fn connect(&mut self, sink: EventSink) -> Box<dyn Executor> {
            Box::new(FakeExecutor::new(&self.cluster, sink))
        }

        fn command(&self, deed: Deed) -> Vec<OsString> {
            let deed = match deed {
                Deed::Exit(code) => FakeDeed::Work(Duration::from_millis(1), code),
                Deed::KillItself => FakeDeed::Signal(9),
                Deed::Sleep => FakeDeed::Sleep,
                Deed::Stubborn => FakeDeed::Stubborn,
                Deed::Print => FakeDeed::Print("hello".to_owned()),
                Deed::Missing => FakeDeed::Missing,
            };
            deed.command()
        }

        fn cwd(&self) -> PathBuf {
            PathBuf::from("/")
        }

        fn pass(&mut self) -> bool {
            self.cluster.advance(self.cluster.now_ns() + STEP_NS);
            self.cluster.now_ns() < FAR_NS
        }

        fn until_working(&mut self, _: RunKey) {}

        fn kill_supervisor(&mut self, run: RunKey) {
            self.cluster.kill_supervisor(run);
        }

        fn take_late(&mut self, _: &mut RunRequest) -> bool {
            let (accepted_after, running_after) = (Duration::from_millis(5), Duration::from_millis(50));
            self.cluster.order(FakeFault::AcceptLate { accepted_after, running_after });
            true
        }

        fn keep_unreadable(&mut self, _: RunKey) -> bool {
            self.cluster.order(FakeFault::UnreadableEnd(Duration::from_secs(1)));
            true
        }

        fn let_read(&mut self) {}

        fn lose_node(&mut self, node: &NodeName) -> bool {
            self.cluster.lose_node(node);
            true
        }

        fn return_node(&mut self, node: &NodeName) {
            self.cluster.return_node(node);
        }

        fn change_devices(&mut self, node: &NodeName) -> bool {
            let mut devices = self.cluster.nodes()[0].devices.clone();
            devices.pop();
            self.cluster.change_devices(node, devices);
            true
        }
    }

    rota_exec::executor_contract!(Fake::new);
}
