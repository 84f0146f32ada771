//! Links the program at a fixed address and with the unwinder inside: see docs/decisions/start-up.md.

use std::path::Path;

/// What a panic needs to leave functions, as a library that becomes part of the program.
const UNWINDER: &str = "libgcc_eh.a";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    if !is("CARGO_CFG_TARGET_OS", "linux") {
        return;
    }
    println!("cargo::rustc-link-arg-bins=-no-pie");
    let is_own = std::env::var("HOST") == std::env::var("TARGET");
    if let Some(folder) = folder_of_unwinder().filter(|_| is_own && is("CARGO_CFG_TARGET_ENV", "gnu")) {
        println!("cargo::rustc-link-search=native={folder}");
        println!("cargo::rustc-link-lib=static:-bundle=gcc_eh");
    }
}

/// Where the C compiler keeps it. Without it the program loads the shared library, as others do.
fn folder_of_unwinder() -> Option<String> {
    let told = std::process::Command::new("cc").arg(format!("-print-file-name={UNWINDER}")).output().ok()?;
    let told = String::from_utf8(told.stdout).ok()?;
    let file = Path::new(told.trim());
    (file.is_absolute() && file.is_file()).then(|| file.parent())?.map(|folder| folder.display().to_string())
}
