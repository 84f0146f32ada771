//! What cannot be meant, or cannot be done, is said in plain words with the right exit code, and nothing is lost by it.

use crate::live::{Daemon, is_root, refused, until};
use serde_json::json;
use std::ffi::OsStr;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::chown;

#[test]
fn what_cannot_run_fails_with_the_reason() {
    let daemon = Daemon::start("a100:1");
    let gone = daemon.file("gone");
    std::fs::create_dir(&gone).unwrap();
    let blocker = daemon.submit(&["--", "sleep", "600"]);
    let vanished = daemon.submit(&["--cwd", gone.to_str().unwrap(), "--", "true"]);
    std::fs::remove_dir(&gone).unwrap();
    let missing = daemon.submit(&["--force", "--retries", "3", "--", "/no/such/program"]);
    let not_a_program = daemon.submit(&["--force", "--", daemon.folder.path().to_str().unwrap()]);
    daemon.ok(&["cancel", &blocker.to_string()]);
    let jobs = daemon.wait(&[vanished, missing, not_a_program]);
    for (job, part) in jobs.iter().zip(["gone", "/no/such/program", "a directory; name a program in it"]) {
        assert_eq!((&job["state"], &job["attempts"]), (&json!("failed"), &json!(1)), "{job:#}");
        assert!(job["reason"].as_str().unwrap().contains(part), "{job:#}");
    }
}

#[test]
fn what_this_machine_has_not_is_refused() {
    let daemon = Daemon::start("a100:2,t4:1");
    for (arguments, parts) in [
        (&["-g", "3"][..], &["--gpus", "2 a100, 1 t4"][..]),
        (&["--memory", "9999999"], &["--memory", "9999999 MiB"]),
        (&["--gpu-type", "h900"], &["--gpu-type", "h900", "2 a100, 1 t4"]),
        (&["--gpu-type", "t4", "-g", "2"], &["--gpus"]),
        (&["--gpu-ids", "0,7"], &["no GPU 7", "0, 1, 2"]),
        (&["--gpu-ids", "0,0"], &["named twice"]),
        (&["--share", "1.5"], &["--share"]),
        (&["--share", "nan"], &["--share"]),
        (&["--share", "inf"], &["--share"]),
        (&["--weight", "0"], &["--weight"]),
        (&["--weight", "nan"], &["--weight"]),
        (&["--tickets", "0"], &["--tickets"]),
        (&["--time-limit", "0"], &["--time-limit"]),
        (&["--time-limit", "-1"], &["-1"]),
        (&["--estimate", "soon"], &["soon"]),
        (&["--deadline", "tomorrow"], &["--deadline"]),
        (&["--deadline", "2001-01-01T00:00:00Z"], &["in the past"]),
        (&["--threads-percent", "0"], &["--threads-percent"]),
        (&["--env", "=x"], &["--env"]),
        (&["--array", "3-1"], &["--array"]),
        (&["--array", "0-999999"], &["100000"]),
        (&["--param", "lr"], &["--param"]),
        (&["--name", ""], &["--name"]),
    ] {
        let arguments = ["submit"].iter().chain(arguments).chain(&["--", "true"]).copied().collect::<Vec<_>>();
        let said = daemon.refusal(2, &arguments);
        assert!(parts.iter().all(|part| said.contains(part)), "{arguments:?}: {said}");
    }
    assert!(daemon.refusal(2, &["submit"]).contains("COMMAND"));
    assert_eq!(daemon.json(&["queue", "--all", "--json"]), json!([]), "nothing was accepted");
}

#[test]
fn unknown_jobs_are_named() {
    let daemon = Daemon::start("a100:1");
    let id = daemon.submit(&["--hold", "--", "true"]);
    let (next, next_any) = ((id + 1).to_string(), format!("{}:any", id + 1));
    for after in [next.as_str(), next_any.as_str(), "9999"] {
        let said = daemon.refusal(2, &["submit", "--after", after, "--", "true"]);
        assert!(said.contains("--after: there is no job"), "{said}");
    }
    assert!(daemon.refusal(2, &["submit", "--after", "first", "--", "true"]).contains("--after"));
    assert!(daemon.refusal(2, &["submit", "--after", &format!("{id}:perhaps"), "--", "true"]).contains("--after"));
    for verb in ["show", "explain", "logs", "cancel", "hold", "release", "retry", "wait"] {
        let said = daemon.refusal(1, &[verb, "9999"]);
        assert!(said.contains("no job 9999"), "{verb}: {said}");
    }
    // One that is unknown does not keep the others from being done.
    daemon.refusal(1, &["cancel", "9999", &id.to_string()]);
    assert_eq!(daemon.state_of(id), "cancelled");
    assert!(daemon.refusal(2, &["queue", "--in", "sleeping"]).contains("waiting"));
}

#[test]
fn commands_too_long_for_the_system_are_refused_and_those_it_takes_run() {
    let daemon = Daemon::start("a100:1");
    let ask =
        |command: serde_json::Value, env: serde_json::Value| json!({ "command": command, "cwd": "/", "env": env }).to_string();
    let long = "x".repeat(10 << 20);
    for body in [ask(json!(["true", long]), json!([])), ask(json!(["true"]), json!([["LONG", long]]))] {
        let (status, answer) = daemon.post("/api/v1/jobs", body.as_bytes());
        assert_eq!(status, 400, "{answer}");
        assert!(answer.contains("put long lists into a file"), "{answer}");
    }
    let (status, answer) = daemon.post("/api/v1/jobs", ask(json!(["true", "x".repeat(20 << 20)]), json!([])).as_bytes());
    assert!(status == 413 || status == 0, "{status} {answer}");
    let (status, answer) = daemon.post("/api/v1/jobs", b"{\"command\": 3}");
    assert!((400..500).contains(&status), "{status} {answer}");
    // A single argument has a limit of its own in the kernel, which the job is told.
    let (status, answer) = daemon.post("/api/v1/jobs", ask(json!(["true", "x".repeat(200 << 10)]), json!([])).as_bytes());
    if status == 201 {
        let id = serde_json::from_str::<serde_json::Value>(&answer).unwrap()["ids"][0].as_u64().unwrap();
        let job = daemon.wait_one(id);
        assert_eq!(job["state"], "failed", "{}", job["reason"]);
        assert!(job["reason"].as_str().unwrap().contains("too long"), "{}", job["reason"]);
    } else {
        assert_eq!(status, 400, "{answer}");
    }
    let many = vec!["x".repeat(1000); 1000];
    let mut command = vec!["sh", "-c", "echo $#", "sh"];
    command.extend(many.iter().map(String::as_str));
    let id = daemon.submit(&["--"].iter().copied().chain(command).collect::<Vec<_>>());
    assert_eq!((daemon.wait_one(id)["state"].clone(), daemon.log(id)), (json!("done"), "1000\n".to_owned()));
}

#[test]
fn arguments_variables_and_directories_need_not_be_text() {
    let daemon = Daemon::start("a100:1");
    let odd = OsStr::from_bytes(b"a\xff\xfe b\n'\"$x");
    let dir = daemon.folder.path().join(odd);
    std::fs::create_dir(&dir).unwrap();
    let mut command = daemon.call(&["submit", "--env"]);
    let mut variable = b"ODD=".to_vec();
    variable.extend_from_slice(odd.as_bytes());
    command
        .arg(OsStr::from_bytes(&variable))
        .args(["--", "sh", "-c", "printf '%s|%s|' \"$1\" \"$ODD\"; pwd -P; echo ok > here", "sh"])
        .arg(odd)
        .current_dir(&dir);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let id: u64 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    let job = daemon.wait_one(id);
    assert_eq!(job["state"], "done", "{job:#}");
    let written = daemon.rota(&["logs", &id.to_string()]).stdout;
    let mut expected = [odd.as_bytes(), b"|", odd.as_bytes(), b"|"].concat();
    expected.extend_from_slice(dir.canonicalize().unwrap().as_os_str().as_bytes());
    expected.push(b'\n');
    assert_eq!(written, expected, "{}", String::from_utf8_lossy(&written));
    assert_eq!(std::fs::read(dir.join("here")).unwrap(), b"ok\n");
    // People are shown something, too.
    daemon.ok(&["show", &id.to_string()]);
    daemon.ok(&["queue", "--all"]);
}

#[test]
fn a_daemon_that_cannot_start_says_why_and_touches_nothing() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let mut daemon = Daemon::start("a100:1");
    let id = daemon.submit(&["--hold", "--", "true"]);
    let said = refused(1, &mut daemon.command());
    assert!(said.contains("a daemon already runs on") && said.contains(&daemon.pid().to_string()), "{said}");
    assert_eq!(daemon.state_of(id), "held", "the first one goes on");
    daemon.kill();
    for (arguments, code, part) in [
        (&["--port", port.as_str()][..], 1, format!("port {port}")),
        (&["--policy", "nonsense"], 2, "nonsense".to_owned()),
        (&["--config", "/no/such/file"], 2, "/no/such/file".to_owned()),
    ] {
        let said = refused(code, daemon.command().args(arguments));
        assert!(said.contains(&part), "{said}");
    }
    let said = refused(2, daemon.call(&["up", "--foreground", "--virtual-gpus", "a100:many"]).stdin(std::process::Stdio::null()));
    assert!(said.contains("a100:many"), "{said}");
    daemon.up();
    assert_eq!(daemon.state_of(id), "held", "nothing is lost");
}

#[test]
fn without_a_daemon_every_command_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("nobody");
    let daemon = Daemon::at(folder, state, &[], "", &[]);
    for arguments in
        [&["status"][..], &["queue"], &["gpus"], &["submit", "--", "true"], &["claim"], &["wait", "1"], &["down"], &["drain"]]
    {
        let said = daemon.refusal(1, arguments);
        assert!(said.contains("no daemon on") && said.contains("rota up"), "{arguments:?}: {said}");
    }
    assert!(!daemon.state.exists());
}

#[test]
fn a_store_of_a_newer_version_and_a_damaged_one_are_left_alone() {
    let mut daemon = Daemon::start("a100:1");
    let id = daemon.submit(&["--hold", "--", "true"]);
    assert!(daemon.ok(&["down"]).contains("has stopped"));
    assert!(daemon.ended().success());
    let path = daemon.state.join("rota.db");
    let version = |number: i64| {
        let store = rusqlite::Connection::open(&path).unwrap();
        store.pragma_update(None, "user_version", number).unwrap();
    };
    let known: i64 =
        rusqlite::Connection::open(&path).unwrap().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    version(99);
    let before = std::fs::read(&path).unwrap();
    let said = refused(1, &mut daemon.command());
    assert!(said.contains("newer Rota") && said.contains("99"), "{said}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    version(known);

    let whole = std::fs::read(&path).unwrap();
    let mut torn = whole.clone();
    for byte in torn.iter_mut().skip(4096) {
        *byte ^= 0x5a;
    }
    for damaged in [torn, b"this is not a database, however long it may be".repeat(100)] {
        std::fs::write(&path, &damaged).unwrap();
        let said = refused(1, &mut daemon.command());
        assert!(said.contains("rota.db") && said.contains("backup"), "{said}");
        assert_eq!(std::fs::read(&path).unwrap(), damaged, "nothing was changed");
    }
    std::fs::write(&path, &whole).unwrap();
    daemon.up();
    assert_eq!(daemon.state_of(id), "held");
}

#[test]
fn mistakes_in_settings_are_named_with_their_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rota.toml");
    let state = folder.path().join("state");
    for (text, part) in [
        ("polcy = 'fcfs'", "polcy"),
        ("policy = 'nonsense'", "nonsense"),
        ("port = 70000", "port"),
        ("[jobs]\ngrace_seconds = 'long'", "grace_seconds"),
        ("[jobs]\ngrace_seconds = -1.0", "jobs.grace_seconds"),
        ("[gpus]\nlook_seconds = 0.0", "gpus.look_seconds"),
        ("[gpus\n", "line 1"),
    ] {
        std::fs::write(&path, text).unwrap();
        for verb in [&["config", "check"][..], &["up", "--foreground", "--virtual-gpus", "a100:1", "--config"]] {
            let mut command = std::process::Command::new(crate::live::program());
            let said = refused(2, command.args(verb).arg(&path).env("ROTA_STATE", &state));
            assert!(said.contains("rota.toml") && said.contains(part), "{text}: {said}");
        }
    }
    assert!(!state.exists(), "nothing was made");
}

#[test]
fn the_state_directory_of_another_user_is_left_alone() {
    if !is_root() {
        eprintln!("only root can give a directory to another user: not tested");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("theirs");
    std::fs::create_dir(&state).unwrap();
    chown(&state, Some(65534), Some(65534)).unwrap();
    let daemon = Daemon::at(folder, state, &["--virtual-gpus", "a100:1"], "", &[]);
    let said = refused(1, &mut daemon.command());
    assert!(said.contains("belongs to another user (uid 65534)"), "{said}");
    assert_eq!(std::fs::read_dir(&daemon.state).unwrap().count(), 0);
}

#[test]
fn a_socket_left_behind_is_no_daemon() {
    let mut daemon = Daemon::start("a100:1");
    let id = daemon.submit(&["--hold", "--", "true"]);
    daemon.kill();
    assert!(daemon.state.join("rota.sock").exists());
    assert!(daemon.refusal(1, &["status"]).contains("no daemon on"));
    daemon.up();
    until("it answers", || daemon.state_of(id) == "held");
}
