//! Jobs that share a GPU through MPS, with a stand-in for NVIDIA's control program that writes down what it is told.

use crate::live::queue::users::shared;
use crate::live::{Daemon, until};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const GPU: &str = "GPU-00000000-0000-0000-0000-00000000000a";

fn control() -> PathBuf {
    crate::rota::root().join("crates/gpu/tests/mps/nvidia-cuda-mps-control")
}

fn config() -> String {
    format!("gpus.look_seconds = 0.05\nsharing.mps_control = '{}'", control().display())
}

/// A machine with one GPU of NVIDIA's, whose compute mode is written down whenever it is set.
struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let device = json!({
            "uuid": GPU, "name": "NVIDIA A100-SXM4-40GB", "memory_total_mib": 40_960, "memory_used_mib": 0, "utilisation": 0,
            "compute_mode": "default", "processes": [],
        });
        let machine = json!({ "driver": "550.54", "cuda": 12040, "devices": [device] });
        std::fs::write(folder.path().join("machine.json"), machine.to_string()).unwrap();
        Self { folder }
    }

    fn daemon(&self) -> Daemon {
        let library = nvidia_ml_fake::shared_library().expect("cargo builds the library beside the tests");
        let machine = self.folder.path().join("machine.json");
        let variables: [(&str, &Path); 3] =
            [("ROTA_NVML_LIB", &library), ("FAKE_NVML", &machine), ("FAKE_NVML_LOG", &self.folder.path().join("set"))];
        Daemon::with(&[], &config(), &variables)
    }

    /// The compute modes the GPU was given, in order.
    fn modes(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.path().join("set")).unwrap_or_default();
        let mode = |line: &str| serde_json::from_str::<Value>(line).unwrap()["mode"].as_str().unwrap().to_owned();
        text.lines().map(mode).collect()
    }
}

/// What the control program was told, in order, without what it was only asked.
fn told(daemon: &Daemon) -> Vec<String> {
    let calls = std::fs::read_to_string(daemon.state.join("calls")).unwrap_or_default();
    calls.lines().filter(|line| !line.starts_with("get_")).map(str::to_owned).collect()
}

fn waits_for(go: &Path) -> String {
    format!("env | grep ^CUDA_ | sort; while [ ! -e '{}' ]; do sleep 0.02; done", go.display())
}

#[test]
fn jobs_under_mps_share_a_gpu_that_is_everybodys_again_afterwards() {
    let machine = Machine::new();
    let daemon = machine.daemon();
    let go = daemon.file("go");
    let limited = daemon.shell(&["--memory", "4000", "--threads-percent", "30"], &waits_for(&go));
    let plain = daemon.shell(&["--memory", "5000", "--mps"], &waits_for(&go));
    daemon.until_state(limited, "running");
    daemon.until_state(plain, "running");
    assert_eq!(machine.modes(), ["exclusive_process"]);
    let start = told(&daemon);
    assert!(
        start.len() == 1 && start[0].starts_with("-d ") && start[0].contains(&format!("CUDA_VISIBLE_DEVICES={GPU}")),
        "{start:?}"
    );

    // Room enough, but not for one that is not under MPS.
    let other = daemon.shell(&["--memory", "1000"], "env | grep ^CUDA_ | sort");
    let why = daemon.explain(other);
    assert!(why["reason"].as_str().unwrap().contains("MPS"), "{why:#}");
    assert_eq!(daemon.state_of(other), "waiting");

    std::fs::write(&go, "").unwrap();
    assert!(daemon.wait(&[limited, plain, other]).iter().all(|job| job["state"] == "done"));
    assert_eq!(machine.modes(), ["exclusive_process", "default"]);
    assert_eq!(told(&daemon)[1..], ["quit"]);

    let pipe =
        format!("CUDA_MPS_PIPE_DIRECTORY={}", daemon.state.canonicalize().unwrap().join("mps").join(GPU).join("pipe").display());
    let log = daemon.log(limited);
    for line in ["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=30", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=4000M", &pipe] {
        assert!(log.lines().any(|known| known == line), "{line}: {log}");
    }
    assert!(daemon.log(plain).contains("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=5000M"));
    assert!(!daemon.log(plain).contains("THREAD_PERCENTAGE"));
    assert!(!daemon.log(other).contains("CUDA_MPS"), "{}", daemon.log(other));
}

#[test]
fn a_killed_daemon_leaves_no_gpu_to_mps() {
    let machine = Machine::new();
    let mut daemon = machine.daemon();
    let go = daemon.file("go");
    let job = daemon.shell(&["--memory", "4000", "--mps"], &waits_for(&go));
    daemon.until_state(job, "running");
    daemon.kill();
    // Its job runs on under MPS, and the next daemon leaves it there.
    daemon.up();
    assert_eq!(machine.modes(), ["exclusive_process"]);
    let beside = daemon.shell(&["--memory", "4000", "--mps"], "true");
    assert_eq!(daemon.wait_one(beside)["state"], "done");
    assert_eq!(machine.modes(), ["exclusive_process"]);
    // It ends while nobody is there.
    daemon.kill();
    std::fs::write(&go, "").unwrap();
    let dir = daemon.run_dir(job, 1);
    until("it has ended", || matches!(rota_exec::adopt(&dir), Ok(rota_exec::Adopted::Ended(_))));
    daemon.up();
    assert_eq!(daemon.wait_one(job)["state"], "done");
    until("the GPU is as it was", || machine.modes() == ["exclusive_process", "default"]);
    assert_eq!(told(&daemon).last().unwrap(), "quit");
}

#[test]
fn a_job_is_taken_out_of_the_server_before_it_is_stopped() {
    let machine = Machine::new();
    let daemon = machine.daemon();
    let pid = daemon.file("pid");
    let job = daemon.shell(
        &["--mps", "--memory", "4000"],
        &format!("echo $$ > '{}.new'; mv '{0}.new' '{0}'; exec sleep 1000", pid.display()),
    );
    let client = crate::live::line_of(&pid);
    std::fs::write(daemon.state.join("clients.4242"), format!("{client}\n1\n")).unwrap();
    std::fs::write(daemon.state.join("servers"), "4242\n").unwrap();
    std::fs::write(daemon.state.join(format!("ends.{client}")), "").unwrap();
    daemon.ok(&["cancel", &job.to_string()]);
    assert_eq!(daemon.wait_one(job)["state"], "cancelled");
    let terminated = format!("terminate_client 4242 {client}");
    assert_eq!(told(&daemon).iter().filter(|line| line.starts_with("terminate_client")).collect::<Vec<_>>(), [&terminated]);
}

#[test]
fn two_users_are_never_under_mps_on_one_gpu() {
    let Some((daemon, ann, bob)) = shared("a100:1", &config()) else { return };
    let go = daemon.file("go");
    let first = ann.submit(&daemon, &["--mps", "--memory", "1000"], &waits_for(&go));
    daemon.until_state(first, "running");
    let same = ann.submit(&daemon, &["--mps", "--memory", "1000"], "true");
    assert_eq!(daemon.wait_one(same)["state"], "done");
    let other = bob.submit(&daemon, &["--mps", "--memory", "1000"], "true");
    let why = daemon.explain(other);
    assert!(why["reason"].as_str().unwrap().contains("under MPS of nobody"), "{why:#}");
    std::fs::write(&go, "").unwrap();
    assert_eq!(daemon.wait_one(other)["state"], "done");
}

#[test]
fn what_mps_lacks_is_said_when_it_is_asked_for() {
    let daemon = Daemon::configured("a100:2", "sharing.mps_control = '/nowhere/nvidia-cuda-mps-control'");
    let said = daemon.refusal(2, &["submit", "--mps", "--", "true"]);
    assert!(said.contains("/nowhere/nvidia-cuda-mps-control"), "{said}");
    let said = daemon.refusal(2, &["submit", "--mps", "-g", "2", "--", "true"]);
    assert!(said.contains("one GPU, not 2"), "{said}");
}
