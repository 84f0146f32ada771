//! The state directory: its owner, its permissions, the room on its disk, and whether the store is whole.

use super::{Examined, Finding};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const GIB: u64 = 1 << 30;
/// Below this nothing can be relied on.
const ROOM_LEAST: u64 = GIB / 8;
/// Below this much room an administrator should act.
const ROOM_FEW: u64 = 2 * GIB;

pub fn look(examined: &Examined) -> Vec<Finding> {
    let dir = examined.dir.as_path();
    let meta = match std::fs::metadata(dir) {
        Ok(meta) => meta,
        Err(error) => {
            let remedy = "`rota up` makes it; `--state` or ROTA_STATE name another";
            return vec![Finding::fail("state", format!("{}: {error}", dir.display()), remedy)];
        }
    };
    let mut findings = vec![owner(dir, &meta), room(dir), filesystem(dir)];
    findings.extend(secrets(dir));
    findings.push(store(dir));
    findings
}

fn owner(dir: &Path, meta: &std::fs::Metadata) -> Finding {
    let (shown, mode, uid) = (dir.display(), meta.mode() & 0o7777, meta.uid());
    if !meta.is_dir() {
        return Finding::fail("state", format!("{shown} is no directory"), "name another with --state");
    }
    if mode & 0o022 != 0 {
        let text = format!("{shown} can be changed by others than its owner (mode {mode:o})");
        return Finding::fail("state", text, format!("chmod go-w {shown}"));
    }
    let own = rustix::process::geteuid().as_raw();
    if uid != own && uid != 0 {
        let text = format!("{shown} belongs to another user (uid {uid})");
        return Finding::warn("state", text, "this is somebody else's queue: name your own with --state");
    }
    Finding::ok("state", format!("{shown}, of uid {uid}, mode {mode:o}"))
}

/// The store holds environments, and the token everything.
fn secrets(dir: &Path) -> Vec<Finding> {
    let is_open = |name: &&str| std::fs::metadata(dir.join(name)).is_ok_and(|meta| meta.mode() & 0o077 != 0);
    let open = ["rota.db", "rota.db-wal", "token"].into_iter().filter(is_open);
    let finding = |name: &str| {
        let path = dir.join(name);
        Finding::fail("secrets", format!("others can read {}", path.display()), format!("chmod 600 {}", path.display()))
    };
    open.map(finding).collect()
}

fn room(dir: &Path) -> Finding {
    let disk = match rustix::fs::statvfs(dir) {
        Ok(disk) => disk,
        Err(error) => return Finding::warn("room", format!("unknown: {error}"), "look with `df`"),
    };
    let (free, all) = (disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize);
    let text = format!("{} of {} GiB free for the store and the logs", free / GIB, all / GIB);
    let remedy = "free some space, or move the state directory; `jobs.log_mib` bounds logs";
    if free < ROOM_LEAST || disk.f_favail == 0 && disk.f_files > 0 {
        Finding::fail("room", text, remedy)
    } else if free < ROOM_FEW {
        Finding::warn("room", text, remedy)
    } else {
        Finding::ok("room", text)
    }
}

fn filesystem(dir: &Path) -> Finding {
    // As the kernel numbers them.
    const NETWORK: [(u32, &str); 10] = [
        (0x6969, "NFS"),
        (0xff53_4d42, "CIFS"),
        (0xfe53_4d42, "SMB"),
        (0x517b, "SMB"),
        (0x0102_1997, "9P"),
        (0x00c3_6400, "Ceph"),
        (0x0bd0_0bd0, "Lustre"),
        (0x4750_4653, "GPFS"),
        (0x6573_5546, "FUSE"),
        (0x5346_414f, "AFS"),
    ];
    const PASSING: [(u32, &str); 3] = [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs"), (0x794c_7630, "an overlay")];
    let number = match rustix::fs::statfs(dir) {
        Ok(found) => found.f_type as u32,
        Err(error) => return Finding::warn("filesystem", format!("unknown: {error}"), "look with `findmnt`"),
    };
    let name = |known: &[(u32, &'static str)]| known.iter().find(|(magic, _)| *magic == number).map(|(_, name)| *name);
    if let Some(name) = name(&NETWORK) {
        let text = format!("the state is on {name}: the store needs a local disk to be safe");
        return Finding::fail("filesystem", text, "move the state directory to a disk of this machine, with --state");
    }
    if let Some(name) = name(&PASSING) {
        let text = format!("the state is on {name}, which may be gone after a restart");
        return Finding::warn("filesystem", text, "keep it on a disk if jobs are to outlive the machine's restart");
    }
    Finding::ok("filesystem", "a local disk")
}

fn store(dir: &Path) -> Finding {
    let path = dir.join("rota.db");
    if !path.exists() {
        return Finding::ok("store", "none yet: no daemon has run here");
    }
    if std::fs::File::open(&path).is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied) {
        return Finding::ok("store", "not looked at: only its owner may read it");
    }
    match rota_daemon::check_store(&path) {
        Ok(jobs) => Finding::ok("store", format!("whole, with {jobs} jobs")),
        Err(error) => {
            Finding::fail("store", error.to_string(), "stop the daemon, and restore the file from a backup or move it away")
        }
    }
}
