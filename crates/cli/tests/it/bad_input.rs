//! Bad input gets a message that names file, line, column and what would be right, exit code 2, and leaves nothing behind.

use crate::rota::{files, json, refusal, rota};
use std::fs;
use std::io::{Seek, SeekFrom, Write};
use tempfile::TempDir;

const HEADER: &str = "arrival_s,gpus,duration_s";

/// Simulates a trace with this content and returns the refusal; nothing may be left in the output folder.
fn refused(content: &[u8]) -> String {
    let folder = TempDir::new().unwrap();
    let trace = folder.path().join("jobs.csv");
    fs::write(&trace, content).unwrap();
    let out = folder.path().join("out");
    let args =
        ["sim", "--trace", trace.to_str().unwrap(), "--cluster", "a100:8", "--policy", "fcfs", "--out", out.to_str().unwrap()];
    let message = refusal(&args);
    assert_eq!(files(&out), [], "something was half written");
    message
}

fn line(second_line: &str) -> String {
    refused(format!("{HEADER}\n0,1,10\n{second_line}\n").as_bytes())
}

fn assert_has(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "no `{part}` in: {message}");
    }
}

#[test]
fn cells_that_cannot_be() {
    assert_has(&line("1,1"), &["jobs.csv:3", "column"]);
    assert_has(&line("1,1,10,4"), &["jobs.csv:3", "column"]);
    assert_has(&line("soon,1,10"), &["jobs.csv:3", "arrival_s", "soon"]);
    assert_has(&line("1,two,10"), &["jobs.csv:3", "gpus", "two"]);
    assert_has(&line("1,0,10"), &["jobs.csv:3", "gpus"]);
    assert_has(&line("1,-1,10"), &["jobs.csv:3", "gpus", "-1"]);
    assert_has(&line("1,99999999999999999999,10"), &["jobs.csv:3", "gpus"]);
    assert_has(&line("1,1,-5"), &["jobs.csv:3", "duration_s", "-5"]);
    assert_has(&line("1,1,NaN"), &["jobs.csv:3", "duration_s", "NaN"]);
    assert_has(&line("1,1,inf"), &["jobs.csv:3", "duration_s", "inf"]);
    assert_has(&line("1,1,1e300"), &["jobs.csv:3", "duration_s", "1e300"]);
}

#[test]
fn files_that_are_no_trace() {
    assert_has(&refused(b""), &["jobs.csv", "empty"]);
    assert_has(&refused(format!("{HEADER}\n").as_bytes()), &["jobs.csv"]);
    assert_has(&refused(b"\x1f\x8b\x08\x00rest"), &["jobs.csv", "gzip", "gunzip"]);
    assert_has(&refused(b"\x00\x01\x02\x03\xff\xfe"), &["jobs.csv", "not text"]);
    assert_has(&refused(b"to be or not to be\nthat is the question\n"), &["jobs.csv", "--format"]);
    let folder = TempDir::new().unwrap();
    let path = folder.path().to_str().unwrap();
    assert_has(&refusal(&["sim", "--trace", path, "--cluster", "a100:8", "--policy", "fcfs"]), &[path, "directory"]);
    assert_has(&refusal(&["sim", "--trace", "no-such.csv", "--cluster", "a100:8", "--policy", "fcfs"]), &["no-such.csv"]);
    assert_has(&refusal(&["trace", "info", "README.md"]), &["README.md", "--format"]);
}

#[test]
fn a_line_of_two_gigabytes_is_refused_without_reading_it_all() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("long.csv");
    // A hole in the file: two gigabytes of nothing, which take no room on disk.
    let mut file = fs::File::create(&path).unwrap();
    file.write_all(format!("{HEADER}\n0,1,10\n1,1,").as_bytes()).unwrap();
    file.write_all(&vec![b'7'; 2 << 20]).unwrap();
    file.seek(SeekFrom::Start(2 << 30)).unwrap();
    file.write_all(b"\n").unwrap();
    let message = refusal(&["sim", "--trace", path.to_str().unwrap(), "--cluster", "a100:8", "--policy", "fcfs"]);
    assert_has(&message, &["long.csv:3", "line"]);
}

#[test]
fn arrivals_that_go_back() {
    assert_has(&refused(format!("{HEADER}\n5,1,10\n4,1,10\n").as_bytes()), &["jobs.csv:3", "arrival_s", "4", "5"]);
}

#[test]
fn jobs_that_do_not_fit_the_cluster() {
    assert_has(&line("1,9,10"), &["jobs.csv:3", "gpus", "gang of 9", "8 a100", "--skip-bad"]);
    let unknown_type = refused(b"arrival_s,gpus,duration_s,gpu_type\n0,1,10,z9000\n");
    assert_has(&unknown_type, &["jobs.csv:2", "gpu_type", "z9000", "a100"]);
    let unknown_job_type = refused(b"arrival_s,gpus,steps,job_type\n0,1,10,Perceptron\n");
    assert_has(&unknown_job_type, &["jobs.csv:2", "job_type", "Perceptron"]);
    let memory = refused(b"arrival_s,gpus,duration_s,memory_mib\n0,1,10,99999\n");
    assert_has(&memory, &["jobs.csv:2", "memory_mib", "99999", "40960"]);
}

#[test]
fn skip_bad_counts_what_it_skips() {
    let folder = TempDir::new().unwrap();
    let trace = folder.path().join("jobs.csv");
    fs::write(&trace, format!("{HEADER}\n0,1,10\n1,x,10\n2,9,10\n3,1,10\n")).unwrap();
    let args = ["sim", "--trace", trace.to_str().unwrap(), "--cluster", "a100:8", "--policy", "fcfs", "--skip-bad", "--json"];
    let output = rota(&args);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_has(&stderr, &["skipped 1 bad lines", "jobs.csv:3", "skipped 1 bad jobs", "gang of 9"]);
    assert_eq!(json(&args)["jobs"], 2);
}

#[test]
fn clusters_and_policies_that_are_none() {
    let sim = |cluster: &str, policy: &str| {
        refusal(&["sim", "--trace", "scenarios/teaching-four.csv", "--cluster", cluster, "--policy", policy])
    };
    assert_has(&sim("a100:0", "fcfs"), &["a100:0", "no GPU"]);
    assert_has(&sim("a100", "fcfs"), &["a100", "TYPE:COUNT"]);
    assert_has(&sim("missing.toml", "fcfs"), &["missing.toml"]);
    assert_has(&sim("a100:8", "fcsf"), &["unknown policy `fcsf`", "`fcfs`"]);
    assert_has(&sim("a100:8", "rr:quantom=3"), &["no parameter `quantom`", "`quantum`"]);
    assert_has(&sim("a100:8", "rr:quantum=-3"), &["quantum", "-3"]);
}

#[test]
fn folders_that_cannot_be_written() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "in the way").unwrap();
    let out = file.join("out");
    let args = [
        "sim",
        "--trace",
        "scenarios/teaching-four.csv",
        "--cluster",
        "t4:2",
        "--policy",
        "fcfs",
        "--out",
        out.to_str().unwrap(),
    ];
    assert_has(&refusal(&args), &["cannot write to the folder", "out", "--out"]);
    let csv = out.join("jobs.csv");
    let args = [
        "sim",
        "--trace",
        "scenarios/teaching-four.csv",
        "--cluster",
        "t4:2",
        "--policy",
        "fcfs",
        "--jobs-csv",
        csv.to_str().unwrap(),
    ];
    assert_has(&refusal(&args), &["cannot write", "jobs.csv"]);
}

#[test]
fn flags_that_make_no_sense() {
    let sim = |flag: &str, value: &str| {
        refusal(&["sim", "--trace", "scenarios/teaching-four.csv", "--cluster", "t4:2", "--policy", "fcfs", flag, value])
    };
    assert_has(&sim("--round", "0"), &["--round", "number from"]);
    assert_has(&sim("--restart-cost", "NaN"), &["--restart-cost"]);
    assert_has(&sim("--window", "5:2"), &["--window", "FIRST:LAST"]);
    assert_has(&sim("--window", "0:99"), &["--window", "0 to 3"]);
    assert_has(&sim("--mechanism", "magic"), &["--mechanism", "event", "rounds"]);
}
