//! The executor of this machine beyond the contract: what its runs are given, and what it does when the machine has nothing left to give.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rota_exec::{
    Executor, ExecutorEvent, Identity, Limits, LocalExecutor, LocalSettings, LogSettings, MpsSettings, Notice, Place, RunEnd,
    RunKey, RunRequest, Started,
};
use rota_gpu::{Devices, Virtual, parse_virtual};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::support::{FAR, SUPERVISOR, until};

const RUN: RunKey = RunKey { job: 1, attempt: 1 };

fn executor(folder: &Path) -> (LocalExecutor, Receiver<ExecutorEvent>) {
    let (sender, events) = channel();
    let mut gpus = Virtual::new(&parse_virtual("a100:2").unwrap());
    let settings = LocalSettings {
        node: "here".into(),
        state_dir: folder.to_owned(),
        program: SUPERVISOR.into(),
        arguments: Vec::new(),
        cgroup: None,
        mps_control: Path::new(env!("CARGO_MANIFEST_DIR")).join("../gpu/tests/mps/nvidia-cuda-mps-control"),
        hardening: rota_exec::Hardening::default(),
        files_max: None,
    };
    let sink = Arc::new(move |event| _ = sender.send(event));
    (LocalExecutor::new(settings, gpus.list().unwrap(), Box::new(gpus.modes()), sink).unwrap(), events)
}

fn request(executor: &mut LocalExecutor, folder: &Path, script: &str) -> RunRequest {
    let node = executor.inventory().swap_remove(0);
    RunRequest {
        run: RUN,
        identity: executor.prepare(RUN).unwrap(),
        places: vec![Place { node: node.name, uuids: node.devices.into_iter().map(|device| device.uuid).collect() }],
        spare_uuids: Vec::new(),
        command: ["sh", "-c", script].map(Into::into).to_vec(),
        cwd: folder.to_owned(),
        env: vec![
            ("PATH".into(), "/usr/bin:/bin".into()),
            ("CUDA_VISIBLE_DEVICES".into(), "all".into()),
            ("ROTA_GPUS".into(), "none".into()),
        ],
        variables: vec![("ROTA_GPUS".into(), "2".into())],
        run_as: None,
        log: LogSettings { bytes_max: 0, files_max: 1 },
        limits: Limits { time: None, grace: Duration::from_secs(30), memory_max_bytes: None, cpus_max: None },
        resource_limits: rota_exec::ResourceLimits::default(),
        notice: Notice::usual(Duration::from_secs(30)),
        mps: None,
    }
}

fn end_in(events: &Receiver<ExecutorEvent>) -> RunEnd {
    loop {
        if let ExecutorEvent::Ended { run: RUN, end } = events.recv_timeout(FAR).unwrap() {
            return end;
        }
    }
}

fn code_in(events: &Receiver<ExecutorEvent>) -> Option<i32> {
    match end_in(events) {
        RunEnd::Ended(record) => record.code,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_run_is_told_of_its_devices_over_what_its_user_said() {
    let folder = tempfile::tempdir().unwrap();
    let (mut executor, events) = executor(folder.path());
    let request = request(&mut executor, folder.path(), "env | grep -E '^(CUDA|ROTA_GPUS)' | sort");
    let uuids = request.places[0].uuids.join(",");
    assert_eq!(executor.start(request).unwrap(), Started::Running);
    assert_eq!(code_in(&events), Some(0));
    let log = String::from_utf8(executor.log_end(RUN, 10_000).unwrap()).unwrap();
    assert_eq!(log, format!("CUDA_DEVICE_ORDER=PCI_BUS_ID\nCUDA_VISIBLE_DEVICES={uuids}\nROTA_GPUS=2\n"));
}

#[test]
fn a_run_under_mps_leaves_no_control_daemon_when_its_end_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (mut executor, events) = executor(folder.path());
    let mut request = request(&mut executor, folder.path(), "env | grep ^CUDA_MPS | sort");
    request.places[0].uuids.truncate(1);
    let uid = rustix::process::geteuid().as_raw();
    request.mps = Some(MpsSettings { uid, threads_percent: Some(30), memory_mib: Some(4000) });
    assert_eq!(executor.start(request).unwrap(), Started::Taken);
    assert_eq!(code_in(&events), Some(0));
    let log = String::from_utf8(executor.log_end(RUN, 10_000).unwrap()).unwrap();
    assert!(log.contains("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30") && log.contains("=0=4000M"), "{log}");
    let calls = std::fs::read_to_string(folder.path().join("calls")).unwrap();
    assert_eq!(calls.lines().rfind(|line| !line.starts_with("get_")), Some("quit"), "{calls}");
}

#[test]
fn a_claim_that_is_handed_on_hears_of_its_second_process_only() {
    let folder = tempfile::tempdir().unwrap();
    let (executor, events) = executor(folder.path());
    let sleep = || std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let (mut first, mut second) = (sleep(), sleep());
    assert!(executor.watch_holder(RUN, &Identity::of(first.id()).unwrap()));
    assert!(executor.watch_holder(RUN, &Identity::of(second.id()).unwrap()));
    assert_eq!(executor.node().jobs_by_pid().get(&second.id()), Some(&1));
    let gone = Identity::of(first.id()).unwrap();
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(!executor.watch_holder(RunKey { job: 2, attempt: 0 }, &gone), "a process that is gone is not watched");
    second.kill().unwrap();
    second.wait().unwrap();
    assert_eq!(events.recv_timeout(FAR).unwrap(), ExecutorEvent::HolderGone { run: RUN });
    assert!(events.try_recv().is_err());
    assert!(executor.node().jobs_by_pid().is_empty());
}

/// In a process of its own, because its limit is that of all threads.
#[test]
fn without_descriptors_no_run_is_lost() {
    let test = std::env::current_exe().unwrap();
    let child = std::process::Command::new(test)
        .args(["--ignored", "--exact", "local_executor::process_without_descriptors", "--nocapture"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout).into_owned() + &String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "part of `without_descriptors_no_run_is_lost`"]
fn process_without_descriptors() {
    let folder = tempfile::tempdir().unwrap();
    let (mut executor, events) = executor(folder.path());
    let request = request(&mut executor, folder.path(), "mkdir here; while [ ! -d go ]; do sleep 0.01; done; exit 7");
    assert_eq!(executor.start(request).unwrap(), Started::Running);
    until("the run", || folder.path().join("here").is_dir());
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(0), maximum: before.maximum }).unwrap();
    assert!(std::fs::File::open("/dev/null").is_err(), "there is a descriptor left");
    // No descriptor is needed for this.
    rustix::fs::mkdir(folder.path().join("go").as_os_str().as_bytes(), rustix::fs::Mode::RWXU).unwrap();
    let first = events.recv_timeout(FAR).unwrap();
    assert!(matches!(&first, ExecutorEvent::Unreadable { run: RUN, .. }), "{first:?}");
    setrlimit(Resource::Nofile, before).unwrap();
    assert_eq!(code_in(&events), Some(7));
}
