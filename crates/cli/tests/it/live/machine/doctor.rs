//! `rota doctor` finds what is wrong, says what to do, and is content with what is well.

use crate::live::watchers::python;
use crate::live::{Daemon, program};
use crate::rota::root;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// What was found, and whether the exit code agrees.
fn findings(command: &mut Command) -> Vec<Value> {
    let output = command.output().unwrap();
    let found: Vec<Value> = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)));
    let is_broken = found.iter().any(|finding| finding["level"] == "fail");
    assert_eq!(output.status.code(), Some(i32::from(is_broken)), "{found:#?}");
    for finding in &found {
        assert_eq!(finding["remedy"].is_null(), finding["level"] == "ok", "{finding:#}");
    }
    found
}

fn level<'a>(found: &'a [Value], check: &str) -> &'a str {
    let finding = found.iter().find(|finding| finding["check"] == check);
    finding.unwrap_or_else(|| panic!("nothing of {check}: {found:#?}"))["level"].as_str().unwrap()
}

fn text<'a>(found: &'a [Value], check: &str) -> &'a str {
    found.iter().find(|finding| finding["check"] == check).unwrap()["text"].as_str().unwrap()
}

#[test]
fn a_queue_that_works_is_well() {
    let daemon = Daemon::start("a100:2");
    daemon.wait_one(daemon.shell(&[], "true"));
    let found = findings(&mut daemon.call(&["doctor", "--json"]));
    for check in ["daemon", "version", "port", "state", "store", "driver", "clock"] {
        assert_eq!(level(&found, check), "ok", "{found:#?}");
    }
    assert!(text(&found, "store").contains("1 jobs"), "{found:#?}");
    assert!(!found.iter().any(|finding| finding["level"] == "fail"), "{found:#?}");
    let shown = daemon.ok(&["doctor"]);
    assert!(shown.starts_with("ok    daemon") && shown.contains("state"), "{shown}");
    // It says what the daemon says of itself.
    daemon.ok(&["drain"]);
    assert_eq!(level(&findings(&mut daemon.call(&["doctor", "--json"])), "drained"), "warn");
}

#[test]
fn without_a_daemon_that_is_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let doctor = |state: &Path| findings(Command::new(program()).args(["doctor", "--json", "--state"]).arg(state));
    let found = doctor(&missing);
    assert_eq!((level(&found, "daemon"), level(&found, "state")), ("fail", "fail"));
    // A daemon that went away leaves a store, which is whole.
    let mut daemon = Daemon::start("a100:1");
    daemon.wait_one(daemon.shell(&[], "true"));
    daemon.kill();
    let found = doctor(&daemon.state);
    assert_eq!((level(&found, "daemon"), level(&found, "state"), level(&found, "store")), ("fail", "ok", "ok"));
}

#[test]
fn a_directory_that_others_can_change_and_a_store_that_is_not_whole_are_found() {
    let mut daemon = Daemon::start("a100:1");
    daemon.wait_one(daemon.shell(&[], "true"));
    let mode = |path: &Path, mode: u32| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    mode(&daemon.state, 0o777);
    mode(&daemon.state.join("token"), 0o644);
    let found = findings(&mut daemon.call(&["doctor", "--json"]));
    assert_eq!((level(&found, "state"), level(&found, "secrets")), ("fail", "fail"));
    mode(&daemon.state, 0o700);
    mode(&daemon.state.join("token"), 0o600);
    daemon.kill();
    let store = daemon.state.join("rota.db");
    // Everything into the file itself, and then a hole into the file.
    let connection = rusqlite::Connection::open(&store).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(connection);
    let mut octets = std::fs::read(&store).unwrap();
    octets[4096..].fill(0xa5);
    std::fs::write(&store, octets).unwrap();
    let found = findings(&mut daemon.call(&["doctor", "--json"]));
    assert_eq!(level(&found, "store"), "fail", "{found:#?}");
    std::fs::write(&store, "no database at all, and rather short").unwrap();
    let found = findings(&mut daemon.call(&["doctor", "--json"]));
    assert_eq!(level(&found, "store"), "fail", "{found:#?}");
}

#[test]
fn settings_and_certificates_are_looked_at() {
    let daemon = Daemon::start("a100:1");
    let config = daemon.file("rota.toml");
    std::fs::write(&config, "polcy = 'fcfs'").unwrap();
    let doctor = || findings(daemon.call(&["doctor", "--json", "--config"]).arg(&config));
    let found = doctor();
    assert_eq!(level(&found, "settings"), "fail");
    assert!(text(&found, "settings").contains("polcy"));
    let Some(python) = python() else { return };
    for (days, expected) in [(400, "ok"), (10, "warn"), (-1, "fail")] {
        let certificate = daemon.file("certificate.pem");
        let made = Command::new(&python)
            .arg("-c")
            .arg(
                "import sys, datetime, trustme; \
                 end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=int(sys.argv[2]), hours=1); \
                 start = end - datetime.timedelta(days=500); \
                 trustme.CA().issue_cert('localhost', not_before=start, not_after=end).cert_chain_pems[0].write_to_path(sys.argv[1])",
            )
            .arg(&certificate)
            .arg(days.to_string())
            .current_dir(root())
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        std::fs::write(&config, format!("[http]\ntls_cert = '{}'\n", certificate.display())).unwrap();
        assert_eq!(level(&doctor(), "tls"), expected, "{days} days");
    }
    std::fs::write(&config, "[http]\ntls_cert = '/nowhere/at/all.pem'\n").unwrap();
    assert_eq!(level(&doctor(), "tls"), "fail");
}

#[test]
fn a_daemon_with_too_few_files_is_told_of() {
    let mut daemon = Daemon::start("a100:1");
    let found = findings(&mut daemon.call(&["doctor", "--json"]));
    assert_eq!(level(&found, "files"), if text(&found, "files").contains(" 1024 ") { "warn" } else { "ok" }, "{found:#?}");
    daemon.kill();
    daemon.limit_files(700);
    daemon.up();
    let found = findings(&mut daemon.call(&["doctor", "--json"]));
    assert_eq!(level(&found, "files"), "warn", "{found:#?}");
    assert!(text(&found, "files").contains("700 files") && text(&found, "files").contains("148 connections"), "{found:#?}");
}

#[test]
fn strangers_and_closed_gpus_are_found() {
    let mut machine = crate::live::machine::gpus::Machine::new();
    machine.devices[1]["compute_mode"] = json!("prohibited");
    machine.occupy(0, std::process::id(), 2000);
    let daemon = machine.daemon("");
    crate::live::until("the stranger is seen", || daemon.json(&["gpus", "--json"])[0]["state"] == "stranger");
    let found = findings(&mut daemon.call(&["doctor", "--json"]));
    assert_eq!((level(&found, "driver"), level(&found, "gpus")), ("ok", "ok"), "{found:#?}");
    assert_eq!((level(&found, "strangers"), level(&found, "modes")), ("warn", "fail"), "{found:#?}");
    assert!(text(&found, "strangers").contains(&format!("pid {}", std::process::id())), "{found:#?}");
}
