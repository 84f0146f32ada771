//! The job's output: from one pipe into a log file that is rotated by size.
//!
//! A log that cannot be written never stops a job: what is lost is counted, and the log says where.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::{Gid, Uid};

use crate::local::run_directory::run_dir::RESERVED;
use crate::local::run_directory::spec::{RunAs, RunSpec};
use crate::local::supervisor::rights::Rights;

/// A large pipe lets the job go on while the disk is slow; the kernel gives less to a user who has many.
const PIPE_BYTES: usize = 1 << 20;

/// One read takes up to this much.
const READ_BYTES: usize = 256 << 10;

/// Reads between two looks at signals and timers, so that a job that never stops writing can still be stopped.
const READS_MAX: usize = 8;

/// The pipe behind a job's standard output and standard error.
#[derive(Debug)]
pub(crate) struct OutputPipe {
    pub(crate) reader: OwnedFd,
    pub(crate) writer: OwnedFd,
}

impl OutputPipe {
    pub(crate) fn new() -> io::Result<Self> {
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        // Only our end: the job's programs do not expect a standard output that does not block.
        rustix::fs::fcntl_setfl(&reader, OFlags::NONBLOCK)?;
        let _ = rustix::pipe::fcntl_setpipe_size(&reader, PIPE_BYTES);
        Ok(Self { reader, writer })
    }

    /// The number by which `/proc/PID/fd` names the pipe.
    pub(crate) fn inode(&self) -> io::Result<u64> {
        Ok(rustix::fs::fstat(&self.reader)?.st_ino)
    }
}

/// What is left in the pipe after reading some of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Pumped {
    /// The log may have more to read.
    MayHaveMore,
    /// Nothing for now.
    Empty,
    /// Nothing ever: every writer has closed it.
    Closed,
}

/// A log file and its older parts.
#[derive(Debug)]
pub(crate) struct Log {
    folder: OwnedFd,
    name: OsString,
    rights: Rights,
    owner: Option<RunAs>,
    file: Option<File>,
    file_bytes: u64,
    /// The last byte written ended a line.
    at_line_start: bool,
    /// Devices such as `/dev/null` are not rotated.
    rotated: bool,
    rotate_at_bytes: u64,
    bytes_max: u64,
    files_max: u32,
    lost_bytes: u64,
    /// Lost and not yet told in the log.
    untold_bytes: u64,
    buffer: Vec<u8>,
}

impl Log {
    /// Opens the log of a job whose run directory has these names. A full disk is no reason to fail.
    pub(crate) fn open(spec: &RunSpec, run_dir: [&Path; 2], switched: Option<&RunAs>) -> io::Result<Self> {
        let invalid = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
        let name = spec.log.file_name().ok_or_else(|| invalid("it names no file"))?;
        let parent =
            spec.log.parent().filter(|parent| parent.is_absolute()).ok_or_else(|| invalid("it is not an absolute path"))?;
        // The daemon chooses what is in the run directory; any other place was chosen by the user.
        let ours = run_dir.contains(&parent);
        if ours && name.to_str().is_some_and(|name| RESERVED.contains(&name)) {
            return Err(invalid("it is the name of one of Rota's own files"));
        }
        let rights = switched.filter(|_| !ours).map_or(Rights::Own, |user| Rights::User(user.clone()));
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let folder = rights.with(|| Ok(rustix::fs::openat(CWD, parent, flags, Mode::empty())?))?;
        let mut log = Self {
            folder,
            name: name.to_owned(),
            rights,
            owner: switched.filter(|_| ours).cloned(),
            file: None,
            file_bytes: 0,
            at_line_start: true,
            rotated: true,
            rotate_at_bytes: spec.log_bytes_max,
            bytes_max: spec.log_bytes_max,
            files_max: spec.log_files_max,
            lost_bytes: 0,
            untold_bytes: 0,
            buffer: Vec::new(),
        };
        match log.open_file() {
            Err(error) if !is_full(&error) => Err(error),
            _ => Ok(log),
        }
    }

    /// How much output could not be written.
    pub(crate) fn lost_bytes(&self) -> u64 {
        self.lost_bytes
    }

    /// Takes what is in the pipe to the log.
    pub(crate) fn pump(&mut self, pipe: impl AsFd) -> Pumped {
        let mut buffer = std::mem::take(&mut self.buffer);
        // Reserved and not filled: a job that says little costs little memory.
        buffer.reserve_exact(READ_BYTES);
        let mut pumped = Pumped::MayHaveMore;
        for _ in 0..READS_MAX {
            buffer.clear();
            match rustix::io::read(&pipe, rustix::buffer::spare_capacity(&mut buffer)) {
                Ok(0) => pumped = Pumped::Closed,
                Ok(_) => {
                    self.write(&buffer);
                    continue;
                }
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => pumped = Pumped::Empty,
                Err(_) => pumped = Pumped::Closed,
            }
            break;
        }
        buffer.clear();
        self.buffer = buffer;
        pumped
    }

    /// Writes output, in as many files as it takes; new files begin at new lines where there are any.
    pub(crate) fn write(&mut self, mut output: &[u8]) {
        if self.file.is_none() && self.open_file().is_err() {
            return self.lose(output.len());
        }
        self.tell_loss();
        while self.rotated && self.bytes_max > 0 && self.file_bytes + output.len() as u64 > self.rotate_at_bytes {
            let room = self.rotate_at_bytes.saturating_sub(self.file_bytes) as usize;
            let (now, later) = output.split_at(self.cut(&output[..room]));
            if !self.append(now) {
                // A disk that is full is no reason to push older files out.
                return self.lose(later.len());
            }
            self.rotate();
            output = later;
        }
        self.append(output);
    }

    /// How much of what fits is written before the log is rotated.
    fn cut(&self, fitting: &[u8]) -> usize {
        match fitting.iter().rposition(|byte| *byte == b'\n') {
            Some(newline) => newline + 1,
            None if self.at_line_start && self.file_bytes > 0 => 0,
            None => fitting.len(),
        }
    }

    /// False if some of it was lost.
    fn append(&mut self, mut output: &[u8]) -> bool {
        while let Some(last) = output.last() {
            let written = self.file.as_mut().map_or(Err(io::ErrorKind::NotFound.into()), |file| file.write(output));
            match written {
                Ok(length) if length > 0 => {
                    self.file_bytes += length as u64;
                    self.at_line_start = *last == b'\n';
                    output = &output[length..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => {
                    self.lose(output.len());
                    return false;
                }
            }
        }
        true
    }

    fn lose(&mut self, bytes: usize) {
        self.lost_bytes += bytes as u64;
        self.untold_bytes += bytes as u64;
    }

    /// A log with a hole says so, as soon as there is room to say it.
    fn tell_loss(&mut self) {
        if self.untold_bytes == 0 {
            return;
        }
        let line = format!("\n[rota: {} bytes of output could not be written here]\n", self.untold_bytes);
        if let Some(file) = &mut self.file
            && let Ok(length) = file.write(line.as_bytes())
        {
            self.file_bytes += length as u64;
            self.untold_bytes = 0;
        }
    }

    /// Moves the log to `log.1`, `log.1` to `log.2` and so on, and begins a new one.
    fn rotate(&mut self) {
        if self.move_away().is_err() {
            // Better a log that grows beyond its size than none; tried again when it has grown by as much once more.
            self.rotate_at_bytes = self.file_bytes.saturating_add(self.bytes_max);
            return;
        }
        self.rotate_at_bytes = self.bytes_max;
        self.file = None;
        self.file_bytes = 0;
        let _ = self.open_file();
    }

    fn move_away(&self) -> io::Result<()> {
        let older = |age: u32| -> OsString {
            let mut name = self.name.clone();
            if age > 0 {
                name.push(format!(".{age}"));
            }
            name
        };
        self.rights.with(|| {
            if self.files_max <= 1 {
                return remove(&self.folder, &self.name);
            }
            for age in (0..self.files_max - 1).rev() {
                match rustix::fs::renameat(&self.folder, older(age), &self.folder, older(age + 1)) {
                    Ok(()) | Err(Errno::NOENT) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(())
        })
    }

    /// Opens the current log file, at its end if there is one already.
    fn open_file(&mut self) -> io::Result<()> {
        // NONBLOCK: a pipe put in the log's place must not stop the supervisor.
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let mode = Mode::from_raw_mode(0o600);
        let file = self.rights.with(|| Ok(rustix::fs::openat(&self.folder, &self.name, flags, mode)?))?;
        let stat = rustix::fs::fstat(&file)?;
        if let Some(owner) = &self.owner {
            rustix::fs::fchown(&file, Some(Uid::from_raw(owner.uid)), Some(Gid::from_raw(owner.gid)))?;
        }
        self.rotated = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        self.file_bytes = if self.rotated { stat.st_size.unsigned_abs() } else { 0 };
        self.file = Some(file.into());
        Ok(())
    }
}

fn remove(folder: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match rustix::fs::unlinkat(folder, name, rustix::fs::AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// No space, or none left for this user.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn spec(log: &Path, bytes_max: u64, files_max: u32) -> RunSpec {
        RunSpec {
            job: 1,
            attempt: 1,
            identity: None,
            command: Vec::new(),
            cwd: "/".into(),
            env: Vec::new(),
            run_as: None,
            log: log.to_owned(),
            log_bytes_max: bytes_max,
            log_files_max: files_max,
            time_limit: None,
            grace: Duration::ZERO,
            notice: None,
            memory_max_bytes: None,
            cpus_max: None,
            cgroup: None,
            devices: None,
            resource_limits: crate::ResourceLimits::default(),
            no_new_privileges: false,
        }
    }

    fn read(path: &Path, name: &str) -> Option<String> {
        std::fs::read_to_string(path.join(name)).ok()
    }

    #[test]
    fn files_begin_at_lines_and_the_oldest_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let mut log = Log::open(&spec(&path.join("log"), 10, 3), [path; 2], None).unwrap();
        for line in ["aaa\n", "bbb\n", "ccc\nddd\n", "eee\nfff\nggg\nhhh\n"] {
            log.write(line.as_bytes());
        }
        assert_eq!(read(path, "log").unwrap(), "ggg\nhhh\n");
        assert_eq!(read(path, "log.1").unwrap(), "eee\nfff\n");
        assert_eq!(read(path, "log.2").unwrap(), "ccc\nddd\n");
        assert_eq!(read(path, "log.3"), None);
        assert_eq!(log.lost_bytes(), 0);
    }

    #[test]
    fn a_line_longer_than_a_file_is_cut_and_nothing_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let mut log = Log::open(&spec(&path.join("log"), 4, 100), [path; 2], None).unwrap();
        log.write(b"0123456789");
        assert_eq!(read(path, "log.2").unwrap() + &read(path, "log.1").unwrap() + &read(path, "log").unwrap(), "0123456789");
    }

    #[test]
    fn one_file_begins_again_and_no_limit_is_no_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let mut one = Log::open(&spec(&path.join("one"), 4, 1), [path; 2], None).unwrap();
        one.write(b"abc\ndef\n");
        assert_eq!(read(path, "one").unwrap(), "def\n");
        let mut free = Log::open(&spec(&path.join("free"), 0, 1), [path; 2], None).unwrap();
        free.write(b"abc\n");
        free.write(b"def\n");
        assert_eq!(read(path, "free").unwrap(), "abc\ndef\n");
        assert_eq!(std::fs::read_dir(path).unwrap().count(), 2);
    }

    #[test]
    fn a_link_in_the_place_of_the_log_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        std::os::unix::fs::symlink(path.join("elsewhere"), path.join("log")).unwrap();
        assert!(Log::open(&spec(&path.join("log"), 0, 1), [path; 2], None).is_err());
        assert!(!path.join("elsewhere").exists());
    }
}
