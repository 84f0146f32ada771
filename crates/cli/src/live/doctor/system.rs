//! The machine: control groups, the clock, the service, and certificates.

use super::{Examined, Finding, certificate};
use std::path::{Path, PathBuf};

const DAY_SECONDS: i64 = 86_400;
/// A certificate that ends sooner is worth a word.
const SOON_DAYS: i64 = 30;

pub fn look(examined: &Examined) -> Vec<Finding> {
    let mut findings = vec![cgroups(), clock(examined)];
    findings.extend(service());
    findings.extend(settings(examined));
    findings
}

fn cgroups() -> Finding {
    let Some(root) = rota_exec::cgroup_root() else {
        let text = "there are no control groups of version 2: limits of memory and processors are not enforced";
        return Finding::warn(
            "cgroups",
            text,
            "boot with systemd.unified_cgroup_hierarchy=1, or go without --host-memory and --cpus",
        );
    };
    let controllers = std::fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
    let has = |name: &str| controllers.split_whitespace().any(|word| word == name);
    let missing = ["memory", "cpu"].into_iter().filter(|name| !has(name)).collect::<Vec<_>>();
    if missing.is_empty() {
        return Finding::ok("cgroups", format!("version 2 at {}, with memory and cpu", root.display()));
    }
    let text = format!("control groups at {} have no controller for {}", root.display(), missing.join(" and "));
    Finding::warn("cgroups", text, "these limits are not enforced; the kernel or the container keeps them from us")
}

fn clock(examined: &Examined) -> Finding {
    let now = jiff::Timestamp::now();
    let began = examined.status.as_ref().ok().and_then(|status| status.started_at.parse::<jiff::Timestamp>().ok());
    if began.is_some_and(|began| began.as_second() > now.as_second() + 1) {
        let text = "the daemon was started in what is the future now: the clock was set back";
        return Finding::fail(
            "clock",
            text,
            "set the clock right, with chrony or systemd-timesyncd: waits and history are told by it",
        );
    }
    if now.as_second() < 1_767_225_600 {
        return Finding::fail("clock", format!("it says {now}, which cannot be"), "set the clock right");
    }
    let keepers = ["/run/systemd/timesync/synchronized", "/run/chrony", "/run/chronyd.pid", "/run/ntpd.pid"];
    let is_kept = keepers.iter().any(|path| Path::new(path).exists());
    Finding::ok(
        "clock",
        if is_kept { "kept right by a time server" } else { "plausible; nothing here says that a time server keeps it" },
    )
}

/// The unit that starts the daemon with the machine, if this machine has systemd.
fn service() -> Vec<Finding> {
    if !Path::new("/run/systemd/system").exists() {
        return vec![Finding::ok(
            "service",
            "this machine has no systemd: whatever starts the daemon here must leave its jobs alone when it stops it",
        )];
    }
    let is_root = rustix::process::geteuid().is_root();
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let system = [
        "/etc/systemd/system",
        "/run/systemd/system",
        "/usr/local/lib/systemd/system",
        "/usr/lib/systemd/system",
        "/lib/systemd/system",
    ];
    let user = [home.join(".config/systemd/user"), "/etc/systemd/user".into(), "/usr/lib/systemd/user".into()];
    let found = |folders: &mut dyn Iterator<Item = PathBuf>| {
        folders.map(|folder| folder.join("rota.service")).find(|path| path.is_file())
    };
    let of_system = found(&mut system.iter().map(PathBuf::from));
    let of_user = if is_root { None } else { found(&mut user.into_iter()) };
    let Some(path) = of_system.or_else(|| of_user.clone()) else {
        let text = "no unit rota.service is installed: the daemon does not start with the machine";
        return vec![Finding::warn("service", text, "docs/live.md, \"Install as a service\", shows how")];
    };
    let mut findings = vec![unit(&path)];
    if of_user.is_some() {
        findings.push(linger());
    }
    findings
}

fn unit(path: &Path) -> Finding {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let says = |line: &str| text.lines().any(|found| found.trim() == line);
    if !says("KillMode=process") {
        let text = format!("{} lacks KillMode=process: a restart of the daemon would end all jobs", path.display());
        return Finding::fail("service", text, "add it to [Service], then `systemctl daemon-reload`");
    }
    if !says("Delegate=yes") {
        let text = format!("{} lacks Delegate=yes: jobs have no control groups of their own", path.display());
        return Finding::warn("service", text, "add it to [Service], then `systemctl daemon-reload`");
    }
    Finding::ok("service", path.display().to_string())
}

fn linger() -> Finding {
    let user = std::env::var("USER").unwrap_or_default();
    if Path::new("/var/lib/systemd/linger").join(&user).exists() {
        return Finding::ok("linger", "the queue goes on when you log out");
    }
    Finding::warn("linger", "the queue ends when you log out", "`loginctl enable-linger`")
}

/// The settings, and the certificates they name.
fn settings(examined: &Examined) -> Vec<Finding> {
    let Some(path) = &examined.config else { return Vec::new() };
    let mut findings = vec![match rota_daemon::Config::read(path) {
        Ok(_) => Finding::ok("settings", format!("{}: sound", path.display())),
        Err(error) => Finding::fail(
            "settings",
            error.to_string(),
            "the daemon does not start with this: `rota config schema` shows what can be set",
        ),
    }];
    // Read as it stands: a file with a mistake elsewhere may still name certificates.
    let table = std::fs::read_to_string(path).ok().and_then(|text| text.parse::<toml::Table>().ok()).unwrap_or_default();
    let named = |name: &str| {
        let file = table.get("http")?.get(name)?.as_str().filter(|file| !file.is_empty())?;
        Some(PathBuf::from(file))
    };
    findings.extend(named("tls_cert").map(|file| expiry(&file)));
    if let Some(file) = named("tls_key")
        && let Err(error) = std::fs::File::open(&file)
    {
        let remedy = "the daemon's user must be able to read it";
        findings.push(Finding::fail("tls", format!("{}: {error}", file.display()), remedy));
    }
    findings
}

fn expiry(file: &Path) -> Finding {
    let remedy = "renew it, and restart the daemon: jobs run on";
    let shown = file.display();
    let pem = match std::fs::read(file) {
        Ok(pem) => pem,
        Err(error) => return Finding::fail("tls", format!("{shown}: {error}"), "the daemon's user must be able to read it"),
    };
    let Some(end) = certificate::end_of(&pem) else {
        return Finding::fail(
            "tls",
            format!("{shown} is no certificate in PEM form"),
            "write the chain there, the server's own first",
        );
    };
    let days = (end.as_second() - jiff::Timestamp::now().as_second()).div_euclid(DAY_SECONDS);
    let text = format!("the certificate of {shown} is valid until {end}");
    match days {
        ..0 => Finding::fail("tls", format!("the certificate of {shown} ended at {end}"), remedy),
        0..SOON_DAYS => Finding::warn("tls", text, remedy),
        _ => Finding::ok("tls", text),
    }
}
