//! Reads the published traces kept beside the repository and compares them with what is known of them.

use crate::estimate::{EstimateOptions, cross_validate};
use crate::generate::{GavelContinuous, GavelJob, GavelStatic};
use crate::{Format, Loaded, ReadOptions, default_throughputs, read, read_throughputs};
use rota_core::ThroughputTable;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A file of the reference data; `None` with a word to the reader where there is none, which CI does not allow.
fn data(path: &str) -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    if root.is_dir() {
        return Some(root.join(path));
    }
    assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "the reference data is missing at {}", root.display());
    println!("skipped: no reference data at {}", root.display());
    None
}

fn load(path: &str) -> Option<Loaded> {
    data(path).map(|path| read(&path, &ReadOptions::default()).unwrap())
}

#[test]
fn parity_philly_has_its_known_size() {
    let Some(loaded) = load("philly/philly.csv") else { return };
    let jobs = &loaded.workload.jobs;
    assert_eq!((loaded.format, jobs.len()), (Format::Philly, 82_247));
    let gpu_seconds = jobs.iter().map(|job| u128::from(job.work.0) * u128::from(job.gpus)).sum::<u128>() / 1_000_000_000;
    assert_eq!(gpu_seconds, 3_521_082_502);
    let mut gangs = BTreeMap::new();
    for job in jobs {
        *gangs.entry(job.gpus).or_insert(0) += 1;
    }
    let expected = [(1, 76_627), (2, 1818), (4, 1870), (8, 1643), (12, 7), (16, 199), (24, 7), (32, 67), (64, 6), (128, 3)];
    assert_eq!(gangs, BTreeMap::from(expected));
    assert_eq!(loaded.notes, ["time zero is 2017-09-04 10:30:41"]);
    assert!(jobs.is_sorted_by_key(|job| job.arrival) && jobs[0].arrival.0 == 0);
}

#[test]
fn parity_gavel_traces_have_their_number_of_lines() {
    for (name, format, count) in [
        ("103959.trace", Format::Gavel10, 861),
        ("6214e9.trace", Format::Gavel10, 1985),
        ("artifact_evaluation.trace", Format::Gavel10, 15),
        ("debug.trace", Format::Gavel10, 14),
        ("max_min_fairness.trace", Format::Gavel10, 96),
        ("medium_test.trace", Format::Gavel10, 20),
        ("small_test.trace", Format::Gavel10, 20),
        ("continuous_lam1800_seed0_multi_1500.tsv", Format::GavelTsv, 1500),
        ("static_n60_seed0_single.tsv", Format::GavelTsv, 60),
    ] {
        let Some(loaded) = load(&format!("gavel/traces/{name}")) else { return };
        assert_eq!((loaded.format, loaded.workload.jobs.len()), (format, count), "{name}");
        assert!(loaded.workload.jobs.iter().all(|job| job.label.is_none()), "{name}");
    }
}

/// Gavel draws a duration and multiplies it with the V100's throughput to get steps: our table must give it back.
#[test]
fn parity_steps_over_throughput_are_the_drawn_durations() {
    let Some(loaded) = load("gavel/traces/continuous_lam1800_seed0_multi_1500.tsv") else { return };
    let table = default_throughputs();
    for job in &loaded.workload.jobs {
        let job_type = loaded.workload.names.text(job.kind);
        let speed = table.get(job_type, job.gpus, "v100").unwrap();
        assert!((job.steps / speed / job.work.seconds() - 1.0).abs() < 1e-9, "{job:?}");
    }
}

fn gavel_speeds(file: &str) -> Option<ThroughputTable> {
    data(&format!("gavel/{file}")).map(|path| read_throughputs(&path).unwrap())
}

/// Compares drawn jobs with a workload that Gavel made, bit by bit.
fn assert_same_draws(drawn: impl Iterator<Item = GavelJob>, path: &str) {
    let Some(path) = data(path) else { return };
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some("job_id\tarrival_s\tmodel\tscale_factor\ttotal_steps\tduration_v100_s\tpriority\tslo_mult"),
        "the columns are read by position"
    );
    let bits = |text: &str| text.parse::<f64>().unwrap().to_bits();
    let mut drawn = drawn;
    for (number, line) in lines.enumerate() {
        let columns = line.split('\t').collect::<Vec<_>>();
        let job = drawn.next().unwrap();
        assert_eq!(columns[0], number.to_string());
        assert_eq!(columns[2..4], [job.job_type, &job.gpus.to_string()], "{line}");
        let expected = [columns[1], columns[4], columns[5], columns[6]].map(bits);
        let numbers = [job.arrival_seconds, job.steps, job.duration_seconds, job.weight].map(f64::to_bits);
        assert_eq!(numbers, expected, "{line}\n{job:?}");
        assert_eq!((columns[7], job.slo_multiple), ("None", None));
    }
    assert_eq!(drawn.next(), None);
}

#[test]
fn parity_gavel_continuous_is_drawn_bit_by_bit() {
    let Some(speeds) = gavel_speeds("simulation_throughputs.json") else { return };
    let config = GavelContinuous { jobs: 1500, jobs_per_hour: 3600.0 / 1800.0, multi_gpu: true, ..GavelContinuous::default() };
    for table in [speeds, default_throughputs()] {
        assert_same_draws(config.draw(0, &table).unwrap(), "gavel/traces/continuous_lam1800_seed0_multi_1500.tsv");
    }
}

#[test]
fn parity_gavel_static_is_drawn_bit_by_bit() {
    let Some(speeds) = gavel_speeds("simulation_throughputs.json") else { return };
    let config = GavelStatic { jobs: 60, ..GavelStatic::default() };
    assert_same_draws(config.draw(0, &speeds).unwrap(), "gavel/traces/static_n60_seed0_single.tsv");
}

#[test]
fn parity_gavel_throughputs_are_read_whole() {
    let Some(table) = gavel_speeds("simulation_throughputs.json") else { return };
    assert_eq!(table.gpu_types().into_iter().collect::<Vec<_>>(), ["k80", "p100", "v100"]);
    let built_in = default_throughputs();
    assert_eq!(table.job_types(), built_in.job_types());
    let gangs = table
        .job_types()
        .into_iter()
        .flat_map(|job_type| table.gang_sizes(job_type).into_iter().map(move |gpus| (job_type, gpus)));
    let gangs = gangs.collect::<Vec<_>>();
    assert_eq!(gangs.len(), 83);
    for gpu_type in table.gpu_types() {
        for &(job_type, gpus) in &gangs {
            let speed = table.get(job_type, gpus, gpu_type).map(f64::to_bits);
            assert_eq!(speed, built_in.get(job_type, gpus, gpu_type).map(f64::to_bits), "{job_type} {gpus} {gpu_type}");
        }
        let spread = gangs.iter().filter(|(job_type, gpus)| table.get_spread(job_type, *gpus, gpu_type).is_some()).count();
        assert_eq!(spread, if gpu_type == "k80" { 77 } else { 83 });
        let pairs = gangs.iter().flat_map(|&first| gangs.iter().map(move |&second| (first, second)));
        let known =
            pairs.filter_map(|(first, second)| Some((first.1, table.get_pair(first, second, gpu_type)?))).collect::<Vec<_>>();
        assert_eq!(known.len(), 26 * 26 + 3 * 19 * 19);
        let none = known.iter().filter(|&&(gpus, speeds)| gpus == 1 && speeds.0 <= 0.0 && speeds.1 <= 0.0).count();
        assert_eq!(
            none,
            match gpu_type {
                "v100" => 40,
                "p100" => 20,
                _ => 87,
            },
            "{gpu_type}"
        );
    }
    let (resnet_16, resnet_32) = (("ResNet-18 (batch size 16)", 1), ("ResNet-18 (batch size 32)", 1));
    assert_eq!(table.get_pair(resnet_32, resnet_16, "k80"), Some((3.120_192_544_882_703_3, 2.539_979_567_443_098)));
    let physical = gavel_speeds("physical_cluster_throughputs.json").unwrap();
    assert_eq!(physical.get("ResNet-50 (batch size 128)", 1, "k80"), Some(0.0));
}

/// On Gavel's table the estimates must be worth their trouble: clearly better than guessing the mean, the better the more is known.
#[test]
fn parity_estimates_beat_the_mean_on_gavels_table() {
    let Some(table) = gavel_speeds("simulation_throughputs.json") else { return };
    let mean_error = |holdout: f64, references: Option<u32>| {
        let found = cross_validate(&table, &EstimateOptions { seed: 0, references, holdout }).unwrap();
        assert_eq!(found.types.len(), 26 + 3 * 19);
        let errors = found.errors.unwrap();
        println!("{holdout} held out, {references:?} references: {errors:?}");
        assert!(errors.mean < 0.8 * errors.guess_mean, "{errors:?}");
        errors.mean
    };
    let (half, most) = (mean_error(0.5, None), mean_error(0.9, None));
    assert!(half < 0.045 && most < 0.06 && half < most, "{half} {most}");
    assert!(mean_error(0.5, Some(12)) < 0.05);
}
