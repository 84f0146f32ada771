//! A daemon of root's: jobs run as those who submitted them, and nobody reaches into another's.

use crate::live::{Daemon, is_root, refused};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// A user of this machine who is not root.
pub struct User {
    pub name: &'static str,
    pub uid: u32,
    pub gid: u32,
}

impl User {
    fn named(name: &'static str) -> Self {
        let user = nix::unistd::User::from_name(name).unwrap().expect("every Linux has it");
        Self { name, uid: user.uid.as_raw(), gid: user.gid.as_raw() }
    }

    /// A call of the program by this user.
    pub fn call(&self, daemon: &Daemon, arguments: &[&str]) -> Command {
        let ids = [format!("--reuid={}", self.uid), format!("--regid={}", self.gid)];
        let mut command = Command::new("setpriv");
        // The program is where this user need not be able to look: it is given as a copy that everybody may run.
        command.args(ids).arg("--init-groups").arg("--").arg(daemon.file("rota")).args(arguments);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("ROTA_STATE", &daemon.state).env("OWN", self.name).current_dir("/");
        command
    }

    pub fn json(&self, daemon: &Daemon, arguments: &[&str]) -> Value {
        let output = self.call(daemon, arguments).output().unwrap();
        assert!(output.status.success(), "{} {arguments:?}: {}", self.name, String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    pub fn submit(&self, daemon: &Daemon, options: &[&str], line: &str) -> u64 {
        let arguments = ["submit", "--json"].iter().chain(options).chain(&["--", "sh", "-c", line]).copied().collect::<Vec<_>>();
        self.json(daemon, &arguments)["id"].as_u64().unwrap()
    }
}

/// A daemon of root's that others can reach, and two of them.
pub fn shared(gpus: &str, config: &str) -> Option<(Daemon, User, User)> {
    if !is_root() {
        crate::live::remark("only root runs jobs as other users: not tested");
        return None;
    }
    let daemon = Daemon::with(&["--virtual-gpus", gpus], config, &[("DAEMONS_SECRET", std::path::Path::new("of-the-daemon"))]);
    std::fs::set_permissions(daemon.folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::copy(crate::live::program(), daemon.file("rota")).unwrap();
    Some((daemon, User::named("nobody"), User::named("daemon")))
}

#[test]
fn jobs_run_as_their_owners_with_their_environment_and_nothing_of_the_daemons() {
    let Some((daemon, ann, bob)) = shared("a100:2", "") else { return };
    for user in [&ann, &bob] {
        let id = user.submit(&daemon, &[], "id -u; id -g; id -G; umask; ls /proc/self/fd | wc -l; env | sort");
        let job = daemon.wait_one(id);
        assert_eq!((&job["state"], &job["user"]), (&json!("done"), &json!(user.name)), "{job:#}");
        let log = daemon.log(id);
        let mut lines = log.lines();
        assert_eq!(lines.next().unwrap(), user.uid.to_string());
        assert_eq!(lines.next().unwrap(), user.gid.to_string());
        let expected = Command::new("id").args(["-G", user.name]).output().unwrap();
        assert_eq!(lines.next().unwrap(), String::from_utf8(expected.stdout).unwrap().trim());
        lines.next().unwrap();
        // Input, output, errors, and the directory that `ls` reads.
        assert_eq!(lines.next().unwrap().trim(), "4", "{log}");
        let names = lines.filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect::<Vec<_>>();
        assert!(names.contains(&"OWN") && names.contains(&"ROTA_JOB_ID"), "{log}");
        assert!(!log.contains("DAEMONS_SECRET"), "{log}");
        let mut foreign = names.clone();
        foreign.retain(|name| {
            !name.starts_with("ROTA_")
                && !name.starts_with("CUDA_")
                && !["OWN", "PATH", "PWD", "OLDPWD", "SHLVL", "_"].contains(name)
        });
        assert!(foreign.is_empty(), "from where are {foreign:?}? {log}");
    }
}

#[test]
fn nobody_touches_or_reads_what_is_anothers() {
    let Some((daemon, ann, bob)) = shared("a100:1", "") else { return };
    let running = ann.submit(&daemon, &["--env", "SECRET=of-ann"], "echo private; sleep 600");
    let waiting = ann.submit(&daemon, &[], "sleep 600");
    daemon.until_state(running, "running");
    for id in [running, waiting] {
        for verb in ["cancel", "hold", "release"] {
            let said = refused(1, &mut bob.call(&daemon, &[verb, &id.to_string()]));
            assert!(said.contains("belongs to nobody"), "{verb}: {said}");
        }
        let said = refused(1, &mut bob.call(&daemon, &["logs", &id.to_string()]));
        assert!(said.contains("belongs to nobody"), "{said}");
    }
    for arguments in [&["drain"][..], &["policy", "set", "fcfs"], &["down"]] {
        let said = refused(1, &mut bob.call(&daemon, arguments));
        assert!(said.contains("not an administrator"), "{arguments:?}: {said}");
    }
    let said = refused(1, &mut bob.call(&daemon, &["claim", "--pid", "1"]));
    assert!(said.contains("not yours"), "{said}");
    // Not past the daemon either: neither log, nor store, nor the files of the run.
    let run_dir = daemon.run_dir(running, 1);
    let mut private = vec![
        daemon.state.join("rota.db"),
        daemon.state.join("rota.db-wal"),
        daemon.state.join("token"),
        daemon.state.join("lock"),
    ];
    private.extend(["log", "spec.json", "supervisor.json"].map(|name| run_dir.join(name)));
    for path in private.iter().filter(|path| path.exists()) {
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={}", bob.uid), format!("--regid={}", bob.gid)]).arg("--clear-groups").arg("cat").arg(path);
        let output = command.output().unwrap();
        assert!(!output.status.success(), "{} can be read by anybody", path.display());
    }
    assert!(!bob.json(&daemon, &["show", "--json", &running.to_string()]).to_string().contains("of-ann"));
    // Her own are hers, and an administrator's.
    assert!(ann.call(&daemon, &["logs", &running.to_string()]).status().unwrap().success());
    assert!(ann.call(&daemon, &["cancel", &running.to_string()]).status().unwrap().success());
    daemon.ok(&["cancel", &waiting.to_string()]);
    assert_eq!(daemon.wait_one(waiting)["state"], "cancelled");
    // A finished job is not anybody's to repeat.
    let said = refused(1, &mut bob.call(&daemon, &["retry", &waiting.to_string()]));
    assert!(said.contains("belongs to nobody"), "{said}");
}

#[test]
fn one_user_cannot_use_up_the_share_of_another() {
    let Some((mut daemon, ann, bob)) = shared("a100:3", "[users.default]\ngpus = 2\njobs = 4\n[users.quota.root]\n") else {
        return;
    };
    let greedy = (0..4).map(|_| ann.submit(&daemon, &[], "sleep 600")).collect::<Vec<_>>();
    let said = refused(1, &mut ann.call(&daemon, &["submit", "--", "true"]));
    assert!(said.contains("has 4 jobs in the queue, and may have 4"), "{said}");
    let said = refused(2, &mut bob.call(&daemon, &["submit", "-g", "3", "--", "true"]));
    assert!(said.contains("the 2 that daemon may have"), "{said}");
    let states = |daemon: &Daemon| greedy.iter().map(|id| daemon.state_of(*id)).collect::<Vec<_>>();
    daemon.until_state(greedy[1], "running");
    let why = daemon.explain(greedy[2]);
    assert_eq!(why["blockers"][0]["kind"], "quota", "{why:#}");
    let id = bob.submit(&daemon, &[], "true");
    assert_eq!(daemon.wait_one(id)["state"], "done", "there is a GPU for him");
    assert_eq!(states(&daemon), ["running", "running", "waiting", "waiting"]);
    // The same after a restart, and the share is used in full.
    daemon.restart();
    daemon.ok(&["cancel", &greedy[0].to_string()]);
    daemon.until_state(greedy[2], "running");
    assert_eq!(daemon.state_of(greedy[3]), "waiting");
    daemon.kill();
    crate::live::kill(daemon.supervisor(greedy[1]), rustix::process::Signal::KILL);
    crate::live::kill(daemon.supervisor(greedy[2]), rustix::process::Signal::KILL);
    daemon.up();
    daemon.until_state(greedy[3], "running");
}

#[test]
fn a_daemon_with_the_rights_of_its_unit_runs_and_ends_jobs_of_others() {
    let unit = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd/rota.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    let dropped = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=~")).unwrap();
    let dropped = dropped.split_whitespace().map(|name| format!("-{}", name.trim_start_matches("CAP_").to_lowercase()));
    let Some((mut daemon, ann, _)) = shared("a100:2", "") else { return };
    daemon.kill();
    let bounding = dropped.collect::<Vec<_>>().join(",");
    let files = unit.lines().find_map(|line| line.strip_prefix("LimitNOFILE=")).unwrap();
    // Where the tests run they may have fewer themselves, and not be able to raise that.
    let (soft, hard) = files.split_once(':').unwrap();
    let own = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let hard = hard.parse::<u64>().unwrap().min(own);
    daemon.start_by(&["prlimit", &format!("--nofile={soft}:{hard}"), "setpriv", &format!("--bounding-set={bounding}")]);
    daemon.up();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", daemon.pid())).unwrap();
    assert_eq!(limits_in(&limits, "Max open files"), (hard.to_string(), hard.to_string()), "the daemon raises its own limit");
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap();
    let rights = status.lines().find_map(|line| line.strip_prefix("CapEff:\t")).unwrap();
    assert_eq!(u64::from_str_radix(rights, 16).unwrap() >> 22 & 1, 0, "it could restart the machine: {rights}");
    let id = ann.submit(&daemon, &[], "id -u; grep NoNewPrivs /proc/self/status");
    assert_eq!(daemon.wait_one(id)["state"], "done");
    assert_eq!(daemon.log(id), format!("{}\nNoNewPrivs:\t1\n", ann.uid));
    let long = ann.submit(&daemon, &[], "sleep 600");
    daemon.until_state(long, "running");
    daemon.restart();
    daemon.ok(&["cancel", &long.to_string()]);
    assert_eq!(daemon.wait_one(long)["state"], "cancelled");
}

/// The line of `/proc/PID/limits` about a resource: soft and hard.
fn limits_in(log: &str, resource: &str) -> (String, String) {
    let line = log.lines().find(|line| line.starts_with(resource)).unwrap_or_else(|| panic!("no {resource} in {log}"));
    let words = line[resource.len()..].split_whitespace().collect::<Vec<_>>();
    (words[0].to_owned(), words[1].to_owned())
}

#[test]
fn a_job_has_the_limits_of_the_shell_that_it_was_submitted_from_and_none_above_the_daemons() {
    let Some((mut daemon, ann, _)) = shared("a100:2", "") else { return };
    daemon.kill();
    daemon.start_by(&["prlimit", "--nofile=900:4000", "--core=77:99000", "--cpu=unlimited:unlimited"]);
    daemon.up();
    let submit = |limits: &[&str]| {
        let call = ann.call(&daemon, &["submit", "--json", "--", "cat", "/proc/self/limits"]);
        let mut command = Command::new("prlimit");
        command.args(limits).arg(call.get_program()).args(call.get_args()).current_dir("/").env_clear();
        command.envs(call.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let id = serde_json::from_slice::<Value>(&output.stdout).unwrap()["id"].as_u64().unwrap();
        assert_eq!(daemon.wait_one(id)["state"], "done", "{:#}", daemon.show(id));
        daemon.log(id)
    };
    let own = ["nofile=111:222", "core=0:4096", "stack=1048576:2097152", "memlock=65536:131072", "nproc=5000:6000"];
    let more = ["fsize=1048576:2097152", "cpu=1000:2000", "as=4294967296:8589934592"];
    let own = own.iter().chain(&more).map(|limit| format!("--{limit}")).collect::<Vec<_>>();
    let log = submit(&own.iter().map(String::as_str).collect::<Vec<_>>());
    let names =
        ["open files", "core file size", "stack size", "locked memory", "processes", "file size", "cpu time", "address space"];
    for (name, limit) in names.iter().zip(&own) {
        let (soft, hard) = limits_in(&log, &format!("Max {name}"));
        assert!(limit.ends_with(&format!("={soft}:{hard}")), "{name}: {soft}:{hard} is not {limit}");
    }
    let log = submit(&["--nofile=4100:4200", "--core=100000:200000"]);
    assert_eq!(limits_in(&log, "Max open files"), ("4000".to_owned(), "4000".to_owned()), "not above the daemon's");
    assert_eq!(limits_in(&log, "Max core file size"), ("99000".to_owned(), "99000".to_owned()), "not above the daemon's");
    // A caller that names no limits gets those that the daemon was started with.
    let (status, answer) = daemon.post("/api/v1/jobs", br#"{"command": ["cat", "/proc/self/limits"], "cwd": "/"}"#);
    assert_eq!(status, 201, "{answer}");
    let id = serde_json::from_str::<Value>(&answer).unwrap()["ids"][0].as_u64().unwrap();
    daemon.wait_one(id);
    assert_eq!(limits_in(&daemon.log(id), "Max open files"), ("900".to_owned(), "4000".to_owned()));
    let (status, answer) = daemon.post("/api/v1/jobs", br#"{"command": ["true"], "cwd": "/", "rlimits": "files=1:2"}"#);
    assert!(status == 400 && answer.contains("nofile, nproc"), "{status} {answer}");
}
