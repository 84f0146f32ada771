//! Golden scripts: `tests/golden/NAME.cmd` holds commands, `NAME.out` what they print (stdout, then stderr, then the exit code if not 0).
//! `ROTA_GOLDEN=write make test` writes the expectations anew; read the difference before you commit it.

use crate::rota::{root, rota};
use std::fmt::Write;
use std::fs;

fn transcript(commands: &str) -> String {
    let mut text = String::new();
    for command in commands.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let args = command.split_whitespace().skip(1).collect::<Vec<_>>();
        let output = rota(&args);
        writeln!(text, "$ {command}").unwrap();
        text.push_str(&String::from_utf8_lossy(&output.stdout));
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        if !output.status.success() {
            writeln!(text, "[exit {}]", output.status.code().unwrap_or(-1)).unwrap();
        }
        text.push('\n');
    }
    without_machine_times(&text)
}

/// Lines about how long the machine took differ from run to run.
fn without_machine_times(text: &str) -> String {
    let machine =
        |line: &str| ["wall time", "mean decision time", "longest decision"].iter().any(|start| line.starts_with(start));
    let lines = text.lines().filter(|line| !machine(line)).map(str::trim_end).collect::<Vec<_>>();
    lines.join("\n") + "\n"
}

#[test]
fn scripts_print_what_they_did() {
    let folder = root().join("tests/golden");
    let mut scripts = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    scripts.retain(|path| path.extension().is_some_and(|ending| ending == "cmd"));
    scripts.sort();
    assert!(!scripts.is_empty());
    let mut different = Vec::new();
    for script in scripts {
        let printed = transcript(&fs::read_to_string(&script).unwrap());
        let expected_path = script.with_extension("out");
        if std::env::var("ROTA_GOLDEN").is_ok_and(|mode| mode == "write") {
            fs::write(&expected_path, &printed).unwrap();
        }
        let expected = fs::read_to_string(&expected_path).unwrap_or_default();
        if printed != expected {
            different.push(format!("{}:\n--- expected\n{expected}\n--- printed\n{printed}", script.display()));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn the_readme_counts_the_policies() {
    let policies = crate::rota::json(&["policies", "--json"]).as_array().map_or(0, Vec::len);
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let row = readme.lines().find(|line| line.starts_with("| Rota | ")).unwrap();
    assert!(row.contains(&format!("| {policies} |")), "{policies} policies: {row}");
}
