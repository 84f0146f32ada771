//! "Your first policy in ten minutes" of CONTRIBUTING.md, followed to the letter: the file is pasted, the two lines are added, and it
//! compiles.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};
use std::process::Command;

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The code blocks of a Markdown text, without their indent.
fn blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut block: Option<Vec<&str>> = None;
    for line in text.lines() {
        match (&mut block, line.trim()) {
            (None, "```rust") => block = Some(Vec::new()),
            (Some(lines), "```") => {
                blocks.push(lines.iter().map(|line| line.strip_prefix("   ").unwrap_or(line)).collect::<Vec<_>>().join("\n"));
                block = None;
            }
            (Some(lines), _) => lines.push(line),
            (None, _) => {}
        }
    }
    blocks
}

#[test]
fn the_first_policy_of_the_guide_compiles_as_it_is_pasted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let blocks = blocks(&std::fs::read_to_string(root.join("CONTRIBUTING.md")).unwrap());
    let [file, line, ..] = &blocks[..] else { panic!("the guide has a file and a line: {blocks:?}") };
    let folder = tempfile::tempdir().unwrap();
    for name in ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml"] {
        std::fs::copy(root.join(name), folder.path().join(name)).unwrap();
    }
    for name in ["core", "solver", "policy"] {
        copy(&root.join("crates").join(name), &folder.path().join("crates").join(name));
    }
    let policy = folder.path().join("crates/policy");
    std::fs::write(policy.join("src/order/widest.rs"), file).unwrap();
    let edit = |name: &str, find: &str, insert: &str| {
        let path = policy.join(name);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(find), "{name}: {find}");
        std::fs::write(path, text.replacen(find, &format!("{insert}\n{find}"), 1)).unwrap();
    };
    edit("src/order/mod.rs", "pub(crate) mod fcfs;", "pub(crate) mod widest;");
    edit("src/registry.rs", "    PolicyInfo { name: \"fcfs\"", line);
    edit("src/registry.rs", "use crate::order::{fcfs,", "use crate::order::widest;");
    // What it needs is built already, for the other tests and the linter.
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("..");
    let checked = Command::new(env!("CARGO"))
        .args(["check", "--offline", "-p", "rota-policy"])
        .current_dir(folder.path())
        .env("CARGO_TARGET_DIR", target)
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}
