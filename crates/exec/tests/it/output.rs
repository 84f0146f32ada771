//! What jobs write.

use std::fmt::Write;

use rota_exec::{Cause, taken};

use crate::support::{Place, end_of, is_root};

#[test]
fn both_outputs_are_in_the_log_in_order() {
    let place = Place::new();
    place.run(&place.shell("echo one; echo two >&2; echo three; pwd >&2"));
    assert_eq!(place.log(), format!("one\ntwo\nthree\n{}\n", place.path().display()));
}

#[test]
fn fifty_megabytes_are_rotated_without_losing_a_byte() {
    let place = Place::new();
    let mut spec = place.spec(&["seq", "6500000"]);
    spec.log_bytes_max = 4_000_000;
    spec.log_files_max = 100;
    let record = place.run(&spec);
    assert_eq!((record.code, record.log_lost_bytes), (Some(0), 0));
    let mut whole = Vec::new();
    let parts = (0..100)
        .rev()
        .filter_map(|age| std::fs::read(place.dir().join(if age == 0 { "log".to_owned() } else { format!("log.{age}") })).ok());
    for part in parts {
        assert!(part.len() <= 4_000_000 && part.ends_with(b"\n"));
        whole.extend(part);
    }
    let mut expected = String::new();
    for number in 1..=6_500_000 {
        writeln!(expected, "{number}").unwrap();
    }
    assert!(whole == expected.as_bytes(), "{} bytes instead of {}", whole.len(), expected.len());
}

#[test]
fn a_log_that_is_there_is_continued() {
    let place = Place::new();
    let mut spec = place.shell("echo new");
    spec.log = place.path().join("mine.txt");
    std::fs::write(&spec.log, "old\n").unwrap();
    place.run(&spec);
    assert_eq!(std::fs::read_to_string(&spec.log).unwrap(), "old\nnew\n");
}

#[test]
fn a_job_that_closes_its_output_runs_on_and_costs_nothing() {
    let place = Place::new();
    let fifo = place.fifo("go");
    let supervisor = place.launch(&place.shell("echo before; exec >&- 2>&-; echo $$ > closed; read line < go; exit 5"));
    place.line("closed");
    let ticks = || -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", supervisor.identity().pid)).unwrap();
        stat.split(' ').skip(13).take(2).map(|field| field.parse::<u64>().unwrap()).sum()
    };
    let before = ticks();
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(ticks() - before <= 2, "a closed pipe must not keep the supervisor busy");
    std::fs::write(fifo, "go\n").unwrap();
    end_of(&supervisor);
    assert_eq!((place.record().code, place.log().as_str()), (Some(5), "before\n"));
}

#[test]
fn a_stranger_who_holds_the_output_is_not_waited_for() {
    let place = Place::new();
    let fifo = place.fifo("go");
    let supervisor = place.launch(&place.shell("echo $$ > pid; echo said; read line < go"));
    let pid = place.pid("pid");
    // Opened through /proc: a writer outside the job's tree.
    let held = std::fs::OpenOptions::new().write(true).open(format!("/proc/{pid}/fd/1")).unwrap();
    std::fs::write(fifo, "go\n").unwrap();
    end_of(&supervisor);
    assert_eq!((place.record().code, place.log().as_str()), (Some(0), "said\n"));
    drop(held);
}

/// A file system of a few pages, unmounted when dropped.
struct TinyDisk<'a>(&'a std::path::Path);

impl<'a> TinyDisk<'a> {
    fn mount(at: &'a std::path::Path, size: &str) -> Option<Self> {
        let mounted = is_root()
            && std::process::Command::new("mount")
                .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
                .arg(at)
                .stderr(std::process::Stdio::null())
                .status()
                .is_ok_and(|status| status.success());
        if !mounted {
            eprintln!("skipped: mounting a tiny file system needs root");
        }
        mounted.then(|| Self(at))
    }
}

impl Drop for TinyDisk<'_> {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_loses_output_but_neither_job_nor_status() {
    let place = Place::new();
    let Some(_disk) = TinyDisk::mount(place.path(), "128k") else { return };
    let mut spec = place.shell("head -c 1000000 /dev/zero; exit 6");
    spec.log_bytes_max = 50_000;
    spec.log_files_max = 1000;
    let record = place.run(&spec);
    assert_eq!((record.code, record.cause), (Some(6), Cause::Exited));
    let kept: u64 = std::fs::read_dir(place.dir())
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_name().to_str().unwrap().starts_with("log"))
        .map(|entry| entry.metadata().unwrap().len())
        .sum();
    assert!(record.log_lost_bytes > 800_000, "{record:?}");
    // What is kept beyond the output are the lines that tell of the loss.
    assert!(kept + record.log_lost_bytes >= 1_000_000 && kept + record.log_lost_bytes < 1_005_000, "{kept} kept, {record:?}");
}

#[test]
fn nothing_starts_on_a_disk_too_full_for_its_status() {
    let place = Place::new();
    let Some(_disk) = TinyDisk::mount(place.path(), "16k") else { return };
    let mut spec = place.shell("touch /proc/self/cwd/started");
    // Fits, and then there is no room for the record.
    spec.env.push(("FILL".into(), "x".repeat(9000).into()));
    let supervisor = place.launch(&spec);
    end_of(&supervisor);
    match rota_exec::adopt(&place.dir()) {
        Ok(rota_exec::Adopted::NeverStarted) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(taken(&place.dir()).unwrap(), None);
    assert!(!place.path().join("started").exists());
}
