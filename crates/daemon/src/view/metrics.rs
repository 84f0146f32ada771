//! Metrics: the daemon's counters, for Prometheus. Counting is a few additions; only a scrape writes text.

use crate::api::{GpuState, JobState};
use crate::store::record::JobRecord;
use crate::view::board::View;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

type Labels = Vec<(&'static str, String)>;
type Joules = Family<Labels, Counter<f64, AtomicU64>>;
type Amounts = Family<Labels, Gauge<f64, AtomicU64>>;

/// Users whose queues are shown one by one; the others' are shown together, so that no site is flooded with series.
const USERS_MAX: usize = 50;
/// The name under which the other users are shown.
const OTHERS: &str = "(others)";
const MIB: f64 = 1_048_576.0;
/// States of jobs that are not over.
const UNFINISHED: [JobState; 5] = [JobState::Waiting, JobState::Held, JobState::Starting, JobState::Running, JobState::Stopping];

/// Facts about the daemon that are gathered for one scrape.
pub struct Here {
    /// The store on the disk.
    pub store_bytes: u64,
    /// Clients that follow events, a log or a job.
    pub streams: usize,
}

/// Everything that is counted.
pub struct Metrics {
    registry: Registry,
    jobs: Family<Labels, Gauge>,
    submitted: Counter,
    runs: Counter,
    ended: Family<Labels, Counter>,
    wait_seconds: Histogram,
    run_seconds: Histogram,
    decision_seconds: Histogram,
    write_seconds: Histogram,
    energy_joules: Joules,
    notifications: Family<Labels, Counter>,
    waiting: Mutex<HashMap<String, i64>>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("rota"),
            jobs: Family::default(),
            submitted: Counter::default(),
            runs: Counter::default(),
            ended: Family::default(),
            // From a tenth of a second to more than a week.
            wait_seconds: Histogram::new(exponential_buckets(0.1, 4.0, 12)),
            run_seconds: Histogram::new(exponential_buckets(0.1, 4.0, 12)),
            // From a tenth of a millisecond to more than ten seconds.
            decision_seconds: Histogram::new(exponential_buckets(1e-4, 2.0, 18)),
            write_seconds: Histogram::new(exponential_buckets(1e-4, 2.0, 18)),
            energy_joules: Family::default(),
            notifications: Family::default(),
            waiting: Mutex::default(),
        };
        metrics.register();
        // What has not happened yet is 0, not unknown.
        for state in UNFINISHED {
            _ = metrics.jobs.get_or_create(&labelled("state", state.word()));
        }
        for state in [JobState::Done, JobState::Failed, JobState::Cancelled, JobState::Lost] {
            _ = metrics.ended.get_or_create(&labelled("state", state.word()));
        }
        for outcome in ["sent", "failed", "given_up"] {
            _ = metrics.notifications.get_or_create(&labelled("outcome", outcome));
        }
        metrics
    }
}

fn labelled(name: &'static str, value: &str) -> Labels {
    vec![(name, value.to_owned())]
}

impl Metrics {
    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register("jobs", "Jobs that are not over, by state", self.jobs.clone());
        registry.register("jobs_submitted", "Jobs submitted since the daemon started", self.submitted.clone());
        registry.register("job_runs", "Starts of jobs, repeated ones included", self.runs.clone());
        registry.register("jobs_ended", "Jobs that are over, by how they ended", self.ended.clone());
        let seconds = || Unit::Seconds;
        registry.register_with_unit("job_wait", "From the submit to the first start", seconds(), self.wait_seconds.clone());
        registry.register_with_unit("job_run", "From a start to its end", seconds(), self.run_seconds.clone());
        registry.register_with_unit("decision", "One decision of the scheduler", seconds(), self.decision_seconds.clone());
        registry.register_with_unit("store_write", "One synced write to the store", seconds(), self.write_seconds.clone());
        registry.register_with_unit("gpu_energy", "Energy that a GPU drew", Unit::Joules, self.energy_joules.clone());
        registry.register("notifications", "Messages to users and hooks, by what became of them", self.notifications.clone());
    }

    /// A job that is not over came, went, or is somewhere else.
    pub fn moved(&self, before: Option<&JobRecord>, after: Option<&JobRecord>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for (record, step) in [(before, -1), (after, 1)] {
            let Some(record) = record.filter(|record| !record.state.is_over()) else { continue };
            self.jobs.get_or_create(&labelled("state", record.state.word())).inc_by(step);
            if record.state == JobState::Waiting {
                if let Some(count) = waiting.get_mut(&record.user) {
                    *count += step;
                } else {
                    waiting.insert(record.user.clone(), step);
                }
            }
        }
    }

    /// Something happened to a job, at a moment of the queue's time.
    pub fn changed(&self, before: Option<&JobRecord>, after: &JobRecord, kind: &str, at: u64) {
        self.moved(before, Some(after));
        let seconds_since = |earlier: u64| at.saturating_sub(earlier) as f64 / 1e9;
        match kind {
            "submitted" => _ = self.submitted.inc(),
            "started" => {
                self.runs.inc();
                if after.attempts == 1 {
                    self.wait_seconds.observe(seconds_since(after.arrived_at));
                }
            }
            _ => {
                let has_left = before.filter(|before| before.state.has_gpus() && !after.state.has_gpus());
                if let Some(started_at) = has_left.and_then(|before| before.started_at) {
                    self.run_seconds.observe(seconds_since(started_at));
                }
            }
        }
        if after.state.is_over() {
            self.ended.get_or_create(&labelled("state", after.state.word())).inc();
        }
    }

    /// A decision was made.
    pub fn decided(&self, seconds: f64) {
        self.decision_seconds.observe(seconds);
    }

    /// Something was written to the store.
    pub fn wrote(&self, length: Duration) {
        self.write_seconds.observe(length.as_secs_f64());
    }

    /// A GPU drew energy, where that is known.
    pub fn drew(&self, uuid: &str, joules: Option<f64>) {
        if let Some(joules) = joules.filter(|joules| *joules >= 0.0) {
            self.energy_joules.get_or_create(&labelled("uuid", uuid)).inc_by(joules);
        }
    }

    /// Counts notifications that arrived.
    pub fn notifications_sent(&self, count: u64) {
        self.notifications.get_or_create(&labelled("outcome", "sent")).inc_by(count);
    }

    /// A try failed, and is repeated.
    pub fn notification_failed(&self) {
        self.notifications.get_or_create(&labelled("outcome", "failed")).inc();
    }

    /// Messages are not sent again.
    pub fn notifications_given_up(&self, count: u64) {
        self.notifications.get_or_create(&labelled("outcome", "given_up")).inc_by(count);
    }

    /// Everything, in the text format of `OpenMetrics`.
    pub fn text(&self, view: &View, here: &Here) -> String {
        let mut text = String::new();
        // A string takes everything.
        _ = encode_registry(&mut text, &self.registry);
        _ = encode_registry(&mut text, &self.now(view, here));
        _ = encode_eof(&mut text);
        text
    }

    /// What is looked up at the moment of a scrape.
    fn now(&self, view: &View, here: &Here) -> Registry {
        let mut registry = Registry::with_prefix("rota");
        let mut amount = |name: &str, help: &str, unit: Option<Unit>, rows: Vec<(Labels, f64)>| {
            let family = Amounts::default();
            for (labels, value) in rows {
                family.get_or_create(&labels).set(value);
            }
            match unit {
                Some(unit) => registry.register_with_unit(name, help, unit, family),
                None => registry.register(name, help, family),
            }
        };
        amount("build_info", "This program", None, vec![(labelled("version", env!("CARGO_PKG_VERSION")), 1.0)]);
        amount("store_size", "The store on the disk", Some(Unit::Bytes), vec![(Labels::new(), here.store_bytes as f64)]);
        amount("event_streams", "Clients that follow events, a log or a job", None, vec![(Labels::new(), here.streams as f64)]);
        amount("draining", "1 if nothing is started", None, vec![(Labels::new(), f64::from(u8::from(view.draining)))]);
        amount("warnings", "Things an administrator should look at", None, vec![(Labels::new(), view.warnings.len() as f64)]);
        amount("queue_depth", "Jobs that wait, by user", None, self.depths());

        let gpu = |gpu: &crate::api::Gpu| {
            vec![("uuid", gpu.uuid.clone()), ("index", gpu.index.to_string()), ("type", gpu.kind.clone())]
        };
        let each = |value: &dyn Fn(&crate::api::Gpu) -> Option<f64>| {
            view.gpus.iter().filter_map(|device| Some((gpu(device), value(device)?))).collect::<Vec<_>>()
        };
        let ratio = || Some(Unit::Other("ratio".to_owned()));
        amount(
            "gpu_utilisation",
            "How busy a GPU is",
            ratio(),
            each(&|gpu| gpu.utilisation_percent.map(|busy| f64::from(busy) / 100.0)),
        );
        amount(
            "gpu_memory_used",
            "Memory in use",
            Some(Unit::Bytes),
            each(&|gpu| gpu.memory_used_mib.map(|mib| mib as f64 * MIB)),
        );
        amount("gpu_memory_total", "Memory there is", Some(Unit::Bytes), each(&|gpu| Some(gpu.memory_total_mib as f64 * MIB)));
        amount("gpu_power", "Power a GPU draws", Some(Unit::Other("watts".to_owned())), each(&|gpu| gpu.power_watts));
        amount("gpu_temperature", "Its temperature", Some(Unit::Celsius), each(&|gpu| gpu.temperature_c.map(f64::from)));
        amount("gpu_jobs", "Jobs on a GPU", None, each(&|gpu| Some(gpu.jobs.len() as f64)));
        let usable =
            |state: GpuState| f64::from(u8::from(!matches!(state, GpuState::Lost | GpuState::Drained | GpuState::Stranger)));
        amount("gpu_usable", "0 if a GPU is lost, drained, or a stranger is on it", None, each(&|gpu| Some(usable(gpu.state))));
        registry
    }

    fn depths(&self) -> Vec<(Labels, f64)> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|_, count| *count > 0);
        let mut depths = waiting.iter().map(|(user, count)| (user.clone(), *count)).collect::<Vec<_>>();
        drop(waiting);
        depths.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        let others = depths.iter().skip(USERS_MAX).map(|(_, count)| count).sum::<i64>();
        depths.truncate(USERS_MAX);
        depths.extend((others > 0).then(|| (OTHERS.to_owned(), others)));
        depths.into_iter().map(|(user, count)| (labelled("user", &user), count as f64)).collect()
    }
}
