//! Usage: the GPU hours of each user, project and GPU in some time, with their energy, their cost elsewhere, and how much of them was idle.
//!
//! GPU hours are GPUs × share × hours of the runs, cut to the time asked for. Energy and idle time of a run that lies in it whole are
//! those of the run; of one that reaches beyond it, or goes on, those of its samples in that time.

use crate::api::{GpuName, GpuUse, NamedUse, Usage, Use, WastefulJob};
use crate::clock::rfc3339;
use crate::past::runs::{Measure, RecordedRun};
use crate::store::{Archive, StoreError};
use rota_core::GpuCatalog;
use std::collections::{HashMap, HashSet};

/// Jobs with idle GPUs that are named.
const WASTE_MAX: usize = 20;
/// Users and projects that are named.
const NAMES_MAX: usize = 1000;

#[derive(Default)]
struct Sum {
    jobs: HashSet<u64>,
    gpu_hours: f64,
    energy_joules: Option<f64>,
    cost_usd: Option<f64>,
    idle_gpu_hours: Option<f64>,
}

fn add(sum: &mut Option<f64>, value: Option<f64>) {
    if let Some(value) = value {
        *sum.get_or_insert(0.0) += value;
    }
}

impl Sum {
    fn add(&mut self, job: u64, part: &Part) {
        self.jobs.insert(job);
        self.gpu_hours += part.gpu_hours;
        add(&mut self.energy_joules, part.energy_joules);
        add(&mut self.cost_usd, part.cost_usd);
        add(&mut self.idle_gpu_hours, part.idle_gpu_hours);
    }

    fn used(&self) -> Use {
        Use {
            jobs: self.jobs.len() as u64,
            gpu_hours: self.gpu_hours,
            energy_kwh: self.energy_joules.map(|joules| joules / 3.6e6),
            cost_usd: self.cost_usd,
            idle_gpu_hours: self.idle_gpu_hours,
        }
    }
}

/// What a run used of one GPU.
struct Part {
    gpu_hours: f64,
    energy_joules: Option<f64>,
    cost_usd: Option<f64>,
    idle_gpu_hours: Option<f64>,
}

/// Sums over runs.
#[derive(Default)]
struct Tally {
    usd_per_hour: HashMap<String, Option<f64>>,
    total: Sum,
    users: HashMap<String, Sum>,
    projects: HashMap<Option<String>, Sum>,
    gpus: HashMap<String, Sum>,
    waste: HashMap<u64, WastefulJob>,
}

impl Tally {
    /// Counts so many seconds of a run, of which `measure` was measured.
    fn take(&mut self, stay: &RecordedRun, seconds: f64, measure: &Measure) {
        let count = stay.gpus.len() as f64;
        let gpu_hours = seconds / 3600.0 * stay.share();
        let idle_gpu_hours = measure.idle_part().map(|part| part * gpu_hours);
        for gpu in &stay.gpus {
            let part = Part {
                gpu_hours,
                energy_joules: measure.energy_joules.map(|joules| joules / count),
                cost_usd: self.usd_per_hour.get(gpu).copied().flatten().map(|usd| usd * gpu_hours),
                idle_gpu_hours,
            };
            self.total.add(stay.job, &part);
            self.users.entry(stay.user.clone()).or_default().add(stay.job, &part);
            self.projects.entry(stay.project.clone()).or_default().add(stay.job, &part);
            self.gpus.entry(gpu.clone()).or_default().add(stay.job, &part);
        }
        if let Some(idle) = idle_gpu_hours.filter(|idle| *idle > 0.0) {
            let waste = self.waste.entry(stay.job).or_insert_with(|| WastefulJob {
                job: stay.job,
                name: stay.name.clone(),
                user: stay.user.clone(),
                idle_gpu_hours: 0.0,
            });
            waste.idle_gpu_hours += idle * count;
        }
    }

    fn usage(self, from_ns: i64, to_ns: i64, gpus: Vec<GpuName>, is_here: impl Fn(&str) -> bool) -> Usage {
        let mut waste = self.waste.into_values().collect::<Vec<_>>();
        waste.sort_by(|a, b| b.idle_gpu_hours.total_cmp(&a.idle_gpu_hours).then(a.job.cmp(&b.job)));
        waste.truncate(WASTE_MAX);
        let used = |gpu: GpuName| {
            let used = self.gpus.get(&gpu.uuid).map(Sum::used);
            let used = used.or_else(|| is_here(&gpu.uuid).then(Use::default))?;
            Some(GpuUse { uuid: gpu.uuid, index: gpu.index, kind: gpu.kind, used })
        };
        Usage {
            from: rfc3339(from_ns),
            to: rfc3339(to_ns),
            total: self.total.used(),
            users: largest_first(self.users.into_iter().map(|(name, sum)| (Some(name), sum))),
            projects: largest_first(self.projects.into_iter()),
            gpus: gpus.into_iter().filter_map(used).collect(),
            waste,
        }
    }
}

fn largest_first(sums: impl Iterator<Item = (Option<String>, Sum)>) -> Vec<NamedUse> {
    let mut named = sums.map(|(name, sum)| NamedUse { name, used: sum.used() }).collect::<Vec<_>>();
    named.sort_by(|a, b| b.used.gpu_hours.total_cmp(&a.used.gpu_hours).then_with(|| a.name.cmp(&b.name)));
    named.truncate(NAMES_MAX);
    named
}

/// What a run drew and idled in a part of it, as if both had been even all along.
fn prorated(stay: &RecordedRun, seconds: f64) -> Measure {
    let whole = stay.end_ns.map_or(0.0, |end| (end - stay.start_ns) as f64 / 1e9);
    let part = if whole > 0.0 { (seconds / whole).min(1.0) } else { 0.0 };
    let Measure { energy_joules, idle_s, known_s } = stay.measure;
    Measure { energy_joules: energy_joules.map(|joules| joules * part), idle_s: idle_s * part, known_s: known_s * part }
}

/// List price of a GPU type. Types that differ by their memory alone have that behind their name.
fn usd_per_hour(catalog: &GpuCatalog, kind: &str) -> Option<f64> {
    let base = || kind.rsplit_once('-').and_then(|(base, _)| catalog.get(base));
    catalog.get(kind).or_else(base).and_then(|kind| kind.usd_per_hour)
}

/// Sums over all runs between two moments.
pub fn usage(
    archive: &Archive,
    (from_ns, to_ns): (i64, i64),
    now_ns: i64,
    is_here: impl Fn(&str) -> bool,
) -> Result<Usage, StoreError> {
    let gpus = archive.gpus()?;
    let catalog = GpuCatalog::default();
    let mut tally = Tally {
        usd_per_hour: gpus.iter().map(|gpu| (gpu.uuid.clone(), usd_per_hour(&catalog, &gpu.kind))).collect(),
        ..Tally::default()
    };
    // Few: those that had their GPUs at one of the two ends.
    let mut beyond = Vec::new();
    archive.each_stay(from_ns, to_ns, usize::MAX >> 1, |stay| {
        let Some((start, end)) = stay.within(from_ns, to_ns, now_ns) else { return };
        if Some(end) == stay.end_ns && start == stay.start_ns {
            tally.take(&stay, (end - start) as f64 / 1e9, &stay.measure);
        } else {
            beyond.push((stay, start, end));
        }
    })?;
    for (stay, start, end) in beyond {
        let seconds = (end - start) as f64 / 1e9;
        let sampled = archive.sampled(stay.job, start, end)?.over(seconds, stay.gpus.len() as f64);
        tally.take(&stay, seconds, &sampled.unwrap_or_else(|| prorated(&stay, seconds)));
    }
    Ok(tally.usage(from_ns, to_ns, gpus, is_here))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000_000;

    fn stay(job: u64, user: &str, gpus: &[&str], hours: (i64, i64), measure: Measure) -> RecordedRun {
        RecordedRun {
            job,
            user: user.to_owned(),
            name: None,
            project: job.is_multiple_of(2).then(|| "even".to_owned()),
            gpus: gpus.iter().map(|gpu| (*gpu).to_owned()).collect(),
            share_milli: 1000,
            start_ns: hours.0 * HOUR,
            end_ns: Some(hours.1 * HOUR),
            end: Some("finished".to_owned()),
            measure,
        }
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn sums_by_user_project_and_gpu_are_parts_of_one_total() {
        let mut tally = Tally {
            usd_per_hour: [("a".to_owned(), Some(2.0)), ("b".to_owned(), Some(2.0)), ("c".to_owned(), None)].into(),
            ..Tally::default()
        };
        let busy = Measure { energy_joules: Some(3.6e6), idle_s: 0.0, known_s: 7200.0 };
        let lazy = Measure { energy_joules: None, idle_s: 900.0, known_s: 3600.0 };
        tally.take(&stay(1, "ann", &["a", "b"], (0, 2), busy), 7200.0, &busy);
        tally.take(&stay(2, "bob", &["c"], (0, 4), lazy), 4.0 * 3600.0, &lazy);
        let half = RecordedRun { share_milli: 500, ..stay(2, "bob", &["a"], (4, 6), Measure::default()) };
        tally.take(&half, 7200.0, &Measure::default());
        let names = ["a", "b", "c", "gone"].map(|uuid| GpuName {
            uuid: uuid.to_owned(),
            index: 0,
            name: String::new(),
            kind: String::new(),
        });
        let usage = tally.usage(0, 6 * HOUR, names.to_vec(), |uuid| uuid != "gone");
        assert_eq!(usage.total.jobs, 2);
        assert!(near(usage.total.gpu_hours, 4.0 + 4.0 + 1.0));
        assert!(near(usage.total.energy_kwh.unwrap(), 1.0));
        assert!(near(usage.total.cost_usd.unwrap(), 8.0 + 2.0));
        assert!(near(usage.total.idle_gpu_hours.unwrap(), 1.0));
        assert_eq!(usage.users.iter().map(|user| user.name.as_deref().unwrap()).collect::<Vec<_>>(), ["bob", "ann"]);
        assert_eq!(usage.projects.iter().map(|project| project.name.as_deref()).collect::<Vec<_>>(), [Some("even"), None]);
        assert!(near(usage.users.iter().map(|user| user.used.gpu_hours).sum::<f64>(), usage.total.gpu_hours));
        assert!(near(usage.gpus.iter().map(|gpu| gpu.used.gpu_hours).sum::<f64>(), usage.total.gpu_hours));
        assert_eq!(usage.gpus.len(), 3);
        // An unknown price is not 0, and neither is use that was not measured.
        assert_eq!((usage.gpus[2].used.cost_usd, usage.gpus[1].used.idle_gpu_hours), (None, Some(0.0)));
        assert_eq!((usage.waste.len(), usage.waste[0].job), (1, 2));
    }

    #[test]
    fn a_run_cut_short_has_its_part_of_what_was_measured() {
        let measure = Measure { energy_joules: Some(100.0), idle_s: 10.0, known_s: 40.0 };
        let part = prorated(&stay(1, "ann", &["a"], (0, 4), measure), 3600.0);
        assert!(near(part.energy_joules.unwrap(), 25.0));
        assert!(near(part.idle_part().unwrap(), 0.25));
        let going_on = RecordedRun { end_ns: None, ..stay(1, "ann", &["a"], (0, 4), Measure::default()) };
        assert_eq!(prorated(&going_on, 3600.0).idle_part(), None);
    }

    #[test]
    fn types_with_their_memory_behind_them_have_the_price_of_the_type() {
        let catalog = GpuCatalog::default();
        assert_eq!(usd_per_hour(&catalog, "v100"), usd_per_hour(&catalog, "v100-16g"));
        assert!(usd_per_hour(&catalog, "v100").is_some());
        assert_eq!(usd_per_hour(&catalog, "nonesuch-16g"), None);
    }
}
