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
    assert!(stdout(&["completions", "bash"]).contains("complete -F _rota"));
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("man1");
    stdout(&["man", "--out", pages.to_str().unwrap()]);
    assert!(pages.join("rota-top.1").exists());
}
