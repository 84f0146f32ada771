//! The report in a real browser: it draws itself from one file, says nothing on the console, and runs nothing a label brings along.

use crate::rota::stdout;
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// The page after its scripts have run, and what they said on the console.
fn open(page: &Path) -> (String, Vec<String>) {
    let profile = TempDir::new().unwrap();
    let output = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--virtual-time-budget=20000",
            "--enable-logging=stderr",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("chromium is needed: `make browser` installs it");
    let console =
        String::from_utf8_lossy(&output.stderr).lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
    (String::from_utf8_lossy(&output.stdout).into_owned(), console)
}

#[test]
fn the_report_draws_itself() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().to_str().unwrap();
    stdout(&[
        "sim",
        "--trace",
        "scenarios/classroom.toml",
        "--cluster",
        "t4:4",
        "--policy",
        "fcfs",
        "--policy",
        "las",
        "--out",
        out,
    ]);
    let (page, console) = open(&folder.path().join("report.html"));
    assert_eq!(console, [] as [String; 0]);
    // Made by the scripts, not written into the file: the options of the policy switch and the rows of the table of jobs.
    assert!(page.contains("cnn_training"), "no job in the table");
    assert!(page.matches("<canvas").count() >= 3, "{} canvases", page.matches("<canvas").count());
    let source = fs::read_to_string(folder.path().join("report.html")).unwrap();
    for outside in ["http://", "https://", "//cdn", "@import", " src="] {
        let found = source.replace("http://www.w3.org/", "").matches(outside).count();
        assert_eq!(found, 0, "the page asks for something outside itself: {outside}");
    }
}

#[test]
fn labels_are_text_whatever_is_in_them() {
    let folder = TempDir::new().unwrap();
    let trace = folder.path().join("jobs.csv");
    let hostile = "</script><img/src=x/onerror=document.title='owned'>";
    fs::write(
        &trace,
        format!("id,user,job_type,arrival_s,gpus,duration_s\n{hostile},{hostile},{hostile},0,1,10\nplain,u,t,1,1,10\n"),
    )
    .unwrap();
    let out = folder.path().join("out");
    stdout(&["sim", "--trace", trace.to_str().unwrap(), "--cluster", "t4:1", "--policy", "fcfs", "--out", out.to_str().unwrap()]);
    let (page, console) = open(&out.join("report.html"));
    assert_eq!(console, [] as [String; 0]);
    assert!(!page.contains("<img"), "a label became an element");
    assert!(!page.contains("<title>owned"), "a label ran a script");
    assert!(page.contains("plain"));
}
