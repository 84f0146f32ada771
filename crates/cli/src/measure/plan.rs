//! What is measured, in which order: speeds alone come first, because pairs mean nothing without them.

use super::workloads::Workload;
use crate::args::MeasuredKind;
use rota_core::ThroughputTable;
use std::collections::BTreeMap;

/// One measurement: one workload, or two that share the GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    pub gpu_type: String,
    /// How many GPUs.
    pub gpus: u32,
    /// Numbers of the workloads.
    pub jobs: Vec<usize>,
}

/// All measurements that a table lacks. Those of one GPU type and gang size are next to each other.
pub fn trials(
    workloads: &[Workload],
    gpus: &BTreeMap<String, Vec<u32>>,
    kinds: &[MeasuredKind],
    gangs: &[u32],
    known: &ThroughputTable,
) -> Vec<Trial> {
    let mut trials = Vec::new();
    let measures = |kind| kinds.contains(&kind);
    for (gpu_type, indices) in gpus {
        let mut add = |gpus: u32, jobs: Vec<usize>| trials.push(Trial { gpu_type: gpu_type.clone(), gpus, jobs });
        let numbers = 0..workloads.len();
        // A pair without the speeds alone could not be read back.
        if measures(MeasuredKind::Alone) || measures(MeasuredKind::Pairs) {
            numbers.clone().for_each(|job| add(1, vec![job]));
        }
        if measures(MeasuredKind::Pairs) {
            numbers
                .clone()
                .flat_map(|first| (first..workloads.len()).map(move |second| vec![first, second]))
                .for_each(|pair| add(1, pair));
        }
        if measures(MeasuredKind::Gangs) {
            let mut sizes = gangs.to_vec();
            sizes.sort_unstable();
            sizes.dedup();
            for size in sizes.into_iter().filter(|size| usize::try_from(*size).is_ok_and(|size| size <= indices.len())) {
                numbers.clone().filter(|job| workloads[*job].gangs).for_each(|job| add(size, vec![job]));
            }
        }
    }
    let is_known = |trial: &Trial| {
        let gang = |job: usize| (workloads[job].job_type.as_str(), trial.gpus);
        match trial.jobs[..] {
            [first, second] => known.get_pair(gang(first), gang(second), &trial.gpu_type).is_some(),
            [only] => known.get(gang(only).0, trial.gpus, &trial.gpu_type).is_some(),
            _ => false,
        }
    };
    trials.retain(|trial| !is_known(trial));
    trials
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(name: &str, gangs: bool) -> Workload {
        Workload { job_type: name.to_owned(), directory: "/".into(), command: vec!["true".to_owned()], gangs }
    }

    #[test]
    fn everything_is_measured_once() {
        use MeasuredKind::{Alone, Gangs, Pairs};
        let workloads = [workload("a", true), workload("b", false)];
        let gpus = BTreeMap::from([("a100".to_owned(), vec![0, 1, 2]), ("t4".to_owned(), vec![3])]);
        let mut known = ThroughputTable::new("known");
        let shown = |kinds: &[MeasuredKind], known: &ThroughputTable| {
            let all = trials(&workloads, &gpus, kinds, &[4, 2, 2], known);
            all.into_iter().map(|trial| format!("{}:{} {:?}", trial.gpu_type, trial.gpus, trial.jobs)).collect::<Vec<_>>()
        };
        let a100 = ["a100:1 [0]", "a100:1 [1]", "a100:1 [0, 0]", "a100:1 [0, 1]", "a100:1 [1, 1]", "a100:2 [0]"];
        let t4 = ["t4:1 [0]", "t4:1 [1]", "t4:1 [0, 0]", "t4:1 [0, 1]", "t4:1 [1, 1]"];
        assert_eq!(shown(&[Alone, Pairs, Gangs], &known), [&a100[..], &t4[..]].concat());
        assert_eq!(shown(&[Gangs], &known), ["a100:2 [0]"]);
        assert_eq!(shown(&[Pairs], &known).len(), 10);
        known.insert("a", 1, "t4", 2.0);
        known.insert_pair(("a", 1), ("b", 1), "a100", (1.0, 1.0));
        let rest = shown(&[Alone, Pairs], &known);
        assert_eq!(rest.len(), 8);
        assert!(!rest.contains(&"t4:1 [0]".to_owned()) && !rest.contains(&"a100:1 [0, 1]".to_owned()), "{rest:?}");
    }
}
