//! `rota whatif` on traces: fidelity, alternatives, the page, and what cannot be meant.

use crate::rota::{json, refusal, stdout};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;

/// What the answer says of a past whose starts are not recorded.
const ASSUMED: &str = " All of it is simulated: it is not recorded when jobs started, and the past goes by `fcfs:backfill=easy`, \
                       which is assumed to have run (`--ran` names another).";

/// What `sacct -P` prints of jobs that a scheduler ran in order of arrival on four GPUs, over eight days.
fn sacct(path: &Path) {
    let mut text = "JobID|User|Account|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|AllocTRES\n".to_owned();
    let mut free = [0_u64; 4];
    let stamp = |second: u64| {
        let (day, second) = (1 + second / 86_400, second % 86_400);
        format!("2026-03-{day:02}T{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
    };
    let mut last_start = 0;
    for job in 0..400_u64 {
        let submit = job * 1700 + job * job % 900;
        let length = 600 + job * 7919 % 9000;
        free.sort_unstable();
        let start = submit.max(free[0]).max(last_start);
        (free[0], last_start) = (start + length, start);
        let user = ["ada", "bob", "cy"][job as usize % 3];
        // Memory takes everything.
        _ = writeln!(
            text,
            "{job}|{user}|lab|COMPLETED|{}|{}|{}|{length}|300|gres/gpu=1,gres/gpu:a100=1",
            stamp(submit),
            stamp(start),
            stamp(start + length)
        );
    }
    std::fs::write(path, text).unwrap();
}

#[test]
fn a_recorded_log_is_repeated_and_alternatives_are_compared_with_intervals() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, page) = (folder.path().join("sacct.txt"), folder.path().join("whatif.html"));
    sacct(&trace);
    let (trace, page_name) = (trace.display().to_string(), page.display().to_string());
    let words = [
        "whatif",
        "--trace",
        &trace,
        "--cluster",
        "a100:4",
        "--policy",
        "sjf:estimates=history",
        "--add",
        "a100:2",
        "--remove",
        "a100:1",
        "--arrivals",
        "1.1",
        "--quota",
        "1",
        "--sharing",
        "off",
        "-o",
        &page_name,
        "--json",
    ];
    let said: Value = json(&words);
    let fidelity = &said["fidelity"];
    assert_eq!((fidelity["jobs"].as_u64(), fidelity["start_order"].as_f64()), (Some(400), Some(1.0)), "{fidelity:#}");
    assert!(fidelity["error_of_waits"].as_f64().unwrap() < 0.01, "{fidelity:#}");
    let alternatives = said["alternatives"].as_array().unwrap();
    let names = alternatives.iter().map(|one| one["name"].as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(
        names,
        ["as it was", "sjf:estimates=history", "+a100:2", "-a100:1", "arrivals x 1.1", "quota of 1 GPU a user", "no GPU shared"]
    );
    let change = |place: usize| alternatives[place]["wait_change"].clone();
    let more = change(2);
    assert!(more["low_s"].as_f64() < more["mean_s"].as_f64() && more["high_s"].as_f64().unwrap() < 0.0, "{more}");
    for worse in [3, 4, 5] {
        assert!(change(worse)["mean_s"].as_f64().unwrap() > 0.0, "{}: {}", names[worse], change(worse));
    }
    assert_eq!(change(6)["mean_s"], 0.0, "nobody shared");
    for one in alternatives {
        assert!(one["jct_mean_s"].is_f64() && one["completed"] == 400 && one["policy"].is_string(), "{one:#}");
    }
    let answer = said["answer"].as_str().unwrap();
    assert!(answer.starts_with("+a100:2: the mean wait would have been "), "{answer}");
    let html = std::fs::read_to_string(page).unwrap();
    let body = &html[html.find("<body>").unwrap()..];
    assert!(body.trim_start_matches("<body>").trim_start().starts_with(&format!("<h1>{answer}</h1>")), "the answer comes first");
    assert!(html.contains("<svg") && html.contains("no GPU shared"));
}

#[test]
fn all_changes_can_be_made_together_under_each_policy() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("sacct.txt");
    sacct(&trace);
    let trace = trace.display().to_string();
    let words = [
        "whatif",
        "--trace",
        &trace,
        "--cluster",
        "a100:4",
        "--policy",
        "fcfs",
        "--policy",
        "las",
        "--add",
        "node:1",
        "--arrivals",
        "1.5",
        "--together",
    ];
    let text = stdout(&words);
    for name in ["fcfs, +node:1, arrivals x 1.5", "las, +node:1, arrivals x 1.5", "100.0 % of all pairs of 400 jobs"] {
        assert!(text.contains(name), "{text}");
    }
    assert!(text.lines().any(|line| line.starts_with("Replayed under fcfs:backfill=easy, 100.0 % of all pairs")), "{text}");
}

#[test]
fn a_trace_without_starts_says_that_nothing_is_known_of_the_fit() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("jobs.csv");
    std::fs::write(&trace, "arrival_s,duration_s,gpus\n0,100,1\n1,100,1\n2,100,1\n").unwrap();
    let words = ["whatif", "--trace", trace.to_str().unwrap(), "--cluster", "gpu:1", "--json"];
    let said: Value = json(&words);
    assert!(said["fidelity"].is_null(), "{said:#}");
    let alternatives = said["alternatives"].as_array().unwrap();
    assert!(alternatives.len() >= 6, "the usual ones");
    assert!(alternatives.iter().all(|one| one["wait_change"]["low_s"].is_null()), "three jobs have no interval");
    assert!(alternatives.iter().any(|one| one["wait_change"]["mean_s"].as_f64().unwrap() < 0.0), "{said:#}");
    let answer = format!("The past is too short to tell which alternative is better; the mean wait was 99.0 s.{ASSUMED}");
    assert_eq!(said["answer"], answer);
    let page = folder.path().join("whatif.html");
    let text = stdout(&[&words[..words.len() - 1], &["-o", page.to_str().unwrap()]].concat());
    assert!(text.starts_with(&answer) && text.contains("-66.3 s"), "{text}");
    assert!(std::fs::read_to_string(page).unwrap().contains(&format!("<h1>{answer}</h1>")));
}

#[test]
fn what_cannot_be_meant_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("jobs.csv");
    std::fs::write(&trace, "arrival_s,duration_s,gpus\n0,100,2\n").unwrap();
    let trace = trace.to_str().unwrap();
    let fails = |words: &[&str], says: &str| {
        let said = refusal(&[&["whatif", "--trace", trace], words].concat());
        assert!(said.contains(says), "{words:?}: {said}");
    };
    fails(&[], "--cluster");
    fails(&["--cluster", "gpu:2", "--policy", "nonsense"], "nonsense");
    fails(&["--cluster", "gpu:2", "--remove", "gpu:2"], "no GPU would be left");
    fails(&["--cluster", "gpu:2", "--remove", "gpu:1"], "-gpu:1: no job can run: ");
    fails(&["--cluster", "gpu:2", "--remove", "gpu:1"], "jobs.csv:2: job 0: gpus: a gang of 2 does not fit the cluster");
    fails(&["--cluster", "gpu:2", "--remove", "node:1"], "takes 1 node from 1;");
    fails(&["--cluster", "gpu:2", "--add", "nosuchtype:3"], "--add: `nosuchtype` is not a known GPU type: the cluster has gpu, ");
    fails(&["--cluster", "gpu:2", "--quota", "2"], "jobs.csv has a user, so that a quota for each user means nothing");
    fails(&["--cluster", "gpu:2", "--together"], "--together: give the changes to make at once");
    fails(&["--cluster", "gpu:2", "--together", "--policy", "las"], "--together: give the changes to make at once");
    fails(&["--cluster", "gpu:2", "--quota", "1", "--quota", "2", "--together"], "--together: --quota can be given only once");
    fails(&["--cluster", "gpu:2", "--sharing", "on", "--sharing", "off", "--together"], "--sharing can be given only once");
    fails(&["--cluster", "gpu:2", "--add", "gpu"], "TYPE:COUNT");
    fails(&["--cluster", "gpu:2", "--sharing", "on"], "how much memory");
    fails(&["--cluster", "gpu:2", "--arrivals", "0"], "--arrivals");
    fails(&["--cluster", "gpu:2", "--power-cap", "100"], "was not measured");
}

/// Writes a trace, and gives the options that name it and its GPUs.
fn trace(folder: &Path, text: &str, cluster: &str) -> Vec<String> {
    let path = folder.join("jobs.csv");
    std::fs::write(&path, text).unwrap();
    ["whatif", "--trace", path.to_str().unwrap(), "--cluster", cluster].map(str::to_owned).to_vec()
}

/// The words of a call.
fn words<'a>(given: &'a [String], more: &[&'a str]) -> Vec<&'a str> {
    given.iter().map(String::as_str).chain(more.iter().copied()).collect()
}

/// Eight days of jobs of two users on four GPUs; every tenth asks for all four.
fn some_wide() -> String {
    let row = |job: u64| {
        let (gpus, user) = (if job % 10 == 3 { 4 } else { 1 }, ["ada", "bob"][job as usize % 2]);
        format!("{},{},{gpus},{user}\n", job * 1700, 2500 + job * 7919 % 3000)
    };
    std::iter::once("arrival_s,duration_s,gpus,user\n".to_owned()).chain((0..400).map(row)).collect()
}

/// The alternative of this name.
fn named<'a>(said: &'a Value, name: &str) -> &'a Value {
    said["alternatives"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap()
}

#[test]
fn dropping_wide_jobs_is_no_improvement() {
    let folder = tempfile::tempdir().unwrap();
    let given = trace(folder.path(), &some_wide(), "a100:4");
    let said: Value = json(&words(&given, &["--remove", "a100:1", "--quota", "2", "--json"]));
    let every = format!("Every alternative leaves out jobs, so that none is an answer; the mean wait was 19.9 min.{ASSUMED}");
    assert_eq!(said["answer"], every, "{said:#}");
    assert_eq!(named(&said, "as it was")["jobs_left_out"], 0);
    for name in ["-a100:1", "quota of 2 GPUs a user"] {
        let one = named(&said, name);
        assert_eq!((one["jobs_left_out"].as_u64(), one["completed"].as_u64()), (Some(40), Some(360)), "{one:#}");
        assert!(one["wait_change"]["high_s"].as_f64().unwrap() < 0.0, "the narrow jobs wait less: {one:#}");
    }
    let text = stdout(&words(&given, &["--remove", "a100:1", "--quota", "2", "--add", "a100:1"]));
    assert!(text.starts_with("+a100:1: the mean wait would have been "), "{text}");
    for part in [
        "-a100:1 (without 40 jobs)",
        "quota of 2 GPUs a user (without 40 jobs)",
        "-a100:1: 40 jobs cannot run and are left out; the first is ",
        "jobs.csv:5: job 3: gpus: a gang of 4 does not fit the cluster",
        "40 jobs ask for more GPUs than the quota and are left out",
        "is compared by the jobs that are left, and is never the answer",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // The figure of the first line is that of the table.
    let figure = text.split("would have been ").nth(1).unwrap().split(" instead").next().unwrap();
    let row = text.lines().find(|line| line.starts_with("+a100:1  ")).unwrap();
    assert_eq!(row.split("  ").filter(|cell| !cell.is_empty()).nth(1).unwrap().trim(), figure, "{text}");
}

#[test]
fn one_wide_job_is_left_out_in_the_singular() {
    let folder = tempfile::tempdir().unwrap();
    let rows = "arrival_s,duration_s,gpus,user\n0,100,2,ada\n1,100,1,ada\n2,100,1,bob\n";
    let given = trace(folder.path(), rows, "gpu:2");
    let text = stdout(&words(&given, &["--remove", "gpu:1", "--quota", "1"]));
    for part in [
        "-gpu:1 (without 1 job) ",
        "quota of 1 GPU a user (without 1 job) ",
        "-gpu:1: 1 job cannot run and is left out",
        "quota of 1 GPU a user: 1 job asks for more GPUs than the quota and is left out",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // As it was, both narrow jobs wait for the wide one: 99 s and 98 s. On one GPU the second waits for the first.
    let said: Value = json(&words(&given, &["--remove", "gpu:1", "--json"]));
    let one = named(&said, "-gpu:1");
    assert_eq!((one["wait_mean_s"].as_f64(), one["wait_change"]["mean_s"].as_f64()), (Some(49.5), Some(49.5 - 98.5)), "{one:#}");
    let alone = trace(folder.path(), "arrival_s,duration_s,gpus\n0,100,1\n", "gpu:1");
    assert!(stdout(&words(&alone, &["--add", "gpu:1"])).contains("\n1 job from "));
}

#[test]
fn jobs_that_wait_for_a_job_that_is_left_out_wait_for_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let rows = "id,arrival_s,duration_s,gpus,after\n1,0,100,2,\n2,1,500,1,\n3,2,100,1,1:any\n4,3,100,1,1\n5,4,100,1,\n";
    let given = trace(folder.path(), rows, "gpu:2");
    let said: Value = json(&words(&given, &["--remove", "gpu:1", "--add", "gpu:2", "--json"]));
    let one = named(&said, "-gpu:1");
    assert_eq!((one["jobs_left_out"].as_u64(), one["completed"].as_u64()), (Some(2), Some(3)), "{one:#}");
    // Jobs 2, 3 and 5 run one after the other on one GPU.
    assert_eq!(one["wait_mean_s"].as_f64(), Some((0.0 + 499.0 + 597.0) / 3.0), "{one:#}");
}

#[test]
fn jobs_that_run_only_with_more_gpus_do_not_change_the_comparison() {
    let folder = tempfile::tempdir().unwrap();
    let rows = "arrival_s,duration_s,gpus\n0,100,1\n1,100,1\n2,100,3\n3,100,1\n";
    let given = trace(folder.path(), rows, "gpu:2");
    let said: Value = json(&words(&given, &["--add", "gpu:2", "--policy", "las", "--json"]));
    let (base, more) = (named(&said, "as it was"), named(&said, "+gpu:2"));
    assert_eq!((more["jobs_left_out"].as_u64(), more["completed"].as_u64()), (Some(0), Some(4)), "{more:#}");
    let [was, mean, change] =
        [&base["wait_mean_s"], &more["wait_mean_s"], &more["wait_change"]["mean_s"]].map(|one| one.as_f64().unwrap());
    assert!((was + change - mean).abs() < 1e-9, "{said:#}");
    let notes = said["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap()).collect::<Vec<_>>();
    assert!(notes.contains(&"+gpu:2: 1 job that cannot run as it was starts here, and counts in no wait"), "{notes:#?}");
    let left_out = notes.iter().filter(|note| note.contains("1 job cannot run and is left out")).count();
    assert_eq!(left_out, 1, "said of the past, and not again of each alternative: {notes:#?}");
}

#[test]
fn a_mean_wait_is_of_jobs_that_started() {
    let folder = tempfile::tempdir().unwrap();
    // The first job fails; the second waits for its success and never starts.
    let rows = "id,arrival_s,duration_s,gpus,after,fails_at_s\n1,0,100,1,,50\n2,40,100,1,1,\n3,45,100,1,,\n";
    let given = trace(folder.path(), rows, "gpu:1");
    let said: Value = json(&words(&given, &["--add", "gpu:1", "--json"]));
    let base = named(&said, "as it was");
    assert_eq!(base["wait_mean_s"].as_f64(), Some(2.5), "no wait and five seconds: {said:#}");
    assert!(said["answer"].as_str().unwrap().ends_with(&format!("the mean wait was 2.5 s.{ASSUMED}")), "{said:#}");
    let note = "as it was: 1 job never starts and counts in no wait";
    assert!(said["notes"].as_array().unwrap().iter().any(|one| one == note), "{said:#}");
    assert_eq!(named(&said, "+gpu:1")["jobs_left_out"], 0);
}

#[test]
fn a_past_that_cannot_run_says_why_as_the_simulator_does() {
    let folder = tempfile::tempdir().unwrap();
    for (rows, why) in [
        ("id,arrival_s,duration_s,gpus,after\n1,0,100,1,2\n2,1,100,1,1\n", "jobs.csv:2: job 1: after: it waits for itself"),
        ("id,arrival_s,steps,gpus,job_type\n1,0,100,1,nonsense\n", "jobs.csv:2: job 1: job_type: no throughput for `nonsense`"),
        ("id,arrival_s,duration_s,gpus\n1,0,100,3\n", "jobs.csv:2: job 1: gpus: a gang of 3 does not fit the cluster"),
    ] {
        let said = refusal(&words(&trace(folder.path(), rows, "a100:2"), &[]));
        assert!(said.contains("as it was: no job can run: ") && said.contains(why), "{said}");
    }
}

#[test]
fn a_usual_alternative_that_no_job_fits_is_not_compared() {
    let folder = tempfile::tempdir().unwrap();
    let given = trace(folder.path(), "arrival_s,duration_s,gpus\n0,100,2\n1,100,2\n", "gpu:2");
    let said: Value = json(&words(&given, &["--json"]));
    let notes = said["notes"].as_array().unwrap();
    assert!(notes.iter().any(|note| note.as_str().unwrap().starts_with("not compared: -gpu:1: no job can run: ")), "{said:#}");
    assert!(named(&said, "+gpu:1")["wait_mean_s"].is_f64());
}

#[test]
fn a_page_that_cannot_be_written_is_refused_before_the_work() {
    let folder = tempfile::tempdir().unwrap();
    // A trace that is not there is found when the work begins.
    let missing = folder.path().join("missing.csv").display().to_string();
    let page = folder.path().join("nowhere/whatif.html").display().to_string();
    for page in [page.as_str(), folder.path().to_str().unwrap()] {
        let said = refusal(&["whatif", "--trace", &missing, "--cluster", "gpu:1", "-o", page]);
        assert!(said.contains(&format!("cannot write `{page}`")), "{said}");
        let said = refusal(&["predict", "--score", "--trace", &missing, "--cluster", "gpu:1", "--csv", page]);
        assert!(said.contains(&format!("cannot write `{page}`")), "{said}");
    }
    // Nothing is left of a page whose work failed.
    let page = folder.path().join("whatif.html").display().to_string();
    refusal(&["whatif", "--trace", &missing, "--cluster", "gpu:1", "-o", &page]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
#[cfg(target_os = "linux")]
fn the_table_is_printed_even_if_the_page_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let given = trace(folder.path(), "arrival_s,duration_s,gpus\n0,100,1\n1,100,1\n", "gpu:1");
    let output = crate::rota::rota(&words(&given, &["--add", "gpu:1", "-o", "/dev/full"]));
    let [text, said] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("cannot write `/dev/full`") && text.contains("as it was"), "{said}\n{text}");
}

#[test]
fn the_speed_on_a_type_that_no_job_ran_on_is_said_to_be_assumed() {
    let folder = tempfile::tempdir().unwrap();
    let given = trace(folder.path(), "arrival_s,duration_s,gpus\n0,100,1\n1,100,1\n", "a100:1");
    let note = "no job of this past ran on h100: jobs whose length is given as time are taken to be as fast there as on a100";
    assert!(stdout(&words(&given, &["--add", "h100:1"])).contains(note));
    assert!(!stdout(&words(&given, &["--add", "a100:1"])).contains("no job of this past ran"));
}

#[test]
fn a_moment_that_cannot_be_read_comes_with_examples() {
    let said = refusal(&["whatif", "--since", "the other day"]);
    assert!(said.contains("is not a moment; write ") && said.contains("yesterday, 2026-11-16,"), "{said}");
}

#[test]
fn lengths_are_those_on_the_gpus_that_the_jobs_had() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sacct.txt");
    sacct(&file);
    let cluster = folder.path().join("cluster.toml");
    let slow = "[[gpu_type]]\nname = \"mine\"\nmemory_mib = 24576\nidle_watts = 20\nfull_watts = 320\nusd_per_hour = 0.4\nspeed = 0.5\n[[node]]\nname = \"a\"\ngpus = \"mine:4\"\n";
    let log = std::fs::read_to_string(&file).unwrap().replace("a100", "mine");
    std::fs::write(&file, log).unwrap();
    std::fs::write(&cluster, slow).unwrap();
    let (file, cluster) = (file.display().to_string(), cluster.display().to_string());
    let said: Value = json(&["whatif", "--trace", &file, "--cluster", &cluster, "--policy", "las", "--json"]);
    let fidelity = &said["fidelity"];
    assert!(fidelity["error_of_waits"].as_f64().unwrap() < 0.01, "{fidelity:#}");
}

#[test]
fn intervals_do_not_depend_on_the_zero_of_the_trace() {
    let folder = tempfile::tempdir().unwrap();
    let interval = |zero: u64| {
        let row = |job: u64| format!("{},{},1\n", zero + job * 300, 600 + job * 7919 % 900);
        let rows = std::iter::once("arrival_s,duration_s,gpus\n".to_owned()).chain((0..100).map(row)).collect::<String>();
        let said: Value = json(&words(&trace(folder.path(), &rows, "gpu:2"), &["--policy", "sjf", "--json"]));
        named(&said, "sjf")["wait_change"].clone()
    };
    assert!(interval(0)["low_s"].is_f64(), "{}", interval(0));
    assert_eq!(interval(0), interval(5_000_000));
}

#[test]
fn what_is_assumed_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let given = trace(folder.path(), &some_wide(), "gpu:4");
    let text = stdout(&words(&given, &["--policy", "sjf", "--policy", "lag-history", "--policy", "sjf:estimates=history"]));
    for part in [
        "\nthe trace has no estimates: `fcfs:backfill=easy`, `sjf` know the true lengths\n",
        "\nno figures for GPU type gpu: power taken as 30 W idle, 300 W full; no price\n",
        " times, and each restart costs 0 s (`--restart-cost`)",
        "It goes by `fcfs:backfill=easy`, which is assumed to have run",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_deadline_moves_with_the_arrival_of_its_job() {
    let folder = tempfile::tempdir().unwrap();
    let rows = "arrival_s,duration_s,gpus,deadline_s\n0,600,1,\n1000,100,1,1150\n";
    let given = trace(folder.path(), rows, "gpu:1");
    let said: Value = json(&words(&given, &["--arrivals", "2", "--arrivals", "0.5", "--json"]));
    let missed = |name: &str| named(&said, name)["slo_violations"].as_u64();
    assert_eq!(missed("as it was"), Some(0));
    // The second job comes after 500 s, is due after 650 s, and ends after 700 s.
    assert_eq!(missed("arrivals x 2"), Some(1), "{said:#}");
    // It comes after 2,000 s and ends after 2,100 s; it is due after 2,150 s.
    assert_eq!(missed("arrivals x 0.5"), Some(0), "{said:#}");
}

#[test]
fn a_note_that_is_true_of_several_alternatives_is_said_once() {
    let folder = tempfile::tempdir().unwrap();
    let rows = "arrival_s,duration_s,gpus,memory_mib\n0,1000,1,30000\n1,10,1,30000\n";
    let given = trace(folder.path(), rows, "a100:1");
    let together = ["--policy", "srtf", "--policy", "fcfs", "--sharing", "on", "--together", "--json"];
    let said: Value = json(&words(&given, &together));
    let notes = said["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap()).collect::<Vec<_>>();
    let shared = notes.iter().filter(|note| note.starts_with("GPUs shared by memory: ")).count();
    assert_eq!(shared, 1, "{notes:#?}");
    assert!(notes.iter().any(|note| note.contains("jobs are stopped for others 1 time, and")), "{notes:#?}");
}
