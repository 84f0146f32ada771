//! Why a job could not start, in words that say what to do.

use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::local::run_directory::spec::RunSpec;

/// Where a process stopped on its way to becoming the job.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub(crate) enum Step {
    /// Its own session, and its end with its supervisor.
    Session = 1,
    /// Standard output and error.
    Output,
    /// Becoming the user.
    User,
    /// Entering the working directory.
    Directory,
    /// Waiting for the supervisor's word.
    Gate,
    /// Running the program.
    Program,
    /// Taking over the limits of the user's shell.
    Limits,
}

impl Step {
    pub(crate) fn from_number(number: u8) -> Option<Self> {
        [Self::Session, Self::Output, Self::User, Self::Directory, Self::Gate, Self::Program, Self::Limits]
            .into_iter()
            .find(|step| *step as u8 == number)
    }
}

/// Whether an error says that the machine has no room now: on the disk, in memory, for files or processes. That is not the job's fault.
pub(crate) fn is_want_of_room(error: &io::Error) -> bool {
    use libc::{EAGAIN, EDQUOT, EMFILE, ENFILE, ENOMEM, ENOSPC};
    error.raw_os_error().is_some_and(|number| [ENOSPC, EDQUOT, ENOMEM, EAGAIN, EMFILE, ENFILE].contains(&number))
}

/// What to tell the job's owner.
pub(crate) fn explain(spec: &RunSpec, step: Step, error: &io::Error) -> String {
    match step {
        Step::Program => explain_program(spec, error),
        Step::Directory => explain_directory(spec, error),
        Step::User => {
            let uid = spec.run_as.as_ref().map_or(0, |user| user.uid);
            format!("cannot become user {uid}: {error}; start the daemon as root, or submit as the user it runs as")
        }
        Step::Limits => format!("cannot take over the limits of the shell it was submitted from: {error}"),
        Step::Session | Step::Output => format!("cannot set up a process: {error}"),
        Step::Gate => "the supervisor ended before the job could start".to_owned(),
    }
}

fn explain_directory(spec: &RunSpec, error: &io::Error) -> String {
    let cwd = spec.cwd.display();
    match error.kind() {
        io::ErrorKind::NotFound => {
            format!("working directory `{cwd}`: no such directory; it was removed after submission, or is not on this machine")
        }
        io::ErrorKind::NotADirectory => format!("working directory `{cwd}`: not a directory; submit from a directory"),
        io::ErrorKind::PermissionDenied => {
            format!("working directory `{cwd}`: {} may not enter it; change its permissions", who(spec))
        }
        _ => format!("working directory `{cwd}`: {error}"),
    }
}

fn who(spec: &RunSpec) -> String {
    spec.run_as.as_ref().map_or_else(|| "the daemon's user".to_owned(), |user| format!("user {}", user.uid))
}

fn explain_program(spec: &RunSpec, error: &io::Error) -> String {
    let Some(name) = spec.command.first().filter(|name| !name.is_empty()) else {
        return "no command was given; write it after `--`".to_owned();
    };
    let shown = Path::new(name).display();
    let has_path = name.as_bytes().contains(&b'/');
    let file = spec.cwd.join(name);
    match error.kind() {
        io::ErrorKind::NotFound if has_path && file.exists() => match interpreter(&file) {
            Some(interpreter) => {
                format!("`{shown}`: its interpreter `{}` is not there; correct the first line of the file", interpreter.display())
            }
            None => format!("`{shown}`: it needs a loader or library that is not there; it was built for another system"),
        },
        io::ErrorKind::NotFound if has_path => {
            format!("`{shown}`: no such file; check the path, which starts from `{}` unless it is full", spec.cwd.display())
        }
        io::ErrorKind::NotFound if file.is_file() => {
            format!(
                "`{shown}`: not on PATH, though it is in the working directory; write `./{shown}` or name its interpreter, as in `python {shown}`"
            )
        }
        io::ErrorKind::NotFound => format!("`{shown}`: no such file; give the full path or a command that is on PATH"),
        io::ErrorKind::PermissionDenied if file.is_dir() && has_path => format!("`{shown}`: a directory; name a program in it"),
        io::ErrorKind::PermissionDenied => {
            format!(
                "`{shown}`: not executable for {}; run `chmod +x {shown}` or name its interpreter, as in `python {shown}`",
                who(spec)
            )
        }
        io::ErrorKind::ArgumentListTooLong => format!("`{shown}`: arguments and environment are too long; pass them in a file"),
        _ if error.raw_os_error() == Some(libc::EAGAIN) => {
            format!("`{shown}`: {} has as many processes as its limit (`ulimit -u`) permits", who(spec))
        }
        _ if error.raw_os_error() == Some(libc::ENOEXEC) => {
            format!("`{shown}`: not a program this machine can run; it may be built for another system")
        }
        _ => format!("`{shown}`: {error}"),
    }
}

/// The program a script's first line asks for, if it is a script.
fn interpreter(file: &Path) -> Option<PathBuf> {
    let mut start = [0; 256];
    let length = fs::File::open(file).ok()?.read(&mut start).ok()?;
    let line = start[..length].strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let word = line.split(u8::is_ascii_whitespace).find(|word| !word.is_empty())?;
    Some(Path::new(std::ffi::OsStr::from_bytes(word)).to_owned())
}
