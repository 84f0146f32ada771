//! The unit that is shipped, under real systemd in namespaces of its own.

use crate::live::{is_root, program, remark};
use crate::rota::root;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Whether this machine can have another one inside of it: the rights to make namespaces and control groups, and systemd.
fn can_have_machines() -> bool {
    let try_it = "mount --make-rprivate / && mkdir -p /tmp && mount -t tmpfs tmpfs /mnt && mkdir /mnt/c && mount -t cgroup2 none /mnt/c && mkdir /mnt/c/rota-try && rmdir /mnt/c/rota-try";
    let tried = Command::new("unshare").args(["--mount", "--pid", "--fork", "--cgroup", "sh", "-c", try_it]).output();
    let has_systemd = Command::new("systemd").arg("--version").output().is_ok_and(|output| output.status.success());
    is_root() && has_systemd && tried.is_ok_and(|output| output.status.success())
}

#[test]
fn the_unit_runs_jobs_of_users_and_they_outlive_its_restarts() {
    if !can_have_machines() {
        remark("no systemd can be run here: the unit is not tested");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::copy(program(), folder.path().join("rota")).unwrap();
    std::fs::copy(root().join("packaging/systemd/rota.service"), folder.path().join("rota.service")).unwrap();
    for script in ["machine.sh", "systemd.sh", "trial.sh"] {
        std::fs::copy(root().join("tests/unit").join(script), folder.path().join(script)).unwrap();
    }
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "120", "unshare", "--mount", "--kill-child", "bash"]);
    let output = command.arg(folder.path().join("machine.sh")).arg(folder.path()).output().unwrap();
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap_or_default();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stderr), read("systemd.log"));
    let expected = [
        "first job: \"done\"",
        "65534",
        "1",
        "NoNewPrivs:\t1",
        "restarted",
        "after a restart: \"running\", attempts 1",
        "after kill -9: \"running\", attempts 1",
        "cancelled: \"cancelled\"",
        "stopped: success",
    ];
    assert_eq!(read("answer").lines().collect::<Vec<_>>(), expected, "{said}");
}
