//! From a job's record to what an executor needs to run it.

use crate::access::users;
use crate::api::text::Text;
use crate::config::Config;
use crate::machine::platform::Run;
use crate::store::record::JobRecord;
use rota_exec::{KnownRun, Limits, LogSettings, MpsSettings, Node, NodeName, Place, RunAs, RunIdentity, RunKey, RunRequest};
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Makes requests of records, with the settings of this queue.
pub struct RunRequests {
    /// The node of the daemon's own machine, where jobs without GPUs run.
    home: NodeName,
    /// The node of each device, by the device's UUID.
    node_of: HashMap<String, NodeName>,
    state_dir: PathBuf,
    log: LogSettings,
    grace_seconds: f64,
    is_root: bool,
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
            state_dir,
            log: LogSettings { bytes_max: config.jobs.log_mib << 20, files_max: config.jobs.log_files },
            grace_seconds: config.jobs.grace_seconds,
            is_root: rustix::process::geteuid().is_root(),
            identities: HashMap::new(),
        }
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
        let needs_user = self.is_root && record.uid != 0;
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
            places: self.places(record),
            command: record.command().iter().map(Text::to_os).collect(),
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
            mps,
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
        if places.is_empty() {
            places.push(Place { node: self.home.clone(), uuids: Vec::new() });
        }
        places
    }

    /// What a job can learn of itself from its environment.
    fn variables(&self, record: &JobRecord) -> Vec<(OsString, OsString)> {
        let mut variables: Vec<(OsString, OsString)> = vec![
            ("ROTA_JOB_ID".into(), record.id.to_string().into()),
            ("ROTA_ATTEMPT".into(), record.attempts.to_string().into()),
            ("ROTA_GPUS".into(), record.spec.ask.gpus.to_string().into()),
            ("ROTA_STATE".into(), self.state_dir.clone().into()),
        ];
        if let Some(index) = record.spec.array_index {
            variables.push(("ROTA_ARRAY_INDEX".into(), index.to_string().into()));
        }
        for (name, value) in &record.spec.values {
            variables.push((format!("ROTA_PARAM_{}", name.to_uppercase()).into(), value.into()));
        }
        variables
    }
}

/// The run that a record is about: its last attempt.
pub fn run_of(record: &JobRecord) -> RunKey {
    RunKey { job: record.id, attempt: record.attempts }
}

fn seconds(value: f64) -> Duration {
    Duration::from_secs_f64(value.clamp(0.0, 1e9))
}
