//! What Prometheus reads: strictly well-formed, true, and all that the dashboard for Grafana asks for.

#![expect(clippy::float_cmp, reason = "they are counts")]

use crate::live::watchers::python;
use crate::live::{Daemon, until};
use crate::rota::root;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

/// The answer to a request on the port, with a token or without.
fn get(daemon: &Daemon, path: &str, token: Option<&str>) -> (u16, String, String) {
    let address = std::fs::read_to_string(daemon.state.join("http")).unwrap();
    let mut stream = TcpStream::connect(address.trim().strip_prefix("http://").unwrap()).unwrap();
    let token = token.map_or_else(String::new, |token| format!("authorization: Bearer {token}\r\n"));
    write!(stream, "GET {path} HTTP/1.1\r\nhost: rota\r\n{token}connection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split_whitespace().nth(1).unwrap().parse().unwrap(), head.to_owned(), body.to_owned())
}

/// The families as a strict reader finds them.
fn families(python: &std::path::Path, text: &str) -> Value {
    let mut child = Command::new(python)
        .arg(root().join("tests/watchers/metrics.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}\n{text}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The value of a sample with these labels.
fn value(families: &Value, family: &str, sample: &str, labels: &[(&str, &str)]) -> f64 {
    let samples = families[family]["samples"].as_array().unwrap_or_else(|| panic!("no {family}"));
    let fits = |found: &&Value| found["name"] == sample && labels.iter().all(|(name, value)| found["labels"][name] == *value);
    samples.iter().find(fits).unwrap_or_else(|| panic!("no {sample} {labels:?}: {samples:#?}"))["value"].as_f64().unwrap()
}

#[test]
fn a_strict_reader_finds_what_happened() {
    let Some(python) = python() else { return };
    let daemon = Daemon::start("a100:2");
    daemon.wait(&[daemon.shell(&[], "true"), daemon.shell(&[], "exit 1")]);
    let running = daemon.shell(&["-g", "2"], "sleep 600");
    daemon.until_state(running, "running");
    let waiting = [daemon.shell(&[], "true"), daemon.shell(&[], "true")];
    daemon.shell(&["--hold"], "true");
    let read = || {
        let (status, head, text) = get(&daemon, "/metrics", None);
        assert_eq!(status, 200, "{head}");
        assert!(head.contains("application/openmetrics-text; version=1.0.0"), "{head}");
        families(&python, &text)
    };
    until("the GPUs are busy", || {
        value(&read(), "rota_gpu_utilisation_ratio", "rota_gpu_utilisation_ratio", &[("index", "0")]) > 0.0
    });
    let found = read();
    for (state, count) in [("waiting", 2.0), ("held", 1.0), ("running", 1.0), ("starting", 0.0), ("stopping", 0.0)] {
        assert_eq!(value(&found, "rota_jobs", "rota_jobs", &[("state", state)]), count, "{state}");
    }
    assert_eq!(value(&found, "rota_jobs_submitted", "rota_jobs_submitted_total", &[]), 6.0);
    assert_eq!(value(&found, "rota_job_runs", "rota_job_runs_total", &[]), 3.0);
    for (state, count) in [("done", 1.0), ("failed", 1.0), ("cancelled", 0.0)] {
        assert_eq!(value(&found, "rota_jobs_ended", "rota_jobs_ended_total", &[("state", state)]), count, "{state}");
    }
    assert_eq!(value(&found, "rota_job_wait_seconds", "rota_job_wait_seconds_count", &[]), 3.0);
    assert_eq!(value(&found, "rota_job_run_seconds", "rota_job_run_seconds_count", &[]), 2.0);
    for family in ["rota_decision_seconds", "rota_store_write_seconds"] {
        assert_eq!(found[family]["type"], "histogram");
        assert!(value(&found, family, &format!("{family}_count"), &[]) > 0.0, "{family}");
    }
    let user = daemon.show(running)["user"].as_str().unwrap().to_owned();
    assert_eq!(value(&found, "rota_queue_depth", "rota_queue_depth", &[("user", &user)]), 2.0);
    assert!(value(&found, "rota_store_size_bytes", "rota_store_size_bytes", &[]) > 0.0);
    let gpu = daemon.json(&["gpus", "--json"])[0].clone();
    let labels = [("index", "0"), ("type", "a100"), ("uuid", gpu["uuid"].as_str().unwrap())];
    let total = gpu["memory_total_mib"].as_f64().unwrap() * 1_048_576.0;
    assert_eq!(value(&found, "rota_gpu_memory_total_bytes", "rota_gpu_memory_total_bytes", &labels), total);
    assert_eq!(value(&found, "rota_gpu_jobs", "rota_gpu_jobs", &labels), 1.0);
    assert!(value(&found, "rota_gpu_power_watts", "rota_gpu_power_watts", &labels) > 0.0);
    assert!(value(&found, "rota_gpu_energy_joules", "rota_gpu_energy_joules_total", &[labels[2]]) > 0.0);
    // What was counted goes again with what it counted.
    daemon.ok(&["cancel", &running.to_string(), &waiting[1].to_string()]);
    daemon.wait(&[running, waiting[0], waiting[1]]);
    let found = read();
    assert_eq!(value(&found, "rota_jobs", "rota_jobs", &[("state", "running")]), 0.0);
    assert_eq!(value(&found, "rota_jobs", "rota_jobs", &[("state", "waiting")]), 0.0);
    assert_eq!(value(&found, "rota_jobs_ended", "rota_jobs_ended_total", &[("state", "cancelled")]), 2.0);
    assert!(found["rota_queue_depth"]["samples"].as_array().is_none_or(Vec::is_empty), "{found:#}");
}

#[test]
fn the_dashboard_asks_for_nothing_that_is_not_there() {
    let Some(python) = python() else { return };
    let daemon = Daemon::start("a100:1");
    daemon.wait_one(daemon.shell(&[], "true"));
    let running = daemon.shell(&[], "sleep 600");
    daemon.until_state(running, "running");
    daemon.shell(&[], "true");
    let mut known = BTreeSet::new();
    until("the GPU was looked at", || {
        let found = families(&python, &get(&daemon, "/metrics", None).2);
        let samples = found.as_object().unwrap().values().flat_map(|family| family["samples"].as_array().unwrap());
        known = samples.map(|sample| sample["name"].as_str().unwrap().to_owned()).collect();
        known.contains("rota_gpu_power_watts")
    });
    let dashboard = std::fs::read_to_string(root().join("packaging/grafana/rota.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let asked = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    let asked = asked.map(|target| target["expr"].as_str().unwrap()).collect::<Vec<_>>();
    assert!(asked.len() >= 15, "{asked:?}");
    for expression in asked {
        let words = expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let names = words.filter(|word| word.starts_with("rota_")).collect::<Vec<_>>();
        assert!(!names.is_empty(), "{expression}");
        for name in names {
            assert!(known.contains(name), "{expression}: there is no {name} in {known:#?}");
        }
    }
    let mut places = BTreeSet::new();
    for panel in panels {
        assert!(places.insert(panel["gridPos"].to_string()), "two panels in one place: {panel:#}");
        assert!(places.insert(panel["id"].to_string()), "two panels with one number: {panel:#}");
    }
}

#[test]
fn a_site_can_ask_for_a_token() {
    let daemon = Daemon::configured("a100:1", "[http]\nmetrics = 'token'");
    let (status, _, body) = get(&daemon, "/metrics", None);
    assert_eq!(status, 401, "{body}");
    let token = std::fs::read_to_string(daemon.state.join("token")).unwrap();
    let (status, _, body) = get(&daemon, "/metrics", Some(token.trim()));
    assert_eq!(status, 200, "{body}");
    assert!(body.contains("rota_build_info") && body.ends_with("# EOF\n"), "{body}");
}
