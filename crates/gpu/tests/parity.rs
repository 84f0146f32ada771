//! The curves of power caps against the measurements they are means of, which lie beside the repository.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test that cannot go on has failed; figures are for the reader")]

use std::collections::BTreeMap;
use std::path::PathBuf;

/// The folder of reference data; `None` with a word to the reader where there is none, which CI does not allow.
fn reference() -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/power");
    if root.is_dir() {
        return Some(root);
    }
    assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "the reference data is missing at {}", root.display());
    println!("skipped: no reference data at {}", root.display());
    None
}

/// Time per epoch and power of each training at each limit (in whole watts).
fn trainings(text: &str) -> BTreeMap<String, BTreeMap<u32, (f64, f64)>> {
    let mut trainings = BTreeMap::<String, BTreeMap<u32, (f64, f64)>>::new();
    for line in text.lines().skip(1) {
        let cells = line.split(',').collect::<Vec<_>>();
        let number = |place: usize| cells[place].parse::<f64>().unwrap();
        trainings.entry(cells[..4].join(",")).or_default().insert(number(4) as u32, (number(5), number(6)));
    }
    trainings
}

/// The geometric mean.
fn mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

#[test]
fn parity_of_the_curves_with_the_measured_sweeps() {
    let Some(root) = reference() else { return };
    for kind in rota_gpu::measured_kinds() {
        let text = std::fs::read_to_string(root.join(format!("summary_power_{kind}.csv"))).unwrap();
        let trainings = trainings(&text);
        let highest = trainings.values().flat_map(|limits| limits.keys()).max().copied().unwrap();
        let limits = trainings.values().flat_map(|limits| limits.keys().copied()).collect::<std::collections::BTreeSet<_>>();
        for watts in limits {
            let pairs = trainings.values().filter_map(|limits| Some((limits.get(&watts)?, limits.get(&highest)?)));
            let pairs = pairs.collect::<Vec<_>>();
            let speed = mean(&pairs.iter().map(|(here, top)| top.0 / here.0).collect::<Vec<_>>());
            let power = mean(&pairs.iter().map(|(here, top)| here.1 / top.1).collect::<Vec<_>>());
            let effect = rota_gpu::effect_of(kind, f64::from(watts)).unwrap();
            // A limit below the highest makes no GPU faster: the little that was measured so is noise, and left out of the table.
            assert!((effect.speed - speed).abs() < 0.006, "{kind} at {watts} W: speed {speed:.3}, table {}", effect.speed);
            assert!((effect.power - power).abs() < 0.002, "{kind} at {watts} W: power {power:.3}, table {}", effect.power);
        }
    }
}
