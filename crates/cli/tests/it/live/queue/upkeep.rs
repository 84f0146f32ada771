//! Backups, older databases, and damaged ones: no job is taken for another, and no job runs twice without a person's word.

use crate::live::{Daemon, until};
use serde_json::{Value, json};
use std::path::Path;

/// What `rota check` says, whether or not it found something.
fn check(daemon: &Daemon) -> Value {
    serde_json::from_slice(&daemon.rota(&["check", "--json"]).stdout).unwrap()
}

fn copy(daemon: &Daemon, name: &str) -> String {
    let path = daemon.file(name);
    daemon.ok(&["backup", path.to_str().unwrap()]);
    path.to_str().unwrap().to_owned()
}

fn down(daemon: &mut Daemon) {
    daemon.ok(&["down"]);
    assert!(daemon.ended().success());
}

#[test]
fn a_backup_of_a_running_daemon_brings_everything_back() {
    let mut daemon = Daemon::start("a100:2");
    let done = daemon.shell(&[], "echo from-before");
    daemon.wait(&[done]);
    let runs = daemon.shell(&[], "sleep 600");
    let held = daemon.submit(&["--hold", "--name", "kept", "--", "true"]);
    daemon.until_state(runs, "running");
    let file = copy(&daemon, "backup.db");
    assert!(daemon.refusal(2, &["backup", &file]).contains("is there already"));
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&file).unwrap());
    assert_eq!(mode & 0o077, 0, "a backup holds environments");
    assert_eq!(check(&daemon)["findings"], json!([]));
    assert!(daemon.refusal(1, &["restore", &file]).contains("a daemon already runs"));
    down(&mut daemon);
    std::fs::write(daemon.state.join("rota.db"), "not a database at all, for a whole page".repeat(200)).unwrap();
    let junk = daemon.file("junk");
    std::fs::write(&junk, "not a database either").unwrap();
    assert!(daemon.refusal(2, &["restore", junk.to_str().unwrap()]).contains("is not a database of Rota's"));
    let said = daemon.ok(&["restore", &file]);
    assert!(said.contains("is kept as") && !said.contains("drained"), "{said}");
    daemon.up();
    assert_eq!((daemon.state_of(runs).as_str(), daemon.state_of(held).as_str()), ("running", "held"));
    assert_eq!(daemon.show(runs)["attempts"], 1, "it was adopted");
    assert!(daemon.log(done).contains("from-before"));
}

#[test]
fn after_a_clean_end_the_database_file_alone_is_whole() {
    let mut daemon = Daemon::start("a100:1");
    let id = daemon.submit(&["--", "true"]);
    daemon.wait(&[id]);
    down(&mut daemon);
    std::fs::copy(daemon.state.join("rota.db"), daemon.file("copy.db")).unwrap();
    let store = rusqlite::Connection::open(daemon.file("copy.db")).unwrap();
    let state: String = store.query_row("SELECT state FROM jobs WHERE id = ?1", [id], |row| row.get(0)).unwrap();
    assert_eq!(state, "done");
}

#[test]
fn an_older_database_makes_no_job_into_another() {
    let mut daemon = Daemon::start("a100:2");
    let first = daemon.shell(&["--hold"], "echo the-first >> ran");
    let file = copy(&daemon, "early.db");
    daemon.ok(&["release", &first.to_string()]);
    let second = daemon.shell(&["--env", "SECRET=of-the-second"], "echo old-output; exit 3");
    daemon.wait(&[first, second]);
    let runs = daemon.shell(&[], "sleep 600");
    daemon.until_state(runs, "running");
    let supervisor = daemon.supervisor(runs);
    down(&mut daemon);
    let restored: Value = daemon.json(&["restore", "--json", &file]);
    assert_eq!(restored["drained"], true, "{restored:#}");
    let told = restored["checked"]["findings"].to_string();
    assert!(told.contains("was started before") && told.contains(&format!("supervisor {supervisor}")), "{told}");
    daemon.up();
    assert!(daemon.ok(&["status"]).contains("WARNING"), "an older database is not silent");
    daemon.ok(&["release", &first.to_string()]);
    // A new job does not get the number, the output or the end of the one that the database has forgotten.
    let new = daemon.shell(&[], "echo new-output");
    assert!(new > runs, "numbers go on above what is on the disk: {new}");
    assert_eq!(daemon.state_of(first), "waiting", "nothing runs a second time before somebody has looked");
    daemon.ok(&["cancel", &first.to_string()]);
    daemon.ok(&["resume"]);
    let job = daemon.wait_one(new);
    assert_eq!((&job["state"], daemon.log(new).as_str()), (&json!("done"), "new-output\n"));
    assert_eq!(std::fs::read_to_string(daemon.file("ran")).unwrap(), "the-first\n");
}

#[test]
fn a_database_that_was_moved_away_leaves_no_old_run_to_be_adopted() {
    let mut daemon = Daemon::start("a100:2");
    let old = daemon.shell(&[], "echo old-output");
    daemon.wait(&[old]);
    down(&mut daemon);
    std::fs::remove_file(daemon.state.join("rota.db")).unwrap();
    daemon.up();
    assert!(daemon.ok(&["status"]).contains("older than they are, or was begun anew"));
    let new = daemon.shell(&[], "echo new-output");
    assert_eq!(daemon.wait_one(new)["state"], "done");
    assert!(new > old);
    assert_eq!(daemon.log(new), "new-output\n");
    assert!(check(&daemon)["findings"].to_string().contains("are not in the database"));
}

#[test]
fn a_write_ahead_file_that_is_lost_is_told_and_makes_no_new_queue_of_an_old_one() {
    let mut daemon = Daemon::start("a100:1");
    let before = daemon.shell(&[], "true");
    assert_eq!(daemon.wait_one(before)["state"], "done");
    daemon.kill();
    for name in ["rota.db-wal", "rota.db-shm"] {
        std::fs::remove_file(daemon.state.join(name)).unwrap();
    }
    daemon.up();
    let status = daemon.ok(&["status"]);
    assert!(status.contains("WARNING") && status.contains("run directories up to job 1"), "{status}");
    let after = daemon.shell(&[], "echo of the second");
    assert!(after > before, "its number is not given again");
    assert_eq!((daemon.wait_one(after)["state"].as_str(), daemon.log(after).as_str()), (Some("done"), "of the second\n"));
}

#[test]
fn the_run_of_a_forgotten_attempt_is_not_the_next_one() {
    // The database says that the job waits; its first attempt ran, and its directory is there.
    let mut daemon = Daemon::start("a100:1");
    let id = daemon.shell(&["--hold"], "echo run >> ran; echo output-$ROTA_ATTEMPT");
    let file = copy(&daemon, "early.db");
    daemon.ok(&["release", &id.to_string()]);
    daemon.wait(&[id]);
    down(&mut daemon);
    daemon.ok(&["restore", &file]);
    daemon.up();
    daemon.ok(&["resume"]);
    daemon.ok(&["release", &id.to_string()]);
    daemon.wait(&[id]);
    assert_eq!(std::fs::read_to_string(daemon.file("ran")).unwrap(), "run\nrun\n", "it ran again, as was asked");
    let kept = std::fs::read_dir(daemon.run_dir(id, 1).parent().unwrap()).unwrap().flatten();
    let kept = kept.filter(|entry| entry.file_name().to_string_lossy().contains(".before-")).count();
    assert_eq!(kept, 1, "what the forgotten run left is kept");
}

#[test]
fn one_row_that_cannot_be_read_hides_no_other() {
    let mut daemon = Daemon::start("a100:1");
    let ids = [0, 1, 2].map(|_| daemon.submit(&["--", "true"]));
    daemon.wait(&ids);
    let held = [0, 1].map(|_| daemon.submit(&["--hold", "--", "true"]));
    down(&mut daemon);
    let store = rusqlite::Connection::open(daemon.state.join("rota.db")).unwrap();
    store.execute("UPDATE jobs SET spec = '{' WHERE id IN (?1, ?2)", [ids[1], held[0]]).unwrap();
    store.execute("DELETE FROM images", []).unwrap();
    drop(store);
    let checked = check(&daemon);
    let named = |id: u64| checked["findings"].as_array().unwrap().iter().any(|finding| finding["job"] == id);
    assert!(named(ids[1]) && named(held[0]) && !named(ids[0]), "{checked:#}");
    daemon.up();
    assert!(daemon.ok(&["status"]).contains(&format!("the row of job {} cannot be read", held[0])));
    let listed = daemon.json(&["queue", "--all", "--json"]);
    let listed = listed.as_array().unwrap().iter().map(|job| job["id"].as_u64().unwrap()).collect::<Vec<_>>();
    for id in [ids[0], ids[2], held[1]] {
        assert!(listed.contains(&id), "{listed:?}");
    }
    daemon.ok(&["release", &held[1].to_string()]);
    until("the queue goes on", || daemon.state_of(held[1]) == "done");
}

#[test]
fn check_tells_a_run_directory_that_is_gone_or_of_another_run() {
    let mut daemon = Daemon::start("a100:2");
    let ids = [0, 1].map(|_| daemon.shell(&[], "sleep 600"));
    for id in &ids {
        daemon.until_state(*id, "running");
    }
    let supervisors = ids.map(|id| daemon.supervisor(id));
    daemon.kill();
    for pid in supervisors {
        crate::live::kill(pid, rustix::process::Signal::KILL);
        until("it is gone", || !crate::live::is_alive(pid));
    }
    let away = daemon.file("away");
    std::fs::rename(daemon.run_dir(ids[0], 1), &away).unwrap();
    let checked = check(&daemon);
    let findings = checked["findings"].as_array().unwrap();
    let of = |id: u64| findings.iter().find(|finding| finding["job"] == id).unwrap()["what"].as_str().unwrap().to_owned();
    assert!(of(ids[0]).contains("no run directory"), "{checked:#}");
    assert!(of(ids[1]).contains("gone without a record"), "{checked:#}");
    // The directory of the second in the place of the first.
    copy_dir(&daemon.run_dir(ids[1], 1), &daemon.run_dir(ids[0], 1));
    assert!(check(&daemon)["findings"].to_string().contains("of another run"));
    daemon.up();
    let states = daemon.wait(&ids).iter().map(|job| job["state"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(states, ["lost", "lost"]);
    std::fs::rename(&away, daemon.state.join("jobs").join("of-the-test")).unwrap();
}

fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}
