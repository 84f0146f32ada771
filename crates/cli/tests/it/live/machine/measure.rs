//! `rota throughputs measure`: real processes, measured on virtual GPUs.

use super::super::{Daemon, until};
use crate::rota::root;
use std::fs;

/// A training whose steps take at least so long: its speed is known from above.
const TRAINING: &str = "
import sys, time
sys.path.insert(0, sys.argv[1])
import rota
if sys.argv[2] == 'broken':
    sys.exit('no such model')
if sys.argv[2] == 'greedy':
    import fcntl
    memory = open(__file__ + '.memory', 'w')
    try:
        fcntl.flock(memory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.exit('out of memory')
    sys.argv[2] = '0.01'
for _ in rota.Iterator(range(10**9), save=print, load=print):
    time.sleep(float(sys.argv[2]))
";

fn workloads(daemon: &Daemon) -> String {
    fs::write(daemon.file("train.py"), TRAINING).unwrap();
    let package = root().join("python");
    let entry = |name: &str, pause: &str, gangs: bool| {
        let package = package.display();
        format!("[[workload]]\njob_type = '{name}'\ncommand = ['python3', 'train.py', '{package}', '{pause}']\ngangs = {gangs}\n")
    };
    let usual = [entry("fast", "0.01", true), entry("slow", "0.05", false), entry("broken", "broken", false)];
    // Each needs most of the GPU's memory.
    let text = [usual.concat(), entry("greedy", "greedy", false), entry("glutton", "greedy", false)].concat();
    let path = daemon.file("workloads.toml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn speeds_alone_in_gangs_and_in_pairs() {
    let daemon = Daemon::start("a100:2");
    let workloads = workloads(&daemon);
    let output = daemon.file("speeds.json").to_str().unwrap().to_owned();
    let call = |more: &[&str]| {
        let plain = ["throughputs", "measure", &workloads, "-o", &output, "--seconds", "1", "--warm-up", "0", "--json"];
        daemon.rota(&[&plain[..], more].concat())
    };
    let first = call(&["--kinds", "alone,gangs", "--gangs", "2,4", "--only", "fast,slow,broken"]);
    let told = String::from_utf8(first.stderr).unwrap();
    assert!(first.status.success(), "{told}");
    assert!(told.contains("`broken` ended too early (exit status: 1): no such model"), "{told}");
    let measured: serde_json::Value = serde_json::from_slice(&first.stdout).unwrap();
    let speed = |number: usize| measured[number]["steps_per_second"][0].as_f64().unwrap();
    assert_eq!(measured.as_array().unwrap().len(), 4);
    assert!(speed(0) > speed(1) && speed(0) <= 100.5 && speed(1) > 0.0 && speed(1) <= 20.5, "{measured}");
    assert!(speed(2) == 0.0 && measured[2]["failure"].is_string(), "{measured}");
    assert_eq!((&measured[3]["gpus"], &measured[3]["job_types"][0]), (&2.into(), &"fast".into()));

    // What is there is neither overwritten nor measured again.
    assert_eq!(call(&[]).status.code(), Some(2));
    let second = call(&["--resume", "--kinds", "pairs", "--only", "fast,slow"]);
    assert!(second.status.success(), "{}", String::from_utf8_lossy(&second.stderr));
    let pairs: serde_json::Value = serde_json::from_slice(&second.stdout).unwrap();
    assert_eq!(pairs.as_array().unwrap().len(), 3);
    let table: serde_json::Value = serde_json::from_slice(&fs::read(&output).unwrap()).unwrap();
    let fast = &table["a100"]["('fast', 1)"];
    assert_eq!(fast["null"], measured[0]["steps_per_second"][0]);
    assert_eq!(fast["('slow', 1)"][1], table["a100"]["('slow', 1)"]["('fast', 1)"][0]);
    assert!(fast["('fast', 1)"][0].as_f64().unwrap() > 0.0 && table["a100"]["('fast', 2)"]["null"].as_f64().unwrap() > 0.0);
    let shown = daemon.json(&["throughputs", "show", &output, "--json"]);
    assert_eq!((&shown["pairs"], shown["job_types"].as_array().unwrap().len()), (&3.into(), 4));
    until("the GPUs are given back", || {
        let gpus = daemon.json(&["gpus", "--json"]);
        gpus.as_array().unwrap().iter().all(|gpu| gpu["state"] == "free")
    });
}

#[test]
fn a_pair_that_cannot_run_together_has_speed_zero() {
    let daemon = Daemon::start("a100:1");
    let workloads = workloads(&daemon);
    let output = daemon.file("speeds.json").to_str().unwrap().to_owned();
    let plain = ["throughputs", "measure", &workloads, "-o", &output, "--seconds", "1", "--warm-up", "0"];
    let measured = daemon.rota(&[&plain[..], &["--kinds", "pairs", "--only", "fast,greedy,glutton"]].concat());
    let told = String::from_utf8(measured.stderr).unwrap();
    assert!(measured.status.success(), "{told}");
    assert_eq!(told.matches("out of memory").count(), 3, "{told}");
    let table: serde_json::Value = serde_json::from_slice(&fs::read(&output).unwrap()).unwrap();
    let (fast, greedy, glutton) = ("('fast', 1)", "('greedy', 1)", "('glutton', 1)");
    let speed = |value: &serde_json::Value| value.as_f64().unwrap();
    for one in [greedy, glutton] {
        let own = &table["a100"][one];
        assert!(speed(&own["null"]) > 0.0 && speed(&own[fast][0]) > 0.0 && speed(&own[fast][1]) > 0.0, "{own}");
        assert!([greedy, glutton].iter().all(|other| own[other] == serde_json::json!([0.0, 0.0])), "as Gavel writes it: {own}");
    }
    // They are known, so they are not measured again.
    let again = daemon.rota(&[&plain[..], &["--resume", "--kinds", "pairs", "--only", "fast,greedy,glutton"]].concat());
    assert!(String::from_utf8_lossy(&again.stderr).contains("there is nothing to measure"));
}

#[test]
fn what_cannot_be_measured_is_told_before_anything_runs() {
    let daemon = Daemon::start("a100:1");
    let workloads = workloads(&daemon);
    let output = daemon.file("speeds.json").to_str().unwrap().to_owned();
    let plain = ["throughputs", "measure", &workloads, "-o", &output];
    let refusal = |more: &[&str]| daemon.refusal(2, &[&plain[..], more].concat());
    assert!(refusal(&["--gpu-type", "h100"]).contains("there is no GPU of type `h100` here; there are: a100"));
    assert!(refusal(&["--only", "vgg"]).contains("there are: fast, slow, broken"));
    assert!(refusal(&["--kinds", "gangs"]).contains("there is nothing to measure"));
    assert!(refusal(&["--gangs", "1"]).contains("--gangs"));
    assert!(!daemon.file("speeds.json").exists());
}
