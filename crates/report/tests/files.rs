//! The files of a report: which there are, that they are well formed, always the same, and safe with hostile names.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod example;

use example::{bind, bind_workload, finished, fold, job, meta, started, submitted, three_jobs};
use resvg::usvg;
use rota_core::{Bound, Job, MilliGpu, Workload};
use rota_report::{ReportError, Run, RunMeta, Summary, summarise, write_report};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

const HOSTILE: &str = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&\"'\u{7}{{data}}";

fn row(run: &Run, bound: &Bound, meta: RunMeta) -> (Run, Summary, RunMeta) {
    (run.clone(), summarise(run, bound, &meta), meta)
}

/// The files under a directory, by relative path.
fn contents(directory: &Path, prefix: &str, files: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("{prefix}{}", path.file_name().unwrap().to_str().unwrap());
        if path.is_dir() {
            contents(&path, &format!("{name}/"), files);
        } else {
            files.insert(name, std::fs::read(&path).unwrap());
        }
    }
}

fn report(runs: &[(Run, Summary, RunMeta)], bound: &Bound) -> BTreeMap<String, Vec<u8>> {
    let directory = tempfile::tempdir().unwrap();
    let written = write_report(&directory.path().join("deep/er"), runs, bound).unwrap();
    let mut files = BTreeMap::new();
    contents(&directory.path().join("deep/er"), "", &mut files);
    assert_eq!(written.len(), files.len(), "{written:?}");
    files
}

fn text(files: &BTreeMap<String, Vec<u8>>, name: &str) -> String {
    String::from_utf8(files[name].clone()).unwrap()
}

fn is_a(name: &str, extension: &str) -> bool {
    Path::new(name).extension().is_some_and(|known| known == extension)
}

fn check_pictures(files: &BTreeMap<String, Vec<u8>>) {
    for (name, content) in files.iter().filter(|(name, _)| is_a(name, "svg")) {
        let svg = std::str::from_utf8(content).unwrap();
        usvg::Tree::from_str(svg, &usvg::Options::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name}");
        assert!(files[&name.replace(".svg", ".png")].starts_with(b"\x89PNG"), "{name}");
    }
}

#[test]
fn one_policy() {
    let (bound, run) = three_jobs();
    let files = report(&[row(&run, &bound, meta("fcfs"))], &bound);
    let names = files.keys().map(String::as_str).collect::<Vec<_>>();
    let expected = "gantt-jobs.png gantt-jobs.svg gantt.png gantt.svg jct-cdf.png jct-cdf.svg jobs.csv report.html summary.json utilisation.png utilisation.svg";
    assert_eq!(names.join(" "), expected);
    check_pictures(&files);
    let summary: serde_json::Value = serde_json::from_slice(&files["summary.json"]).unwrap();
    assert_eq!(summary["policy"], "fcfs");
}

#[test]
fn several_policies() {
    let (bound, run) = three_jobs();
    let files = report(
        &[
            row(&run, &bound, meta("rr:quantum=60")),
            row(&run, &bound, meta("../RR quantum 60")),
            row(&run, &bound, meta("RR-quantum-60")),
        ],
        &bound,
    );
    let folders = ["rr-quantum-60", "RR-quantum-60-2", "RR-quantum-60-3"];
    for folder in folders {
        for name in ["jobs.csv", "gantt.svg", "gantt.png", "gantt-jobs.svg", "gantt-jobs.png"] {
            assert!(files.contains_key(&format!("{folder}/{name}")), "{folder}/{name} of {:?}", files.keys());
        }
    }
    assert!(files.contains_key("comparison.svg") && !files.contains_key("gantt.svg"));
    check_pictures(&files);
    let summaries: serde_json::Value = serde_json::from_slice(&files["summary.json"]).unwrap();
    assert_eq!(summaries.as_array().unwrap().len(), 3);
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    let (bound, run) = three_jobs();
    let runs = [row(&run, &bound, meta("a")), row(&run, &bound, meta("b"))];
    assert!(report(&runs, &bound) == report(&runs, &bound));
}

#[test]
fn hostile_names_stay_text() {
    let mut workload = Workload::new(HOSTILE);
    let (user, kind, other) = (workload.names.intern(HOSTILE), workload.names.intern(HOSTILE), workload.names.intern("plain"));
    workload.push(Job { label: Some(HOSTILE.into()), user, kind, ..job(0, 100) });
    workload.push(Job { user, kind: other, ..job(0, 100) });
    let bound = bind_workload(workload, "t4:2");
    let run = fold(
        &bound,
        &[submitted(0, 0), submitted(0, 1), started(0, 0, &[0]), started(0, 1, &[1]), finished(100, 0), finished(100, 1)],
    );
    let meta = RunMeta { assumptions: vec![HOSTILE.to_owned()], ..meta(HOSTILE) };
    let files = report(&[row(&run, &bound, meta)], &bound);
    check_pictures(&files);
    let page = text(&files, "report.html");
    assert_eq!(page.matches("<script").count(), 3, "only the page's own script elements");
    assert_eq!(page.matches("</script").count(), 3);
    assert!(!page.contains("<img"));
    let gantt = text(&files, "gantt.svg");
    assert!(gantt.contains("&lt;/script&gt;") && !gantt.contains("<script"));
}

#[test]
fn runs_without_anything_to_see_say_so() {
    let empty = bind(Vec::new(), "t4:1");
    let files = report(&[row(&fold(&empty, &[]), &empty, meta("empty"))], &empty);
    check_pictures(&files);
    assert!(text(&files, "gantt.svg").contains("no job ran"));
    let waiting = bind(vec![job(0, 10)], "t4:1");
    let run = fold(&waiting, &[submitted(0, 0), submitted(5, 0)]);
    let files = report(&[row(&run, &waiting, meta("stuck"))], &waiting);
    check_pictures(&files);
    assert!(text(&files, "jct-cdf.svg").contains("no job completed"));
    let without_timeline = Run { timeline: None, ..three_jobs().1 };
    let files = report(&[row(&without_timeline, &three_jobs().0, meta("short"))], &three_jobs().0);
    check_pictures(&files);
    assert!(text(&files, "utilisation.svg").contains("no timeline was recorded"));
}

#[test]
fn large_runs_stay_small_files() {
    let jobs = (0..20_000).map(|number| Job { share: MilliGpu(500), ..job(number, 30) }).collect::<Vec<_>>();
    let bound = bind(jobs, "t4:400");
    let mut events = Vec::new();
    for second in 0..20_030_u64 {
        if second >= 30 {
            events.push(finished(second, second as u32 - 30));
        }
        if second < 20_000 {
            events.extend([submitted(second, second as u32), started(second, second as u32, &[second as u32 % 400])]);
        }
    }
    let run = fold(&bound, &events);
    let files = report(&[row(&run, &bound, meta("large"))], &bound);
    check_pictures(&files);
    for (name, content) in files.iter().filter(|(name, _)| is_a(name, "svg") || is_a(name, "html")) {
        assert!(content.len() < 1_500_000, "{name} has {} bytes", content.len());
    }
    assert!(text(&files, "gantt.svg").contains("one row a node"));
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let (bound, run) = three_jobs();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("occupied");
    std::fs::write(&file, "in the way").unwrap();
    let error = write_report(&file, &[row(&run, &bound, meta("a"))], &bound).unwrap_err();
    assert!(matches!(error, ReportError::Directory { .. }));
    assert!(error.to_string().contains("occupied") && error.source().is_some());
}

#[test]
fn nothing_half_written_is_left_behind() {
    let (bound, run) = three_jobs();
    let directory = tempfile::tempdir().unwrap();
    // A directory in the place of a file makes the last step of writing it fail.
    std::fs::create_dir(directory.path().join("gantt.svg")).unwrap();
    std::fs::write(directory.path().join("gantt.svg/keep"), "").unwrap();
    let error = write_report(directory.path(), &[row(&run, &bound, meta("a"))], &bound).unwrap_err();
    assert!(error.to_string().contains("gantt.svg"), "{error}");
    let left = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(left.into_iter().all(|name| !is_a(&name, "part")));
}
