//! Power caps in the simulator and on the GPUs of the fake library, with the real binary.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

fn rota(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rota")).args(arguments).output().unwrap()
}

fn json_of(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// One job of 1000 s on one V100, in a folder that goes away with the test.
fn one_job() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("one.csv");
    std::fs::write(&trace, "id,arrival_s,duration_s,gpus\n0,0,1000,1\n").unwrap();
    let trace = trace.to_str().unwrap().to_owned();
    (folder, trace)
}

#[test]
fn a_capped_gpu_is_slower_and_draws_less_as_measured() {
    let (_folder, trace) = one_job();
    let sim = |cap: &str| {
        json_of(&rota(&["sim", "--trace", &trace, "--cluster", "v100:1", "--policy", "fcfs", "--power-cap", cap, "--json"]))
    };
    let (free, capped) = (sim("none"), sim("175"));
    let figure = |summary: &Value, name: &str| summary[name].as_f64().unwrap();
    let slower = figure(&capped, "jct_mean_s") / figure(&free, "jct_mean_s");
    assert!((slower - 1.0 / 0.958).abs() < 1e-6, "{slower}");
    let energy = figure(&capped, "energy_kwh") / figure(&free, "energy_kwh");
    assert!((energy - 0.838 / 0.958).abs() < 1e-3, "{energy}");
}

#[test]
fn the_front_shows_every_cap_and_is_drawn() {
    let (folder, trace) = one_job();
    let file = folder.path().join("front.svg");
    let arguments = ["sim", "--trace", &trace, "--cluster", "v100:1", "--policy", "fcfs", "--json", "--pareto"];
    let points = json_of(&rota(&[&arguments[..], &[file.to_str().unwrap()]].concat()));
    let points = points.as_array().unwrap();
    assert_eq!(points.len(), 7);
    assert_eq!((points[0]["power_cap"].as_str(), points[0]["jct_change"].as_f64()), (Some("none"), Some(0.0)));
    let best = points.iter().find(|point| point["power_cap"] == "best").unwrap();
    assert!(best["busy_energy_change"].as_f64().unwrap() < -0.12 && best["jct_change"].as_f64().unwrap() < 0.05, "{best}");
    assert!(std::fs::read_to_string(file).unwrap().contains("</svg>"));
}

#[test]
fn caps_that_cannot_be_are_refused() {
    let (_folder, trace) = one_job();
    let refusal = |cluster: &str, cap: &str| {
        let output = rota(&["sim", "--trace", &trace, "--cluster", cluster, "--power-cap", cap]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(refusal("v100:1", "cold").contains("v100=175"));
    assert!(refusal("v100:1", "a40=200").contains("the cluster has no `a40`"));
    assert!(refusal("h100:1", "300").contains("was not measured"));
}

/// A daemon on the GPUs of the fake library.
struct Daemon(Child);

impl Daemon {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let library = nvidia_ml_fake::shared_library().expect("the fake library beside the test");
        let mut child = Command::new(env!("CARGO_BIN_EXE_rota"))
            .args(["up", "--foreground", "--state"])
            .arg(folder.join("state"))
            .args(arguments)
            .env("FAKE_NVML", folder.join("machine.json"))
            .env("FAKE_NVML_LOG", folder.join("log"))
            .env("ROTA_NVML_LIB", library)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("rota is ready"), "{line}");
        Self(child)
    }

    fn end(mut self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.0.id().cast_signed()), signal).unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// The watts of each limit that was set, in order.
fn log(folder: &Path) -> Vec<f64> {
    let text = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["watts"].as_f64().unwrap()).collect()
}

#[test]
fn limits_are_put_back_when_the_daemon_ends_and_after_it_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let gpu = |name: &str, kind: &str| json!({"uuid": name, "name": kind, "power_limit_watts": 300.0, "memory_total_mib": 16384});
    let devices = [gpu("GPU-a", "Tesla V100-SXM2-16GB"), gpu("GPU-b", "NVIDIA A40")];
    let machine = json!({"driver": "535.54", "cuda": 12020, "devices": devices});
    std::fs::write(folder.path().join("machine.json"), machine.to_string()).unwrap();
    let book = folder.path().join("state/power-limits.json");

    let daemon = Daemon::start(folder.path(), &["--power-cap", "best"]);
    assert_eq!(log(folder.path()), [175.0, 200.0]);
    assert!(book.exists());
    daemon.end(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(log(folder.path())[2..], [300.0, 300.0]);
    assert!(!book.exists());

    let daemon = Daemon::start(folder.path(), &["--power-cap", "v100=150"]);
    assert_eq!(log(folder.path())[4..], [150.0]);
    daemon.end(nix::sys::signal::Signal::SIGKILL);
    assert!(book.exists());
    let daemon = Daemon::start(folder.path(), &[]);
    assert_eq!(log(folder.path())[5..], [300.0]);
    assert!(!book.exists());
    daemon.end(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(log(folder.path()).len(), 6);
}

#[test]
fn a_daemon_does_not_start_with_a_cap_that_its_gpus_do_not_take() {
    let state = tempfile::tempdir().unwrap();
    let up = |cap: &str| {
        let state = state.path().to_str().unwrap();
        let output = rota(&["up", "--foreground", "--state", state, "--virtual-gpus", "v100:1", "--power-cap", cap]);
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(up("cold").contains("gpus.power_cap"));
    assert!(up("h100=300").contains("`h100` is the type of no GPU here"));
}
