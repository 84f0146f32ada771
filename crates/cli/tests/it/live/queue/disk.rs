//! A full disk: nothing more is taken in, nothing that runs is harmed, and all goes on when there is room again.

use crate::live::{Daemon, is_root, line_of, until};
use serde_json::json;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A file system of a few MiB, for as long as it is looked at.
struct Small(PathBuf);

impl Small {
    fn mount(path: &Path) -> Option<Self> {
        std::fs::create_dir_all(path).unwrap();
        let mounted = std::process::Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(path).status();
        mounted.is_ok_and(|status| status.success()).then(|| Self(path.to_owned()))
    }

    /// Fills it to the last byte.
    fn fill(&self) {
        let mut file = File::options().create(true).append(true).open(self.0.join("ballast")).unwrap();
        for size in [64 << 10, 4096, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
    }

    /// Fills it, but for so many pages.
    fn fill_but(&self, pages: u64) {
        self.fill();
        let ballast = File::options().write(true).open(self.0.join("ballast")).unwrap();
        // The last page is not whole: it goes first.
        let whole = ballast.metadata().unwrap().len().div_ceil(4096);
        ballast.set_len((whole - pages) * 4096).unwrap();
    }

    fn free(&self) {
        std::fs::remove_file(self.0.join("ballast")).unwrap();
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        _ = std::process::Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// Submits jobs until the daemon refuses one: the jobs it took, and its refusal. `SQLite` may have room left in files it has already.
fn submit_until_refused(daemon: &Daemon) -> (Vec<u64>, String) {
    let mut accepted = Vec::new();
    loop {
        let output = daemon.rota(&["submit", "--", "sh", "-c", &"true;".repeat(2000)]);
        match output.status.code() {
            Some(0) => accepted.push(String::from_utf8(output.stdout).unwrap().trim().parse::<u64>().unwrap()),
            code => {
                assert_eq!(code, Some(1));
                return (accepted, String::from_utf8(output.stderr).unwrap());
            }
        }
        assert!(accepted.len() < 1000, "the disk is not full");
    }
}

/// It is long because it is one account: the disk fills up, jobs are cancelled, the daemon is killed and started, and there is room again.
#[test]
fn a_full_disk_stops_intake_and_harms_nothing_that_runs() {
    if !is_root() {
        eprintln!("only root can make a small disk: not tested");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let Some(disk) = Small::mount(&state) else {
        eprintln!("no file system can be mounted here: not tested");
        return;
    };
    let mut daemon = Daemon::at(folder, state, &["--virtual-gpus", "a100:4"], "", &[]);
    daemon.up();
    let go = daemon.file("go");
    let mut running = Vec::new();
    for (number, end) in ["exit 0", "exit 7", "kill -9 $$"].iter().enumerate() {
        let mark = daemon.file(&format!("mark-{number}"));
        running.push(daemon.shell(
            &[],
            &format!(
                "echo ran >> '{}'; while [ ! -e '{}' ]; do sleep 0.02; done; echo more; {end}",
                mark.display(),
                go.display()
            ),
        ));
        line_of(&mark);
    }
    let cancelled = daemon.shell(&["--grace", "0.1"], "sleep 600");
    daemon.until_state(cancelled, "running");
    let mark = daemon.file("mark-waiting");
    let waiting = daemon.shell(&[], &format!("echo ran >> '{}'", mark.display()));
    let waiting_too = daemon.shell(&["--hold"], "true");
    disk.fill();
    let (mut accepted, said) = submit_until_refused(&daemon);
    assert!(said.contains("is full") && said.contains("running jobs go on"), "{said}");
    assert!(daemon.ok(&["status"]).contains("WARNING"));
    std::fs::write(&go, "").unwrap();
    // They end while nothing can be written of it.
    for (id, code) in running.iter().zip([Some(0), Some(7), None]) {
        let dir = daemon.run_dir(*id, 1);
        until("it has ended", || matches!(rota_exec::adopt(&dir), Ok(rota_exec::Adopted::Ended(exit)) if exit.code == code));
    }
    // Stopping needs no room: the job may be the one that filled the disk.
    daemon.ok(&["cancel", &cancelled.to_string()]);
    let dir = daemon.run_dir(cancelled, 1);
    until("it was stopped", || matches!(rota_exec::adopt(&dir), Ok(rota_exec::Adopted::Ended(exit)) if exit.code.is_none()));
    assert_eq!(daemon.state_of(cancelled), "stopping", "its end cannot be written yet");
    let unstarted = daemon.rota(&["cancel", &waiting_too.to_string()]);
    assert!(unstarted.status.success(), "{}", String::from_utf8_lossy(&unstarted.stderr));
    daemon.ok(&["queue"]);
    disk.free();
    let jobs = daemon.wait(&running);
    let endings =
        jobs.iter().map(|job| json!([job["state"], job["exit_code"], job["signal"], job["attempts"]])).collect::<Vec<_>>();
    assert_eq!(endings, [json!(["done", 0, null, 1]), json!(["failed", 7, null, 1]), json!(["failed", null, 9, 1])]);
    accepted.push(waiting);
    assert!(daemon.wait(&accepted).iter().all(|job| job["state"] == "done"), "the queue goes on by itself");
    let cancelled = daemon.wait(&[cancelled, waiting_too]);
    assert!(
        cancelled.iter().all(|job| job["state"] == "cancelled" && job["reason"].as_str().unwrap().contains("cancelled")),
        "{cancelled:#?}"
    );
    assert_eq!(std::fs::read_to_string(&mark).unwrap(), "ran\n");
    until("the warning is gone", || !daemon.ok(&["status"]).contains("WARNING"));
    until("what was done meanwhile is written down", || {
        let store = rusqlite::Connection::open(daemon.state.join("rota.db")).unwrap();
        let waiting: u64 = store.query_row("SELECT count(*) FROM jobs WHERE finished_ns IS NULL", [], |row| row.get(0)).unwrap();
        waiting == 0
    });
    // The same across a restart with a full disk: the daemon is there, says so, and can be asked to stop what runs.
    let after = daemon.shell(&["--hold"], "true");
    let running = daemon.shell(&["--grace", "0.1"], "sleep 600");
    daemon.until_state(running, "running");
    let before = daemon.json(&["queue", "--all", "--json"]).as_array().unwrap().len();
    disk.fill();
    daemon.kill();
    daemon.up();
    until("it says so", || {
        let status = daemon.ok(&["status"]);
        status.contains("WARNING") && status.contains("is full")
    });
    assert_eq!((daemon.state_of(after), daemon.state_of(running)), ("held".to_owned(), "running".to_owned()));
    assert_eq!(daemon.json(&["queue", "--all", "--json"]).as_array().unwrap().len(), before, "the past can be read");
    daemon.ok(&["cancel", &running.to_string()]);
    let dir = daemon.run_dir(running, 1);
    until("it was stopped", || matches!(rota_exec::adopt(&dir), Ok(rota_exec::Adopted::Ended(_))));
    disk.free();
    assert_eq!(daemon.wait_one(running)["state"], "cancelled");
    assert_eq!(daemon.state_of(after), "held");
    until("the disk is not full any more", || !daemon.ok(&["status"]).contains("is full"));
    daemon.kill();
    let store = rusqlite::Connection::open(daemon.state.join("rota.db")).unwrap();
    let health: String = store.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(health, "ok");
}

#[test]
fn a_daemon_starts_on_a_full_disk_with_a_database_that_came_back_alone() {
    if !is_root() {
        eprintln!("only root can make a small disk: not tested");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let Some(disk) = Small::mount(&state) else {
        eprintln!("no file system can be mounted here: not tested");
        return;
    };
    let mut daemon = Daemon::at(folder, state, &["--virtual-gpus", "a100:2"], "", &[]);
    daemon.up();
    let running = daemon.shell(&["--grace", "0.1"], "sleep 600");
    let held = daemon.shell(&["--hold"], "true");
    daemon.until_state(running, "running");
    daemon.ok(&["down"]);
    assert!(daemon.ended().success());
    // A backup is the database alone. The files by which several programs share it are made when it is opened, for which there is no room.
    for name in ["rota.db-shm", "rota.db-wal"] {
        _ = std::fs::remove_file(daemon.state.join(name));
    }
    disk.fill();
    daemon.up();
    let status = daemon.ok(&["status"]);
    assert!(status.contains("started on a full disk") && status.contains("is full"), "{status}");
    assert_eq!((daemon.state_of(running), daemon.state_of(held)), ("running".to_owned(), "held".to_owned()));
    let refused = daemon.refusal(1, &["submit", "--", "true"]);
    assert!(refused.contains("is full"), "{refused}");
    daemon.ok(&["cancel", &running.to_string()]);
    let dir = daemon.run_dir(running, 1);
    until("it was stopped", || matches!(rota_exec::adopt(&dir), Ok(rota_exec::Adopted::Ended(_))));
    disk.free();
    assert_eq!(daemon.wait_one(running)["state"], "cancelled");
    let after = daemon.shell(&[], "true");
    assert_eq!(daemon.wait_one(after)["state"], "done", "the queue goes on by itself");
    daemon.restart();
    assert!(!daemon.ok(&["status"]).contains("WARNING"), "other programs can read the store again");
    assert_eq!(daemon.state_of(running), "cancelled");
}

#[test]
fn a_job_that_finds_the_disk_full_when_it_starts_waits_for_room_and_runs_then() {
    if !is_root() {
        eprintln!("only root can make a small disk: not tested");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    // Only run directories are on the small disk: the daemon can write down that it starts the job.
    let Some(disk) = Small::mount(&state.join("jobs")) else {
        eprintln!("no file system can be mounted here: not tested");
        return;
    };
    let mut daemon = Daemon::at(folder, state, &["--virtual-gpus", "a100:4"], "", &[]);
    daemon.up();
    // Each time the disk is full at another step of the start.
    for pages in 0..6 {
        disk.fill_but(pages);
        let mark = daemon.file(&format!("mark-{pages}"));
        let job = daemon.shell(&[], &format!("echo ran >> '{}'", mark.display()));
        until("it waits with a reason, or has run", || {
            let shown = daemon.show(job);
            assert_ne!(shown["state"], "failed", "{pages} pages: {shown:#}");
            let is_told = shown["reason"].as_str().is_some_and(|reason| reason.contains("No space left on device"));
            shown["state"] == "done" || (shown["state"] == "waiting" && is_told)
        });
        disk.free();
        let ended = daemon.wait_one(job);
        assert_eq!((&ended["state"], &ended["exit_code"]), (&json!("done"), &json!(0)), "{pages} pages: {ended:#}");
        assert_eq!(std::fs::read_to_string(&mark).unwrap(), "ran\n", "{pages} pages");
    }
}
