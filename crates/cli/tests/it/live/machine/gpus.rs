//! NVIDIA's GPUs as the daemon sees them, told by a stand-in for NVIDIA's library: strangers, devices that are lost, and what other programs say.

use crate::live::{Daemon, until};
use crate::rota::root;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

const UUIDS: [&str; 2] = ["GPU-00000000-0000-0000-0000-00000000000a", "GPU-00000000-0000-0000-0000-00000000000b"];

/// A machine with two GPUs, which a test changes while programs look at it.
pub struct Machine {
    pub path: PathBuf,
    pub devices: Vec<Value>,
    _folder: tempfile::TempDir,
}

impl Machine {
    pub fn new() -> Self {
        Self::with(&UUIDS)
    }

    /// One with other GPUs.
    pub fn with(uuids: &[&str]) -> Self {
        let device = |uuid: &&str| {
            json!({
                "uuid": uuid, "name": "NVIDIA A100-SXM4-40GB", "memory_total_mib": 40960, "memory_used_mib": 0, "utilisation": 0, "memory_utilisation": 0,
                "power_watts": 60.0, "power_limit_watts": 400, "energy_joules": 1000, "temperature": 31, "compute_mode": "default", "processes": [],
            })
        };
        Self::of(uuids.iter().map(device).collect())
    }

    /// One with these GPUs, as the stand-in's file has them.
    pub fn of(devices: Vec<Value>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let machine = Self { path: folder.path().join("machine.json"), devices, _folder: folder };
        machine.tell();
        machine
    }

    /// Shows what was changed, all at once, and gives the moment at which it did.
    fn tell(&self) -> i128 {
        let next = self.path.with_extension("next");
        std::fs::write(&next, json!({ "driver": "550.54", "cuda": 12040, "devices": self.devices }).to_string()).unwrap();
        std::fs::rename(&next, &self.path).unwrap();
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos().cast_signed()
    }

    /// A process comes to a GPU.
    pub fn occupy(&mut self, gpu: usize, pid: u32, memory_mib: u64) {
        self.devices[gpu]["processes"] = json!([{ "pid": pid, "memory_mib": memory_mib, "utilisation": 50 }]);
        self.devices[gpu]["memory_used_mib"] = json!(memory_mib);
        self.tell();
    }

    /// All processes leave it.
    pub fn leave(&mut self, gpu: usize) -> i128 {
        self.devices[gpu]["processes"] = json!([]);
        self.devices[gpu]["memory_used_mib"] = json!(0);
        self.tell()
    }

    pub fn daemon(&self, config: &str) -> Daemon {
        self.daemon_with(&[], config)
    }

    pub fn daemon_with(&self, arguments: &[&str], config: &str) -> Daemon {
        let library = nvidia_ml_fake::shared_library().expect("cargo builds the library beside the tests");
        Daemon::with(arguments, config, &[("ROTA_NVML_LIB", &library), ("FAKE_NVML", &self.path)])
    }

    /// A folder in which programs find the library under its own name.
    pub fn links(&self) -> PathBuf {
        let library = nvidia_ml_fake::shared_library().expect("cargo builds the library beside the tests");
        let link = self.path.with_file_name("libnvidia-ml.so.1");
        if !link.exists() {
            std::os::unix::fs::symlink(&library, &link).unwrap();
        }
        link.with_file_name("")
    }
}

fn gpu_state(daemon: &Daemon, gpu: usize) -> String {
    daemon.json(&["gpus", "--json"])[gpu]["state"].as_str().unwrap().to_owned()
}

#[test]
fn a_stranger_keeps_whole_gpu_jobs_away_until_it_leaves() {
    let mut machine = Machine::new();
    let stranger = std::process::id();
    machine.occupy(0, stranger, 30_000);
    let mut daemon = machine.daemon("");
    until("the stranger is seen", || gpu_state(&daemon, 0) == "stranger");
    // The other GPU is free, and is given.
    let elsewhere = daemon.shell(&[], "echo $CUDA_VISIBLE_DEVICES");
    assert_eq!(daemon.wait_one(elsewhere)["gpu_indices"], json!([1]));
    assert_eq!(daemon.log(elsewhere).trim(), UUIDS[1]);
    let waiting = daemon.shell(&["--gpu-ids", "0"], "true");
    let why = daemon.explain(waiting);
    assert_eq!(
        (&why["state"], &why["blockers"][0]["pid"], &why["blockers"][0]["gpu"]),
        (&json!("waiting"), &json!(stranger), &json!(0)),
        "{why:#}"
    );
    let reason = why["reason"].as_str().unwrap();
    assert!(reason.contains(&format!("pid {stranger}")) && reason.contains("10.7 GiB"), "{reason}");
    let shown = &daemon.json(&["gpus", "--json"])[0]["processes"][0];
    assert_eq!((&shown["pid"], &shown["memory_mib"], &shown["job"]), (&json!(stranger), &json!(30_000), &Value::Null));
    // A daemon that comes back does not give it away before it has looked.
    for _ in 0..3 {
        daemon.restart();
        until("it has looked", || gpu_state(&daemon, 0) == "stranger");
        assert_eq!(daemon.state_of(waiting), "waiting");
    }
    // What fits beside it may share.
    let beside = daemon.shell(&["--gpu-ids", "0", "--memory", "8000"], "true");
    assert_eq!(daemon.wait_one(beside)["state"], "done");
    let too_large = daemon.shell(&["--gpu-ids", "0", "--memory", "20000"], "true");
    assert_eq!(daemon.state_of(too_large), "waiting");
    daemon.ok(&["cancel", &too_large.to_string()]);

    let left = machine.leave(0);
    let job = daemon.wait_one(waiting);
    let started: jiff::Timestamp = job["started_at"].as_str().unwrap().parse().unwrap();
    let seconds = (started.as_nanosecond() - left) as f64 / 1e9;
    eprintln!("the job started {seconds:.3} s after the stranger had left");
    assert!(seconds < 2.0, "{seconds} s");
}

#[test]
fn processes_that_are_to_be_ignored_do_not_count() {
    let mut machine = Machine::new();
    let own = std::fs::read_to_string("/proc/self/comm").unwrap().trim().to_owned();
    machine.occupy(0, std::process::id(), 300);
    let daemon = machine.daemon(&format!("[gpus]\nignore_processes = ['{own}']"));
    let id = daemon.shell(&["--gpu-ids", "0"], "true");
    assert_eq!(daemon.wait_one(id)["state"], "done");
    machine.occupy(1, 1, 300);
    until("pid 1 is seen", || gpu_state(&daemon, 1) == "stranger");
    // A name does not excuse a process that holds much memory.
    machine.occupy(0, std::process::id(), 8900);
    until("it is a stranger now", || gpu_state(&daemon, 0) == "stranger");
}

#[test]
fn a_jobs_own_processes_are_no_strangers() {
    let mut machine = Machine::new();
    let daemon = machine.daemon("");
    let (child, go) = (daemon.file("child"), daemon.file("go"));
    let line = format!("sh -c 'echo $$ > \"{0}\"; while [ ! -e \"{1}\" ]; do sleep 0.02; done'", child.display(), go.display());
    let id = daemon.shell(&["--gpu-ids", "0", "--memory", "2000"], &line);
    let pid = crate::live::line_of(&child).parse().unwrap();
    machine.occupy(0, pid, 1500);
    until("its memory is seen", || daemon.json(&["gpus", "--json"])[0]["processes"][0]["job"] == json!(id));
    assert_eq!(gpu_state(&daemon, 0), "shared");
    std::fs::write(&go, "").unwrap();
    let job = daemon.wait_one(id);
    assert_eq!((&job["state"], &job["peak_memory_mib"]), (&json!("done"), &json!(1500)), "{job:#}");
}

#[test]
fn a_job_whose_gpu_is_lost_waits_again_or_fails_as_configured() {
    for (on_loss, config) in [("requeue", ""), ("fail", "[jobs]\non_gpu_loss = 'fail'")] {
        let mut machine = Machine::new();
        let daemon = machine.daemon(config);
        let attempts = daemon.file("attempts");
        // The first attempt never ends by itself; another ends at once.
        let id = daemon.shell(
            &["--grace", "0.1"],
            &format!("echo $CUDA_VISIBLE_DEVICES >> '{}'; [ $ROTA_ATTEMPT = 1 ] && sleep 600; true", attempts.display()),
        );
        crate::live::line_of(&attempts);
        let gpu = daemon.show(id)["gpu_indices"][0].as_u64().unwrap() as usize;
        machine.devices[gpu]["lost"] = json!(true);
        machine.tell();
        let job = daemon.wait_one(id);
        assert_eq!(gpu_state(&daemon, gpu), "lost");
        if on_loss == "requeue" {
            assert_eq!(
                (&job["state"], &job["attempts"], &job["gpu_indices"]),
                (&json!("done"), &json!(2), &json!([1 - gpu])),
                "{job:#}"
            );
        } else {
            assert_eq!((&job["state"], &job["attempts"]), (&json!("failed"), &json!(1)), "{job:#}");
            assert!(job["reason"].as_str().unwrap().contains(&format!("GPU {gpu} was lost")), "{job:#}");
        }
        // It comes back, and is used again.
        let waiting = daemon.shell(&["--gpu-ids", &gpu.to_string()], "true");
        assert!(daemon.explain(waiting)["reason"].as_str().unwrap().contains("is lost"));
        machine.devices[gpu]["lost"] = json!(false);
        machine.tell();
        assert_eq!(daemon.wait_one(waiting)["state"], "done");
    }
}

/// A Python with what a file requires, made once in a folder; `None` where that cannot be had.
pub fn python_with(folder: &str, requirements: &str) -> Option<PathBuf> {
    let folder = root().join(folder);
    let python = folder.join("bin/python");
    let requirements = root().join(requirements);
    std::fs::create_dir_all(&folder).unwrap();
    // Tests that come together make it once.
    let lock = std::fs::File::create(folder.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    let mark = folder.join("complete");
    if std::fs::read(&mark).ok().as_deref() == std::fs::read(&requirements).ok().as_deref() {
        return Some(python);
    }
    let run = |command: &mut Command| {
        command.output().map_err(|error| error.to_string()).and_then(|output| {
            if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
        })
    };
    let made = run(Command::new("python3").args(["-m", "venv"]).arg(&folder)).and_then(|()| {
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--require-hashes", "-r"]).arg(&requirements))
    });
    match made {
        Ok(()) => {
            std::fs::copy(&requirements, &mark).unwrap();
            Some(python)
        }
        Err(problem) => {
            assert!(std::env::var_os("CI").is_none(), "the clients cannot be installed: {problem}");
            crate::live::remark(&format!("not tested, the clients cannot be installed: {problem}"));
            None
        }
    }
}

#[test]
fn other_programs_see_the_same_gpus() {
    let Some(python) = python_with("target/nvml-clients", "tests/clients/requirements.txt") else { return };
    let mut machine = Machine::new();
    machine.devices[0]["power_watts"] = json!(250.0);
    machine.devices[0]["utilisation"] = json!(93);
    machine.devices[0]["temperature"] = json!(67);
    machine.occupy(0, std::process::id(), 12_345);
    let daemon = machine.daemon("");
    let links = tempfile::tempdir().unwrap();
    let library = nvidia_ml_fake::shared_library().unwrap();
    std::os::unix::fs::symlink(&library, links.path().join("libnvidia-ml.so.1")).unwrap();
    let ask = |links: &Path| {
        let output = Command::new(&python)
            .arg(root().join("tests/clients/nvml_clients.py"))
            .env("LD_LIBRARY_PATH", links)
            .env("FAKE_NVML", &machine.path)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    until("the process is seen", || daemon.json(&["gpus", "--json"])[0]["memory_used_mib"] == 12_345);
    let ours = daemon.json(&["gpus", "--json"]);
    let theirs = ask(links.path());
    for client in ["pynvml", "gpustat", "nvitop"] {
        for (ours, theirs) in ours.as_array().unwrap().iter().zip(theirs[client].as_array().unwrap()) {
            for field in ["index", "uuid", "name", "memory_total_mib", "memory_used_mib", "utilisation_percent", "temperature_c"]
            {
                assert_eq!(ours[field], theirs[field], "{client}: {field}");
            }
            assert!((ours["power_watts"].as_f64().unwrap() - theirs["power_watts"].as_f64().unwrap()).abs() < 1.0, "{client}");
            let pids = |gpu: &Value| {
                let processes = gpu["processes"].as_array().unwrap();
                processes.iter().map(|process| (process["pid"].clone(), process["memory_mib"].clone())).collect::<Vec<_>>()
            };
            assert_eq!(pids(ours), pids(theirs), "{client}");
        }
        assert_eq!(theirs[client].as_array().unwrap().len(), 2, "{client}");
    }
}
