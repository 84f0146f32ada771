//! What tests of notifications and metrics need: a Python with a mail server and a reader of metrics, and free ports.

use crate::rota::root;
use rustix::fs::{FlockOperation, flock};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;

/// A port that nobody listens on now.
pub fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

/// A Python with what `tests/watchers` needs, made once; `None` where that cannot be had.
pub fn python() -> Option<PathBuf> {
    let folder = root().join("target/watchers");
    std::fs::create_dir_all(&folder).unwrap();
    // Tests are processes of their own: one makes it, the others wait.
    let lock = std::fs::File::create(folder.join("lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let python = folder.join("bin/python");
    let requirements = root().join("tests/watchers/requirements.txt");
    let mark = folder.join("complete");
    if std::fs::read(&mark).ok().as_deref() == std::fs::read(&requirements).ok().as_deref() {
        return Some(python);
    }
    let run = |command: &mut Command| {
        command.output().map_err(|error| error.to_string()).and_then(|output| {
            if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
        })
    };
    let made = run(Command::new("python3").args(["-m", "venv"]).arg(&folder)).and_then(|()| {
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--require-hashes", "-r"]).arg(&requirements))
    });
    match made {
        Ok(()) => {
            std::fs::copy(&requirements, &mark).unwrap();
            Some(python)
        }
        Err(problem) => {
            assert!(std::env::var_os("CI").is_none(), "the packages cannot be installed: {problem}");
            super::remark(&format!("not tested, the packages cannot be installed: {problem}"));
            None
        }
    }
}
