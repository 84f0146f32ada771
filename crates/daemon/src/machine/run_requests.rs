//! From a job's record to what an executor needs to run it.

use crate::access::users;
use crate::api::NoticeReach;
use crate::api::text::Text;
use crate::config::Config;
use crate::lease::running_leases::RunningLeases;
use crate::machine::gavel_command;
use crate::machine::platform::Run;
use crate::queue::endings::signal_number;
use crate::store::record::JobRecord;
use rota_exec::{
    KnownRun, Limits, LogSettings, MpsSettings, Node, NodeName, Notice, Place, Reach, ResourceLimits, RunAs, RunIdentity, RunKey,
    RunRequest,
};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Makes requests of records, with the settings of this queue.
pub struct RunRequests {
    /// The node of the daemon's own machine, where jobs without GPUs run.
    home: NodeName,
    /// The node of each device, by the device's UUID.
    node_of: HashMap<String, NodeName>,
    /// The devices of each node that are alike, by UUID.
    alike: Vec<Vec<String>>,
    state_dir: PathBuf,
    log: LogSettings,
    grace_seconds: f64,
    round_seconds: f64,
    is_root: bool,
    /// The leases of running jobs; none where jobs are not real.
    leases: Option<Arc<RunningLeases>>,
    /// The program `rota`, which starts the processes of gangs.
    program: PathBuf,
    /// GPUs of this machine.
    gpus: usize,
    /// `numactl`, where it is there.
    numactl: Option<PathBuf>,
    /// The identities of runs that were prepared and not started yet.
    identities: HashMap<RunKey, RunIdentity>,
}

impl RunRequests {
    /// Requests for runs on the nodes of an executor. Jobs without GPUs run on the node `home`.
    pub fn new(home: NodeName, nodes: &[Node], state_dir: PathBuf, config: &Config) -> Self {
        let devices = nodes.iter().flat_map(|node| node.devices.iter().map(move |device| (device, node)));
        Self {
            home,
            node_of: devices.map(|(device, node)| (device.uuid.clone(), node.name.clone())).collect(),
            alike: alike(nodes),
            state_dir,
            log: LogSettings { bytes_max: config.jobs.log_mib << 20, files_max: config.jobs.log_files.saturating_add(1) },
            grace_seconds: config.jobs.grace_seconds,
            round_seconds: config.round_seconds,
            is_root: rustix::process::geteuid().is_root(),
            leases: None,
            program: PathBuf::new(),
            gpus: 1,
            numactl: None,
            identities: HashMap::new(),
        }
    }

    /// The nodes are others from now on. Devices that are gone are still known to have been where they were.
    pub fn set_nodes(&mut self, nodes: &[Node]) {
        let devices = nodes.iter().flat_map(|node| node.devices.iter().map(move |device| (device, node)));
        self.node_of.extend(devices.map(|(device, node)| (device.uuid.clone(), node.name.clone())));
        self.alike = alike(nodes);
    }

    /// The same, for runs that have leases.
    #[must_use]
    pub fn with_leases(self, leases: Arc<RunningLeases>, program: PathBuf, gpus: usize) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let numactl = std::env::split_paths(&path).map(|folder| folder.join("numactl")).find(|file| file.is_file());
        Self { leases: Some(leases), program, gpus, numactl, ..self }
    }

    /// Makes the folder in which a job keeps its checkpoints, the job's own.
    fn make_checkpoint_folder(&self, record: &JobRecord) -> Result<(), String> {
        let Some(leases) = &self.leases else { return Ok(()) };
        let folder = leases.checkpoints().of(record.id);
        if folder.is_dir() {
            return Ok(());
        }
        let failed = |error: std::io::Error| {
            format!(
                "its folder for checkpoints, `{}`, cannot be made: {error}; `jobs.checkpoint_dir` names another",
                folder.display()
            )
        };
        if let Some(parent) = folder.parent() {
            DirBuilder::new().recursive(true).mode(0o711).create(parent).map_err(failed)?;
        }
        DirBuilder::new().mode(0o700).create(&folder).map_err(failed)?;
        if self.is_root && record.uid != 0 {
            std::os::unix::fs::chown(&folder, Some(record.uid), Some(record.spec.gid)).map_err(failed)?;
        }
        Ok(())
    }

    /// Keeps the identity of a run from its preparation to its start.
    pub fn keep(&mut self, run: RunKey, identity: RunIdentity) {
        self.identities.insert(run, identity);
    }

    /// What is needed to start a job. Fails if the run was not prepared.
    pub fn request(&mut self, run: &Run<'_>) -> Result<RunRequest, String> {
        let record = run.record;
        let ask = &record.spec.ask;
        let key = run_of(record);
        let identity = self.identities.remove(&key).ok_or("its place was not prepared")?;
        self.make_checkpoint_folder(record)?;
        let places = self.places(record);
        // The worker of another node may be root's where the daemon is not: there a job runs as its owner, too.
        let is_elsewhere = places.iter().any(|place| place.node != self.home);
        let needs_user = (self.is_root || is_elsewhere) && record.uid != 0;
        let run_as = needs_user.then(|| {
            let groups = users::groups_of(&record.user, record.spec.gid);
            RunAs { uid: record.uid, gid: record.spec.gid, groups }
        });
        let mps = record.is_under_mps().then(|| MpsSettings {
            uid: record.uid,
            threads_percent: ask.threads_percent.and_then(|percent| u8::try_from(percent).ok()),
            memory_mib: record.memory(),
        });
        Ok(RunRequest {
            run: key,
            identity,
            places,
            spare_uuids: self.spare_uuids(record),
            command: self.command(record),
            cwd: PathBuf::from(ask.cwd.to_os()),
            env: run.env.iter().map(|(name, value)| (name.to_os(), value.to_os())).collect(),
            variables: self.variables(record),
            run_as,
            log: self.log,
            limits: Limits {
                time: ask.time_limit_seconds.map(seconds),
                grace: seconds(ask.grace_seconds.unwrap_or(self.grace_seconds)),
                memory_max_bytes: ask.host_memory_mib.map(|memory| memory << 20),
                cpus_max: ask.cpus,
            },
            resource_limits: resource_limits(record)?,
            notice: self.notice(record),
            mps,
        })
    }

    /// The command of a run; a script with Gavel's iterator gets what Gavel's dispatcher would add.
    fn command(&self, record: &JobRecord) -> Vec<OsString> {
        match (&record.spec.ask.gavel, &self.leases) {
            (Some(script), Some(leases)) => {
                let around = gavel_command::Surroundings {
                    program: &self.program,
                    checkpoints: &leases.checkpoints().of(record.id),
                    numactl: self.numactl.as_deref(),
                    cpus: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
                    gpus: self.gpus,
                };
                gavel_command::command(record, script, &around)
            }
            _ => record.command().iter().map(Text::to_os).collect(),
        }
    }

    /// How a job is told that it must save and leave.
    fn notice(&self, record: &JobRecord) -> Notice {
        // A script with Gavel's iterator hears of it only when it asks, which may be at the end of the next round.
        let until_asked = record.spec.ask.gavel.as_ref().map_or(0.0, |_| 2.0 * self.round_seconds);
        let grace = seconds(record.notice_grace(self.grace_seconds) + until_asked);
        let own = record.spec.ask.preempt.as_ref();
        own.and_then(|own| Some((signal_number(&own.signal)?, own.to))).map_or(Notice::usual(grace), |(signal, to)| {
            let reach = if to == NoticeReach::All { Reach::All } else { Reach::Main };
            Notice { signal, reach, grace }
        })
    }

    /// A job that was under way when a daemon ended.
    pub fn known(&self, record: &JobRecord) -> KnownRun {
        let identity = record.identity.as_deref().map(RunIdentity::from_text);
        KnownRun { run: run_of(record), identity, places: self.places(record), is_under_mps: record.is_under_mps() }
    }

    /// The nodes of a run, each with the devices that the run has there.
    fn places(&self, record: &JobRecord) -> Vec<Place> {
        let mut places = Vec::<Place>::new();
        for uuid in &record.gpu_uuids {
            // A device that is gone since then was on the daemon's own machine, as far as anybody knows.
            let node = self.node_of.get(uuid).unwrap_or(&self.home);
            match places.iter_mut().find(|place| place.node == *node) {
                Some(place) => place.uuids.push(uuid.clone()),
                None => places.push(Place { node: node.clone(), uuids: vec![uuid.clone()] }),
            }
        }
        // The daemon's own machine has the first part of a run, whose output is the job's.
        places.sort_by_key(|place| place.node != self.home);
        if places.is_empty() {
            places.push(Place { node: self.home.clone(), uuids: Vec::new() });
        }
        places
    }

    /// The devices that a run may be offered later: those that are like its own, on the same node.
    fn spare_uuids(&self, record: &JobRecord) -> Vec<String> {
        let Some(first) = record.gpu_uuids.first().filter(|_| record.spec.ask.extra_gpus > 0) else { return Vec::new() };
        let siblings = self.alike.iter().find(|devices| devices.contains(first));
        siblings.into_iter().flatten().filter(|uuid| !record.gpu_uuids.contains(uuid)).cloned().collect()
    }

    /// What a job can learn of itself from its environment.
    fn variables(&self, record: &JobRecord) -> Vec<(OsString, OsString)> {
        let mut variables: Vec<(OsString, OsString)> = vec![
            ("ROTA_JOB_ID".into(), record.id.to_string().into()),
            ("ROTA_ATTEMPT".into(), record.attempts.to_string().into()),
            ("ROTA_GPUS".into(), record.spec.ask.gpus.to_string().into()),
            ("ROTA_STATE".into(), self.state_dir.clone().into()),
        ];
        if let Some(leases) = &self.leases {
            let folder = leases.checkpoints().of(record.id);
            variables.push(("ROTA_LEASE".into(), record.attempts.to_string().into()));
            variables.push(("ROTA_LEASE_ADDR".into(), leases.address().to_string().into()));
            variables.push(("ROTA_LEASE_TOKEN".into(), leases.token(record).into()));
            if record.spec.ask.gavel.is_some() {
                variables.extend(gavel_command::variables(record, leases.address()));
            }
            if record.resumes() {
                let checkpoint = record.progress.checkpoint.as_ref().map_or_else(|| folder.clone(), |name| folder.join(name));
                variables.push(("ROTA_RESUME_FROM".into(), checkpoint.into()));
            }
            variables.push(("ROTA_CHECKPOINT_DIR".into(), folder.into()));
        }
        if let Some(budget) = record.spec.ask.budget_seconds {
            variables.push(("ROTA_BUDGET_SECONDS".into(), budget.to_string().into()));
            variables.push(("ROTA_EXTRA_GPUS".into(), record.spec.ask.extra_gpus.to_string().into()));
        }
        if let Some(index) = record.spec.array_index {
            variables.push(("ROTA_ARRAY_INDEX".into(), index.to_string().into()));
        }
        for (name, value) in &record.spec.values {
            variables.push((format!("ROTA_PARAM_{}", name.to_uppercase()).into(), value.into()));
        }
        variables
    }
}

/// The devices of each node that are alike.
fn alike(nodes: &[Node]) -> Vec<Vec<String>> {
    let mut groups = Vec::<(&NodeName, &str, Vec<String>)>::new();
    for (node, device) in nodes.iter().flat_map(|node| node.devices.iter().map(move |device| (node, device))) {
        match groups.iter_mut().find(|(name, kind, _)| **name == node.name && *kind == device.name) {
            Some((_, _, uuids)) => uuids.push(device.uuid.clone()),
            None => groups.push((&node.name, &device.name, vec![device.uuid.clone()])),
        }
    }
    groups.into_iter().map(|(_, _, uuids)| uuids).collect()
}

/// The run that a record is about: its last attempt.
pub fn run_of(record: &JobRecord) -> RunKey {
    RunKey { job: record.id, attempt: record.attempts }
}

/// The limits of the shell that a job was submitted from.
fn resource_limits(record: &JobRecord) -> Result<ResourceLimits, String> {
    let text = record.spec.ask.rlimits.as_deref().unwrap_or_default();
    text.parse().map_err(|error: rota_exec::ResourceLimitError| error.to_string())
}

fn seconds(value: f64) -> Duration {
    Duration::from_secs_f64(value.clamp(0.0, 1e9))
}
