//! `rota sweep`: the same bytes on any number of threads, and resumed where it stopped.

use crate::rota::{files, refusal, rota, stdout};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const GRID: &[&str] = &[
    "sweep",
    "--policies",
    "fcfs,lottery,las",
    "--clusters",
    "gpu:16;gpu:32",
    "--rates",
    "4,8",
    "--jobs",
    "60",
    "--seeds",
    "0,1",
];

fn sweep(out: &Path, more: &[&str]) {
    let out = out.to_str().unwrap();
    stdout(&GRID.iter().copied().chain(["--out", out]).chain(more.iter().copied()).collect::<Vec<_>>());
}

fn results(out: &Path) -> String {
    fs::read_to_string(out.join("results.csv")).unwrap()
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let folders = ["1", "2", "8"].map(|threads| {
        let folder = TempDir::new().unwrap();
        sweep(folder.path(), &["--jobs-parallel", threads]);
        folder
    });
    let results = folders.each_ref().map(|folder| results(folder.path()));
    assert_eq!(results[0].lines().count(), 1 + 3 * 2 * 2 * 2);
    assert!(results[0] == results[1] && results[0] == results[2]);
    let names = files(folders[0].path()).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert!(names.iter().any(|name| name.starts_with("jct-against-load-cluster-0.svg")), "{names:?}");
    let page = fs::read_to_string(folders[0].path().join("report.html")).unwrap();
    for words in ["mean JCT (", "jobs per hour", "aria-sort", "class=\"verdict\""] {
        assert!(page.contains(words), "{words} is not in the report");
    }
}

#[test]
fn an_interrupted_sweep_goes_on_where_it_stopped() {
    let folder = TempDir::new().unwrap();
    sweep(folder.path(), &[]);
    let whole = results(folder.path());
    // As a kill would leave it: some rows noted, the last one torn.
    let progress = fs::read_to_string(folder.path().join("progress.csv")).unwrap();
    let mut lines = progress.lines().take(10).collect::<Vec<_>>();
    lines.push("23,gpu:32,60,8");
    let lines = lines.join("\n");
    fs::write(folder.path().join("progress.csv"), lines).unwrap();
    fs::remove_file(folder.path().join("results.csv")).unwrap();
    let output = rota(&["sweep", "--resume", "--out", folder.path().to_str().unwrap()]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("10 of 24 runs were done before"));
    assert_eq!(results(folder.path()), whole);
}

#[test]
fn folders_are_not_mixed_up() {
    let folder = TempDir::new().unwrap();
    sweep(folder.path(), &[]);
    let out = folder.path().to_str().unwrap();
    let again = GRID.iter().copied().chain(["--out", out]).collect::<Vec<_>>();
    assert!(refusal(&again).contains("already holds a sweep"));
    let other = ["sweep", "--policies", "sjf", "--clusters", "gpu:16", "--rates", "4", "--out", out, "--resume"];
    assert!(refusal(&other).contains("other settings"));
    let empty = TempDir::new().unwrap();
    assert!(refusal(&["sweep", "--resume", "--out", empty.path().to_str().unwrap()]).contains("no sweep to resume"));
}

#[test]
fn a_file_says_what_to_sweep() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("out");
    stdout(&["sweep", "scenarios/sweep-small.toml", "--jobs", "40", "--out", out.to_str().unwrap()]);
    assert!(results(&out).lines().count() > 4);
    let bad = folder.path().join("bad.toml");
    fs::write(&bad, "policies = ['fcfs']\nclusters = ['gpu:4']\nrate = [3]\n").unwrap();
    let message = refusal(&["sweep", bad.to_str().unwrap(), "--out", folder.path().join("x").to_str().unwrap()]);
    assert!(message.contains("bad.toml") && message.contains("rate"), "{message}");
}

/// Gavel's own sweeps, each one command, with policies that there are and fewer points.
#[test]
fn gavels_sweeps_are_one_command_each() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("continuous");
    let small = ["--policies", "fcfs,las", "--seeds", "0,1", "--jobs", "120", "--window", "40:79"];
    for (scenario, rates) in [("single", "2,6"), ("multi", "1,3")] {
        let out = out.join(scenario);
        let file = format!("scenarios/gavel-continuous-{scenario}.toml");
        let args = ["sweep", &file, "--rates", rates, "--steady-state", "--out", out.to_str().unwrap()];
        stdout(&args.into_iter().chain(small).collect::<Vec<_>>());
        let results = results(&out);
        assert_eq!(results.lines().count(), 1 + 2 * 2 * 2, "{results}");
        assert!(results.lines().skip(1).all(|line| line.contains(",rounds,40,40,0,")), "{results}");
        let names = files(&out).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        let rate = rates.split(',').next().unwrap();
        for expected in ["jct-against-load.svg".to_owned(), format!("distributions/jct-cdf-rate-{rate}.svg")]
            .into_iter()
            .chain([format!("distributions/ftf-cdf-rate-{rate}.png"), "samples/7.json".to_owned()])
        {
            assert!(names.contains(&expected), "no {expected} in {names:?}");
        }
    }
    let out = folder.path().join("static");
    let file = "scenarios/gavel-static-multi.toml";
    let table =
        stdout(&["sweep", file, "--policies", "fcfs,srtf", "--jobs", "20,40", "--seeds", "0", "--out", out.to_str().unwrap()]);
    assert!(table.contains("makespan on 36:36:36") && table.contains("          40"), "{table}");
    let names = files(&out).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    for expected in ["makespan-against-jobs.svg", "jct-against-jobs.png", "distributions/jct-cdf-jobs-20.svg"] {
        assert!(names.iter().any(|name| name == expected), "no {expected} in {names:?}");
    }
}

#[test]
fn settings_that_do_not_go_together() {
    let folder = TempDir::new().unwrap();
    let sweep = |more: &[&str]| {
        let out = folder.path().join("out");
        let common = ["sweep", "--policies", "fcfs", "--clusters", "8:8:8", "--out", out.to_str().unwrap()];
        refusal(&common.into_iter().chain(more.iter().copied()).collect::<Vec<_>>())
    };
    let message = sweep(&["--model", "gavel-static", "--rates", "1"]);
    assert!(message.contains("arrive at once") && message.contains("--jobs"), "{message}");
    assert!(sweep(&["--model", "gavel-static"]).contains("needs `jobs`"));
    let message = sweep(&["--model", "gavel-continuous", "--rates", "1", "--jobs", "100", "--window", "50:100"]);
    assert!(message.contains("window") && message.contains("0 to 99"), "{message}");
    assert!(sweep(&["--rates", "1", "--steady-state"]).contains("steady_state"));
    assert!(sweep(&["--rates", "1", "--throughputs", "no-such.csv"]).contains("no-such.csv"));
    let file = folder.path().join("bad.toml");
    fs::write(&file, "policies = ['fcfs']\nclusters = ['gpu:4']\nrates = [3]\nmechanism = 'magic'\n").unwrap();
    let out = folder.path().join("y");
    let message = refusal(&["sweep", file.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    assert!(message.contains("magic") && message.contains("event, rounds"), "{message}");
}
