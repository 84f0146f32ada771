//! `rota top` where there is no terminal (what it draws on one is tested beside the code that draws), completions and manual pages.

use crate::rota::{refusal, stdout};

#[test]
fn the_dashboard_needs_a_terminal_and_says_what_does_not() {
    let told = refusal(&["top"]);
    assert!(told.contains("stdout is none") && told.contains("`rota status`"), "{told}");
}

#[test]
fn an_interval_that_cannot_be_meant_is_refused() {
    for wrong in ["0", "-1", "1e9", "soon"] {
        refusal(&["top", "--interval", wrong]);
    }
}

#[test]
fn completions_and_manual_pages_come_from_the_binary() {
    let script = stdout(&["completions", "bash"]);
    assert!(script.contains("complete -F _rota") && script.contains("--makespan-weight"));
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("man1");
    stdout(&["man", "--out", pages.to_str().unwrap()]);
    assert!(pages.join("rota-top.1").exists());
    for (page, option) in [("rota-submit.1", "memory"), ("rota-learn-train.1", "makespan"), ("rota-token-create.1", "scope")] {
        assert!(std::fs::read_to_string(pages.join(page)).unwrap().contains(option), "{page}: {option}");
    }
}
