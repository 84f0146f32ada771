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

#[test]
fn deadlines_that_were_over_before_the_job_came() {
    let deadline = |arrival: &str, deadline: &str| {
        refused(format!("arrival_s,duration_s,deadline_s\n0,10,100\n{arrival},10,{deadline}\n").as_bytes())
    };
    assert_has(&deadline("50", "40"), &["jobs.csv:3", "deadline_s", "40 s is not after 50 s"]);
    assert_has(&deadline("50", "50"), &["jobs.csv:3", "deadline_s", "50 s is not after 50 s"]);
    assert_has(&deadline("50", "-1"), &["jobs.csv:3", "deadline_s", "-1"]);
    let toml = refused(b"[[job]]\narrival_s = 5\nduration_s = 3\ndeadline_s = 4\n");
    assert_has(&toml, &["jobs.csv:1", "deadline_s", "4 s is not after 5 s"]);
}

#[test]
fn prices_that_cannot_be() {
    let folder = TempDir::new().unwrap();
    let priced = |name: &str, content: &str| {
        let prices = folder.path().join(name);
        fs::write(&prices, content).unwrap();
        let trace = "scenarios/teaching-four.csv";
        refusal(&["sim", "--trace", trace, "--cluster", "t4:2", "--policy", "fcfs", "--prices", prices.to_str().unwrap()])
    };
    let row = |row: &str| priced("prices.csv", &format!("time_s,gpu_type,usd_per_gpu_hour\n10,t4,1\n{row}\n"));
    assert_has(&row("20,t4,-1"), &["prices.csv:3", "usd_per_gpu_hour", "-1"]);
    assert_has(&row("20,t4,NaN"), &["prices.csv:3", "usd_per_gpu_hour", "NaN"]);
    assert_has(&row("20,t5,1"), &["prices.csv:3", "gpu_type", "`t5`", "t4"]);
    assert_has(&row("5,t4,1"), &["prices.csv:3", "time_s", "5 s does not come after 10 s"]);
    assert_has(&row("soon,t4,1"), &["prices.csv:3", "time_s", "soon"]);
    assert_has(&priced("prices.toml", "[usd_per_gpu_hour]\nt4 = -2\n"), &["prices.toml:2", "t4", "-2"]);
    assert_has(&priced("prices.toml", "[usd_per_gpu_hour]\nv100 = 2\n"), &["prices.toml", "t4", "every GPU type of the cluster"]);
    assert_has(&priced("prices.csv", ""), &["prices.csv", "empty"]);
    let missing =
        ["sim", "--trace", "scenarios/teaching-four.csv", "--cluster", "t4:2", "--policy", "fcfs", "--prices", "no.csv"];
    assert_has(&refusal(&missing), &["no.csv", "no such file"]);
}

/// Simulates jobs in steps with a throughput table of this content.
fn refused_table(name: &str, content: &str) -> String {
    let folder = TempDir::new().unwrap();
    let (table, trace) = (folder.path().join(name), folder.path().join("jobs.csv"));
    fs::write(&table, content).unwrap();
    fs::write(&trace, "arrival_s,gpus,steps,job_type\n0,1,10,net\n").unwrap();
    let files = [table.to_str().unwrap(), trace.to_str().unwrap()];
    refusal(&["sim", "--throughputs", files[0], "--trace", files[1], "--cluster", "v100:2", "--policy", "fcfs"])
}

#[test]
fn throughput_tables_that_cannot_be() {
    let speeds =
        |rows: &str| refused_table("speeds.csv", &format!("job_type,gpus,with_job_type,v100\nnet,1,,10\nlm,1,,6\n{rows}\n"));
    assert_has(&speeds("cnn,1,,NaN"), &["speeds.csv:4", "v100", "NaN"]);
    assert_has(&speeds("cnn,1,,-1"), &["speeds.csv:4", "v100", "-1", "out of range"]);
    assert_has(&speeds("cnn,1,,inf"), &["speeds.csv:4", "v100", "inf"]);
    assert_has(&speeds("net,1,,11"), &["speeds.csv:4", "v100", "`11` contradicts `10`"]);
    assert_has(&speeds("net,1,lm,5\nlm,1,net,3\nnet,1,lm,4"), &["speeds.csv:6", "v100", "`4` contradicts `5`"]);
    assert_has(&speeds("net,1,lm,5\nlm,1,net,3\nlm,1,net,2"), &["speeds.csv:6", "v100", "`2` contradicts `3`"]);
    assert_has(&speeds("net,1,cnn,5\ncnn,1,net,3"), &["speeds.csv:4", "v100", "cnn", "speed alone"]);
    let toml = "[[speed]]\njob_type = 'net'\nsteps_per_second.v100 = 10\n[[speed]]\njob_type = 'lm'\nsteps_per_second.v100 = 6\n\
                [[pair]]\njob_types = ['net', 'lm']\nsteps_per_second.v100 = [5, 3]\n\
                [[pair]]\njob_types = ['lm', 'net']\nsteps_per_second.v100 = [5, 3]\n";
    assert_has(&refused_table("speeds.toml", toml), &["speeds.toml:10", "v100", "[5, 3]", "contradicts `[3, 5]`"]);
    let json = r#"{"v100": {"('net', 1)": {"null": 1, "('lm', 1)": [3, 2]}, "('lm', 1)": {"null": 1, "('net', 1)": [3, 2]}}}"#;
    assert_has(&refused_table("speeds.json", json), &["speeds.json", "v100", "('lm', 1)", "contradicts"]);
    let zeros = refused_table("speeds.csv", "job_type,gpus,v100,p100\nnet,1,0,0\nlm,1,0,\n");
    assert_has(&zeros, &["speeds.csv", "every speed is 0"]);
    let zero = refused_table("speeds.csv", "job_type,gpus,v100,p100\nnet,1,0,0\nlm,1,1,1\n");
    assert_has(&zero, &["jobs.csv:2", "net", "speeds.csv"]);
    let no_type = refused_table("speeds.csv", "job_type,gpus,p100\nnet,1,3\n");
    assert_has(&no_type, &["jobs.csv:2", "net", "speeds.csv"]);
    assert_has(&refused_table("speeds.csv", "job_type,gpus\nnet,1\n"), &["speeds.csv:1", "a column", "GPU type"]);
}

#[test]
fn observations_that_cannot_be_estimated_from() {
    let folder = TempDir::new().unwrap();
    let table = folder.path().join("table.csv");
    let pairs = "a,1,a,5\na,1,b,4\nb,1,a,3\nb,1,b,2";
    fs::write(&table, format!("job_type,gpus,with_job_type,v100\na,1,,10\nb,1,,6\n{pairs}\n")).unwrap();
    let table = table.to_str().unwrap();
    let estimate = |rows: &str| {
        let observed = folder.path().join("observed.csv");
        fs::write(&observed, rows).unwrap();
        refusal(&["throughputs", "estimate", "--table", table, "--observed", observed.to_str().unwrap()])
    };
    let header = "job_type,gpus,with_job_type,v100\nnew,1,,8";
    assert_has(&estimate(&format!("{header}\nnew,1,a,NaN\n")), &["observed.csv:3", "v100", "NaN"]);
    assert_has(&estimate(&format!("{header}\na,1,,11\n")), &["observed.csv:3", "v100", "`11` contradicts `10`"]);
    assert_has(&estimate(&format!("{header}\na,1,b,4\nb,1,a,1\n")), &["observed.csv:3", "v100", "contradicts"]);
    assert_has(&estimate(&format!("{header}\nnew,1,a,5\n")), &["observed.csv:3", "a (1 GPU) beside new (1 GPU)", "missing"]);
    assert_has(&estimate("job_type,gpus,t4\nnew,1,8\n"), &["observed.csv", "`t4` is not a GPU type", "table.csv", "v100"]);
    assert_has(&estimate("job_type,gpus,v100\na,1,10\n"), &["observed.csv", "a job type that the table does not know"]);
    assert_has(&estimate("job_type,gpus,v100\nnew,2,10\n"), &["table.csv", "pairs of at least two job types"]);
    let holed = folder.path().join("holed.csv");
    fs::write(&holed, "job_type,gpus,with_job_type,v100,p100\na,1,,10,\nb,1,,6,3\na,1,a,5,\na,1,b,4,\nb,1,a,3,\nb,1,b,2,1\n")
        .unwrap();
    let message = refusal(&["throughputs", "estimate", "--table", holed.to_str().unwrap()]);
    assert_has(&message, &["holed.csv", "p100", "`a` with 1 GPUs", "every GPU type"]);
    assert_has(&refusal(&["throughputs", "convert", table, "-o", "x.txt"]), &["x.txt", ".csv, .toml or .json"]);
}

#[test]
fn entities_that_make_no_sense_are_refused() {
    let folder = TempDir::new().unwrap();
    let (trace, cluster) = (folder.path().join("jobs.csv"), folder.path().join("cluster.toml"));
    fs::write(&trace, "arrival_s,gpus,duration_s,user\n0,1,10,ada\n").unwrap();
    let with = |entity: &str| {
        fs::write(&cluster, format!("[[node]]\nname = \"a\"\ngpus = \"a100:8\"\n{entity}")).unwrap();
        refusal(&["sim", "--trace", trace.to_str().unwrap(), "--cluster", cluster.to_str().unwrap(), "--policy", "hierarchical"])
    };
    assert_has(&with("[[entity]]\nname = \"bob\""), &["entity `bob`", "no job of that user", "`ada`"]);
    assert_has(&with("[[entity]]\nname = \"ada\"\nweight = 0"), &["entity `ada`", "above 0"]);
    assert_has(&with("[[entity]]\nname = \"ada\"\nweight = nan"), &["entity `ada`", "above 0"]);
    assert_has(&with("[[entity]]\nname = \"ada\"\n[[entity]]\nname = \"ada\""), &["entity `ada`", "twice"]);
    assert_has(&with("[[entity]]\nname = \"ada\"\nrule = \"lottery\""), &["fairness", "fifo"]);
}

#[test]
fn share_policies_refuse_solvers_and_modes_they_do_not_have() {
    let folder = TempDir::new().unwrap();
    let trace = folder.path().join("jobs.csv");
    fs::write(&trace, "arrival_s,gpus,duration_s\n0,1,10\n").unwrap();
    let with = |more: &[&str]| {
        let mut args = vec!["sim", "--trace", trace.to_str().unwrap(), "--cluster", "a100:8"];
        args.extend(more);
        refusal(&args)
    };
    assert_has(&with(&["--policy", "max-min-perf:solver=simplex"]), &["solver", "price, interior"]);
    assert_has(&with(&["--policy", "max-min-perf", "--ideal"]), &["--ideal", "--mechanism gavel"]);
    assert_has(&with(&["--policy", "max-min-perf", "--mechanism", "gavel", "--solver", "price"]), &["interior"]);
}
