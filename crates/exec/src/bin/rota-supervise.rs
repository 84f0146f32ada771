//! Supervisors and nothing else: `rota-supervise [DIR]` does what `rota __supervise [DIR]` does.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args_os().nth(1) {
        Some(dir) => rota_exec::supervise(Path::new(&dir)),
        None => rota_exec::nurse(),
    }
}
