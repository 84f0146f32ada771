//! Calls the binary as a person would, from the root of the repository.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

pub fn rota(args: &[&str]) -> Output {
    Command::new(assert_cmd::cargo::cargo_bin!("rota")).args(args).current_dir(root()).env("COLUMNS", "100").output().unwrap()
}

/// Stdout of a call that must succeed.
pub fn stdout(args: &[&str]) -> String {
    let output = rota(args);
    assert!(output.status.success(), "rota {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Stderr of a call that must be refused as bad input, with nothing on stdout.
pub fn refusal(args: &[&str]) -> String {
    let output = rota(args);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "rota {args:?}: {stderr}");
    assert!(output.stdout.is_empty(), "rota {args:?} printed data: {}", String::from_utf8_lossy(&output.stdout));
    stderr
}

pub fn json(args: &[&str]) -> serde_json::Value {
    serde_json::from_str(&stdout(args)).unwrap()
}

/// All files under a folder by their path in it, with their content.
pub fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                found.push((name, std::fs::read(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}
