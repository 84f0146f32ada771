//! A cgroup (version 2) for one job: limits of memory and processors, and an end that nothing in it can escape.
//!
//! Whatever is missing or not permitted is gone without and said in a note; a job is not refused for it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::local::processes::identity::is_shortage;
use crate::local::run_directory::spec::RunSpec;

/// Where cgroups of version 2 are mounted, if they are: also beside version 1, as `/sys/fs/cgroup/unified`.
pub fn cgroup_root() -> Option<PathBuf> {
    mounted_at(&fs::read("/proc/self/mountinfo").ok()?)
}

fn mounted_at(mountinfo: &[u8]) -> Option<PathBuf> {
    mountinfo.split(|byte| *byte == b'\n').find_map(|line| {
        let mut fields = line.split(|byte| *byte == b' ');
        let place = fields.nth(4)?;
        // Optional fields end with a dash, then comes the type.
        fields.find(|field| *field == b"-")?;
        (fields.next()? == b"cgroup2").then(|| OsString::from_vec(unescape(place)).into())
    })
}

/// Blanks in a mount's path are written as `\040`.
fn unescape(path: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((first, tail)) = rest.split_first() {
        let code = (*first == b'\\').then(|| tail.get(..3)).flatten();
        let byte = code.and_then(|code| u8::from_str_radix(str::from_utf8(code).ok()?, 8).ok());
        plain.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &tail[3..] } else { tail };
    }
    plain
}

/// The cgroup of one job.
#[derive(Debug)]
pub(crate) struct JobCgroup {
    path: PathBuf,
}

impl JobCgroup {
    /// Makes the cgroup the specification asks for, if it can be made. `name` must be unique on this boot.
    pub(crate) fn create(spec: &RunSpec, name: &str, notes: &mut Vec<String>) -> Option<Self> {
        let limits = [
            ("memory", "memory.max", spec.memory_max_bytes.map(|bytes| bytes.to_string())),
            ("cpu", "cpu.max", spec.cpus_max.map(|cpus| format!("{} 100000", ((cpus * 100_000.0) as u64).max(1000)))),
        ];
        let wanted = limits.iter().filter_map(|(controller, file, value)| Some((*controller, *file, value.as_ref()?)));
        let Some(parent) = &spec.cgroup else {
            notes.extend(wanted.map(|(controller, ..)| format!("limits not enforced: {controller}: jobs have no cgroup here")));
            return None;
        };
        let path = parent.join(name);
        for (controller, ..) in wanted.clone() {
            enable(parent, controller);
        }
        if let Err(error) = fs::create_dir(&path) {
            notes.push(format!("limits not enforced: cannot make the cgroup `{}`: {error}", path.display()));
            return None;
        }
        for (controller, file, value) in wanted {
            if let Err(error) = fs::write(path.join(file), value) {
                let why = match error.kind() {
                    io::ErrorKind::NotFound => format!("`{}` does not have this controller", parent.display()),
                    _ => error.to_string(),
                };
                notes.push(format!("limits not enforced: {controller}: {why}"));
            }
        }
        if let Some(devices) = &spec.devices
            && let Err(error) = devices.attach(&path)
        {
            notes.push(format!("the job can open the GPUs of others: {error}"));
        }
        if spec.memory_max_bytes.is_some() {
            // Half a job is no use: workers killed one by one leave the others waiting for them for ever.
            let _ = fs::write(path.join("memory.oom.group"), "1");
        }
        Some(Self { path })
    }

    /// The cgroup a supervisor has noted down.
    pub(crate) fn existing(path: &Path) -> Option<Self> {
        path.is_dir().then(|| Self { path: path.to_owned() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The directory, to start a process in.
    pub(crate) fn open(&self) -> io::Result<File> {
        File::open(&self.path)
    }

    /// Moves a process into the cgroup.
    pub(crate) fn add(&self, pid: u32) -> io::Result<()> {
        fs::write(self.path.join("cgroup.procs"), pid.to_string())
    }

    /// Every process in the cgroup and in those the job has made below it.
    pub(crate) fn processes(&self) -> io::Result<Vec<u32>> {
        let mut found = Vec::new();
        let mut shortage = None;
        walk(&self.path, &mut |path| match fs::read_to_string(path.join("cgroup.procs")) {
            // 0 stands for a process of another pid namespace.
            Ok(text) => found.extend(text.lines().filter_map(|line| line.parse().ok()).filter(|pid: &u32| *pid != 0)),
            Err(error) if is_shortage(&error) => shortage = Some(error),
            // The job may remove cgroups that it has made.
            Err(_) => {}
        });
        shortage.map_or(Ok(found), Err)
    }

    /// Ends every process in the cgroup at once, if the kernel can (5.14 and later).
    pub(crate) fn kill(&self) -> bool {
        fs::write(self.path.join("cgroup.kill"), "1").is_ok()
    }

    /// How many processes were ended for lack of memory.
    pub(crate) fn out_of_memory_kills(&self) -> u64 {
        let events = fs::read_to_string(self.path.join("memory.events")).unwrap_or_default();
        events.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok()).unwrap_or(0)
    }

    /// Removes the cgroup, which must be empty; what cannot be removed stays and does no harm.
    pub(crate) fn remove(&self) {
        if fs::remove_dir(&self.path).is_ok() {
            return;
        }
        // The job has made cgroups of its own below it.
        walk(&self.path, &mut |path| {
            let _ = fs::remove_dir(path);
        });
    }
}

/// Lets children of `parent` have limits of this kind; where it fails, writing the limit fails too and is noted.
fn enable(parent: &Path, controller: &str) {
    let file = parent.join("cgroup.subtree_control");
    let enabled = fs::read_to_string(&file).unwrap_or_default();
    if !enabled.split_ascii_whitespace().any(|name| name == controller) {
        let _ = fs::write(&file, format!("+{controller}"));
    }
}

/// Visits a cgroup and all below it, the lowest first.
fn walk(path: &Path, visit: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&entry.path(), visit);
        }
    }
    visit(path);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_two_is_found_alone_and_beside_version_one() {
        let hybrid = b"32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
            41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n";
        assert_eq!(mounted_at(hybrid), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(mounted_at(b"25 1 0:5 / /a\\040b rw - cgroup2 x rw"), Some("/a b".into()));
        assert_eq!(mounted_at(b"25 1 0:5 / /sys rw - sysfs x rw\n\nshort"), None);
    }
}
