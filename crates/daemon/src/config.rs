//! The configuration: a TOML file, every field with a default that suits one machine.

mod engine;
mod http;
mod limits;
mod sharing;
mod workers;

pub use crate::notify::settings::{Mail, MailSecurity, Notify, SiteTarget};
pub use engine::{Engine, EngineKind, SlurmEngine};
pub use http::{Http, MetricsAccess};
pub use limits::Limits;
use rota_core::cluster::SharingEntity;
use rota_core::{Score, Span};
use serde::{Deserialize, Serialize};
pub use sharing::{OnOveruse, Sharing};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
pub use workers::Workers;

/// Every setting with its default and its meaning.
pub const SCHEMA: &str = include_str!("config.toml");

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Cannot be read.
    #[error("{path}: {problem}")]
    File {
        /// The configuration file.
        path: String,
        /// The reason why it cannot be read.
        problem: String,
    },
    /// Cannot be meant.
    #[error("{field}: {problem}")]
    Value {
        /// The field, with the table it is in.
        field: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
}

/// A round, and the run of a job, last at least so many times as long as a restart takes.
pub const ROUND_RESTARTS_MIN: f64 = 10.0;

/// Everything a site can set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The policy, any name of `rota policies`.
    pub policy: String,
    /// Which GPUs a job gets: consolidate, spread, best-fit, worst-fit, least-busy, random.
    pub place: String,
    /// When running jobs may be stopped for others: whenever something happens, or only when a round ends.
    pub mechanism: Mechanism,
    /// The length of a round, with the mechanism `rounds`.
    pub round_seconds: f64,
    /// Seed of random policies.
    pub seed: u64,
    /// Port of the HTTP API; 0 takes any free one.
    pub port: u16,
    /// Port of the lease service, on loopback; 0 takes any free one and keeps it.
    pub lease_port: u16,
    /// The HTTP API on that port; the socket is always there.
    #[serde(deserialize_with = "Http::or_switch")]
    pub http: Http,
    /// What holds for all jobs.
    pub jobs: Jobs,
    /// The GPUs of this machine.
    pub gpus: Gpus,
    /// What gives GPUs beside them.
    pub engine: Engine,
    /// Several jobs on one GPU.
    pub sharing: Sharing,
    /// Quotas, and who administers the queue.
    pub users: Users,
    /// What the daemon gives to its callers at most.
    pub limits: Limits,
    /// What is recorded of GPUs and jobs.
    pub telemetry: Telemetry,
    /// Other machines whose GPUs are used.
    pub workers: Workers,
    /// Clients of watchmen.
    pub watchmen: Watchmen,
    /// The settings of notifications.
    pub notify: Notify,
    /// The server for outgoing mail.
    pub mail: Mail,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            policy: "priority".to_owned(),
            mechanism: Mechanism::Event,
            round_seconds: 360.0,
            place: "consolidate".to_owned(),
            seed: 0,
            port: 0,
            lease_port: 0,
            http: Http::default(),
            jobs: Jobs::default(),
            gpus: Gpus::default(),
            engine: Engine::default(),
            sharing: Sharing::default(),
            users: Users::default(),
            limits: Limits::default(),
            telemetry: Telemetry::default(),
            workers: Workers::default(),
            watchmen: Watchmen::default(),
            notify: Notify::default(),
            mail: Mail::default(),
        }
    }
}

/// What happens to a job that loses its GPU or its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnLoss {
    /// It waits again, from the beginning or its own checkpoint.
    Requeue,
    /// It has failed (GPU) or is lost (machine), unless it has retries left.
    Fail,
}

/// How jobs are run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Jobs {
    /// Seconds between asking a job to stop and killing it.
    pub grace_seconds: f64,
    /// How long a job is believed to run that says nothing of it: reservations reckon with it.
    pub estimate_seconds: f64,
    /// Seconds before a failed job is tried again; doubled each time.
    pub retry_delay_seconds: f64,
    /// Seconds that a job loses when it is stopped and started again; measured if it is not given.
    pub restart_seconds: Option<f64>,
    /// Seconds that a job runs at the least before it is stopped for others; ten times its restart if it is not given.
    pub min_run_seconds: Option<f64>,
    /// The folder in which jobs keep their checkpoints; below the state directory if it is not given.
    pub checkpoint_dir: Option<PathBuf>,
    /// The most a job's log may hold before it is turned over.
    pub log_mib: u64,
    /// The number of old log files that are kept for each job.
    pub log_files: u32,
    /// What happens when the GPU under a job is lost.
    pub on_gpu_loss: OnLoss,
    /// What happens to jobs that ran when the machine was restarted.
    pub on_reboot: OnLoss,
    /// The most jobs that may wait in all.
    pub waiting_max: usize,
    /// Jobs without GPUs that may run at once; 0 means one a processor.
    pub cpu_slots: u32,
    /// Whether each job gets a control group of its own where that is permitted.
    pub cgroups: bool,
    /// Whether a job can open only its own GPUs, where it has a control group and the kernel permits it.
    pub isolate_devices: bool,
    /// Whether the programs of a job get no rights that its user does not have, as by `sudo`. A root daemon's jobs only.
    pub no_new_privileges: bool,
}

impl Default for Jobs {
    fn default() -> Self {
        Self {
            grace_seconds: 10.0,
            estimate_seconds: 3600.0,
            retry_delay_seconds: 5.0,
            restart_seconds: None,
            min_run_seconds: None,
            checkpoint_dir: None,
            log_mib: 256,
            log_files: 2,
            on_gpu_loss: OnLoss::Requeue,
            on_reboot: OnLoss::Fail,
            waiting_max: 1_000_000,
            cpu_slots: 0,
            cgroups: true,
            isolate_devices: true,
            no_new_privileges: true,
        }
    }
}

/// When a GPU counts as free.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Gpus {
    /// The only GPUs used, by index or UUID; empty means all.
    pub only: Vec<String>,
    /// Processes that do not count as strangers, by name, as long as they are small.
    pub ignore_processes: Vec<String>,
    /// A process counts as a stranger's whatever its name if it holds more memory than this.
    pub ignore_memory_mib: u64,
    /// Users whose processes never count as strangers.
    pub ignore_users: Vec<String>,
    /// A stranger's process with at most this much memory does not count.
    pub stranger_memory_mib: u64,
    /// Memory in use that belongs to no process counts as a stranger's above this.
    pub unowned_memory_mib: u64,
    /// A GPU without any known process counts as a stranger's if it is busier than this; 100 turns the rule off.
    pub busy_percent: u32,
    /// Whether jobs that share may run beside a stranger where the memory fits.
    pub share_with_strangers: bool,
    /// The most jobs on one GPU, of those that say how much memory they need.
    pub jobs_per_gpu: u16,
    /// Seconds between two looks at the GPUs.
    pub look_seconds: f64,
    /// The power limit of GPUs while the daemon runs: none, best, watts, or watts by type.
    pub power_cap: String,
}

impl Gpus {
    /// The power cap; none where the text is none, which [`Config::check`] refuses.
    pub(crate) fn cap(&self) -> rota_gpu::PowerCap {
        self.power_cap.parse().unwrap_or_default()
    }
}

impl Default for Gpus {
    fn default() -> Self {
        let desktop = ["Xorg", "Xwayland", "gnome-shell", "kwin_wayland", "nvidia-persistenced", "nvidia-cuda-mps-server"];
        Self {
            only: Vec::new(),
            ignore_processes: desktop.map(str::to_owned).to_vec(),
            ignore_memory_mib: 2048,
            ignore_users: Vec::new(),
            stranger_memory_mib: 0,
            unowned_memory_mib: 512,
            busy_percent: 100,
            share_with_strangers: true,
            jobs_per_gpu: 8,
            look_seconds: 0.5,
            power_cap: "none".to_owned(),
        }
    }
}

/// When running jobs may be stopped for others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mechanism {
    /// Whenever something happens.
    #[default]
    Event,
    /// Only when a round ends; what falls free meanwhile is given out at once.
    Rounds,
}

/// The quota of one user.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quota {
    /// GPUs at once.
    pub gpus: Option<u32>,
    /// Jobs that wait or run.
    pub jobs: Option<usize>,
}

/// Users, their rights and their quotas.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Users {
    /// Administrators, who may change all jobs. Root and the daemon's own user always are.
    pub admins: Vec<String>,
    /// Users do not see the names, commands, folders and reasons of each other's jobs. Administrators do.
    pub private: bool,
    /// The quota of users without one of their own.
    pub default: Quota,
    /// The quotas of single users, by name.
    pub quota: BTreeMap<String, Quota>,
    /// The parts of users under the policy `hierarchical`; a user who is not named has weight 1.
    pub entities: Vec<SharingEntity>,
}

impl Users {
    /// The quota of a user.
    pub fn quota_of(&self, user: &str) -> &Quota {
        self.quota.get(user).unwrap_or(&self.default)
    }
}

/// What is recorded of GPUs and jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Telemetry {
    /// Seconds between two samples.
    pub interval_seconds: f64,
    /// Samples older than this are thinned to one a minute.
    pub fine_hours: f64,
    /// Samples older than this are dropped.
    pub keep_days: f64,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self { interval_seconds: 5.0, fine_hours: 24.0, keep_days: 90.0 }
    }
}

/// How clients of watchmen are served.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Watchmen {
    /// A second port on loopback for them; without it they have that of the API only.
    pub port: Option<u16>,
    /// Whether clients need a token; otherwise a client is the user who owns its connection.
    pub auth: bool,
    /// A client whose process is not known is forgotten after so many seconds of silence.
    pub queue_timeout_seconds: f64,
    /// Hours for which clients that are done are listed; below 0 for ever.
    pub keep_hours: f64,
    /// Seconds for which the answer to a waiting client is held back while it may still become better.
    pub ping_seconds: f64,
}

impl Default for Watchmen {
    fn default() -> Self {
        Self { port: None, auth: true, queue_timeout_seconds: 300.0, keep_hours: 48.0, ping_seconds: 8.0 }
    }
}

impl Config {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let error = |problem: String| ConfigError::File { path: path.display().to_string(), problem };
        let text = std::fs::read_to_string(path).map_err(|problem| error(problem.to_string()))?;
        let mut config: Self = toml::from_str(&text).map_err(|problem| error(problem.to_string().trim_end().to_owned()))?;
        if let (Some(table), Some(folder)) = (&mut config.sharing.throughputs, path.parent()) {
            *table = folder.join(&table);
        }
        config.check().map_err(|problem| error(problem.to_string()))?;
        Ok(config)
    }

    /// Says what cannot be meant.
    pub fn check(&self) -> Result<(), ConfigError> {
        let wrong = |field: &str, problem: String| Err(ConfigError::Value { field: field.to_owned(), problem });
        if let Err(error) = rota_learn::registry().build(&self.policy) {
            return wrong("policy", error.to_string());
        }
        if let Err(error) = self.place.parse::<Score>() {
            return wrong("place", error.to_string());
        }
        if let Err(error) = self.gpus.power_cap.parse::<rota_gpu::PowerCap>() {
            return wrong("gpus.power_cap", error.to_string());
        }
        self.http.check()?;
        self.limits.check()?;
        self.workers.check()?;
        self.check_times()?;
        self.engine.check((self.mechanism == Mechanism::Rounds).then_some(self.round_seconds))?;
        if let (Mechanism::Rounds, Some(restart)) = (self.mechanism, self.jobs.restart_seconds)
            && self.round_seconds < ROUND_RESTARTS_MIN * restart
        {
            let least = ROUND_RESTARTS_MIN * restart;
            let problem = format!(
                "rounds of {} s are shorter than ten restarts of {restart} s: jobs would spend their rounds on starting; write {least} or more",
                self.round_seconds
            );
            return wrong("round_seconds", problem);
        }
        if let Some(folder) = self.jobs.checkpoint_dir.as_ref().filter(|folder| !folder.is_absolute()) {
            return wrong("jobs.checkpoint_dir", format!("`{}` is not a full path", folder.display()));
        }
        if self.gpus.jobs_per_gpu == 0 || self.gpus.jobs_per_gpu > 1000 {
            return wrong("gpus.jobs_per_gpu", format!("{} is not between 1 and 1000", self.gpus.jobs_per_gpu));
        }
        let parts = [
            ("sharing.quantile", self.sharing.quantile, 0.0, 1.0),
            ("sharing.margin", self.sharing.margin, 0.0, 10.0),
            ("sharing.oom_growth", self.sharing.oom_growth, 1.0, 100.0),
        ];
        for (field, value, least, most) in parts {
            if !(least..=most).contains(&value) {
                return wrong(field, format!("{value} is not between {least} and {most}"));
            }
        }
        for entity in &self.users.entities {
            if !(entity.weight.is_finite() && entity.weight > 0.0) {
                return wrong("users.entities", format!("{}: weight {} is not above 0", entity.name, entity.weight));
            }
        }
        if self.gpus.busy_percent > 100 {
            return wrong("gpus.busy_percent", format!("{} is above 100", self.gpus.busy_percent));
        }
        if !self.watchmen.keep_hours.is_finite() {
            return wrong("watchmen.keep_hours", "write a number of hours, or -1 to keep all".to_owned());
        }
        if self.jobs.log_mib == 0 {
            return wrong("jobs.log_mib", "a log needs room: write 1 or more".to_owned());
        }
        if let Err((field, problem)) = self.mail.check().and_then(|()| self.notify.check(&self.mail)) {
            return wrong(&field, problem);
        }
        Ok(())
    }

    /// Lengths of time.
    fn check_times(&self) -> Result<(), ConfigError> {
        let wrong = |field: &str, problem: String| Err(ConfigError::Value { field: field.to_owned(), problem });
        let positive = [
            ("round_seconds", self.round_seconds),
            ("jobs.estimate_seconds", self.jobs.estimate_seconds),
            ("gpus.look_seconds", self.gpus.look_seconds),
            ("sharing.profile_seconds", self.sharing.profile_seconds),
            ("telemetry.interval_seconds", self.telemetry.interval_seconds),
            ("telemetry.fine_hours", self.telemetry.fine_hours),
            ("telemetry.keep_days", self.telemetry.keep_days),
            ("watchmen.queue_timeout_seconds", self.watchmen.queue_timeout_seconds),
        ];
        let not_negative = [
            ("jobs.grace_seconds", self.jobs.grace_seconds),
            ("jobs.retry_delay_seconds", self.jobs.retry_delay_seconds),
            ("jobs.restart_seconds", self.jobs.restart_seconds.unwrap_or(0.0)),
            ("jobs.min_run_seconds", self.jobs.min_run_seconds.unwrap_or(0.0)),
            ("watchmen.ping_seconds", self.watchmen.ping_seconds),
        ];
        for (field, value) in positive {
            if !value.is_finite() || value <= 0.0 || value > 1e9 {
                return wrong(field, format!("{value} is not a length of time; write a number above 0"));
            }
        }
        for (field, value) in not_negative {
            if !value.is_finite() || !(0.0..=1e9).contains(&value) {
                return wrong(field, format!("{value} is not a length of time; write 0 or more"));
            }
        }
        Ok(())
    }

    /// The length of a round, if time is cut into rounds.
    pub fn round(&self) -> Option<Span> {
        Span::from_seconds(self.round_seconds).filter(|_| self.mechanism == Mechanism::Rounds)
    }

    /// How long a job runs at the least before it is stopped for others.
    pub fn min_run(&self) -> rota_engine::MinRun {
        let set = self.jobs.min_run_seconds.and_then(Span::from_seconds);
        set.map_or(rota_engine::MinRun::Restarts(ROUND_RESTARTS_MIN as u32), rota_engine::MinRun::For)
    }

    /// How the scheduler is set, for those who replay its past.
    pub fn scheduler_settings(&self) -> crate::api::SchedulerSettings {
        crate::api::SchedulerSettings {
            policy: self.policy.clone(),
            seed: self.seed,
            place: self.place.clone(),
            round_seconds: self.round().map(Span::seconds),
            restart_seconds: self.jobs.restart_seconds,
            min_run_seconds: self.jobs.min_run_seconds,
            buffer_mib: self.sharing.buffer_mib,
        }
    }

    /// How the placer chooses among GPUs.
    pub fn score(&self) -> Score {
        self.place.parse().unwrap_or(Score::Consolidate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_printed_settings_are_the_defaults() {
        assert_eq!(toml::from_str::<Config>(SCHEMA).unwrap(), Config::default());
    }

    #[test]
    fn defaults_are_sound_and_read_back() {
        let config = Config::default();
        config.check().unwrap();
        let text = toml::to_string(&config).unwrap();
        assert_eq!(toml::from_str::<Config>(&text).unwrap(), config);
    }

    #[test]
    fn the_port_can_be_turned_off_in_a_word_or_in_a_table() {
        for text in ["http = false", "[http]\nenabled = false\nbind = '0.0.0.0'"] {
            let config = toml::from_str::<Config>(text).unwrap();
            assert!(!config.http.enabled);
            config.check().unwrap();
        }
        assert!(toml::from_str::<Config>("http = true").unwrap().http.enabled);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("polcy = 'fcfs'", "unknown field `polcy`"),
            ("policy = 'nonsense'", "nonsense"),
            ("[jobs]\ngrace_seconds = -1.0", "jobs.grace_seconds"),
            ("[gpus]\njobs_per_gpu = 0", "gpus.jobs_per_gpu"),
            ("place = 'nowhere'", "consolidate"),
            ("http = 3", "true, false, or a table"),
            ("[http]\nbindd = '::1'", "unknown field `bindd`"),
            ("[http]\nbind = '0.0.0.0'", "--tls-cert"),
            ("[http]\ntls_cert = 'a.pem'", "give both"),
            ("[http]\nburst = 0", "http.burst"),
            ("[limits]\nconnections_max = 0", "limits.connections_max"),
            ("[limits]\nfiles_reserve = 0", "limits.files_reserve"),
            ("[limits]\nstreams = 3", "unknown field `streams`"),
            ("[engine]\nkind = 'pbs'", "unknown variant `pbs`"),
            ("[engine.slurm]\ngpus_max = 0", "engine.slurm.gpus_max"),
            ("[engine.slurm]\ntime_limit_seconds = 60.0", "engine.slurm.time_limit_seconds"),
            ("mechanism = 'rounds'\nround_seconds = 900.0\n[engine.slurm]\ntime_limit_seconds = 900.0", "shorter than a round"),
            ("[engine.slurm]\noptions = ['mem']", "engine.slurm.options"),
            ("[sharing]\nquantile = 2.0", "sharing.quantile"),
            ("[sharing]\noom_growth = 0.5", "sharing.oom_growth"),
            ("[watchmen]\nqueue_timeout_seconds = 0.0", "watchmen.queue_timeout_seconds"),
            ("[workers]\nlost_after_seconds = 0.0", "workers.lost_after_seconds"),
            ("[workers]\nlisten = 'here'", "socket address"),
            ("[watchmen]\nkeep_hours = nan", "watchmen.keep_hours"),
            ("[notify]\nretry_seconds = 0.0", "notify.retry_seconds"),
            ("[[notify.site]]\nkind = 'mail'\naddress = 'a@b.c'", "mail is not set up"),
            ("[[notify.site]]\nkind = 'slack'\naddress = 'gopher://x'", "notify.site"),
            ("[mail]\nserver = 'm'\nfrom = 'nobody'", "mail.from"),
        ] {
            let message = toml::from_str::<Config>(text)
                .map_err(|error| error.to_string())
                .and_then(|config| config.check().map_err(|error| error.to_string()));
            assert!(message.clone().unwrap_err().contains(part), "{text}: {message:?}");
        }
    }
}
