//! What the board says of the jobs on the nodes of allocations, and of those that wait for some.

use super::demand::Need;
use crate::api::JobState;
use crate::store::record::JobRecord;
use crate::view::board::View;
use std::collections::HashSet;
use std::sync::Arc;

/// What the waiting jobs need, in the order in which they came.
pub(super) fn needs(view: &View) -> Vec<Need> {
    let could_start = |record: &&Arc<JobRecord>| {
        record.state == JobState::Waiting
            && record.not_before.is_none()
            && record.spec.ask.gpus > 0
            && record.spec.ask.gpu_ids.is_empty()
            && !record.spec.ask.after.iter().any(|after| view.jobs.contains_key(&after.id))
    };
    let need = |record: &Arc<JobRecord>| {
        let ask = &record.spec.ask;
        Need { gpus: ask.gpus, kinds: ask.gpu_types.clone() }
    };
    view.jobs.values().filter(could_start).map(need).collect()
}

/// The nodes that jobs have GPUs of, also where no look has shown the jobs yet.
pub(super) fn busy_nodes(view: &View) -> HashSet<String> {
    let held = view.jobs.values().filter(|record| record.state.has_gpus()).flat_map(|record| &record.gpu_uuids);
    let held = held.collect::<HashSet<_>>();
    view.gpus.iter().filter(|gpu| !gpu.jobs.is_empty() || held.contains(&gpu.uuid)).map(|gpu| gpu.node.clone()).collect()
}

/// The nodes on which there are jobs that begin anew when they are ended.
pub(super) fn nodes_of_jobs_that_do_not_save(view: &View) -> HashSet<String> {
    let saves = |job: &u64| view.jobs.get(job).is_some_and(|record| record.spec.ask.preemptible);
    view.gpus.iter().filter(|gpu| !gpu.jobs.iter().all(saves)).map(|gpu| gpu.node.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Gpu, GpuState};
    use crate::store::journal::{Stamp, Submission};

    fn gpu(uuid: &str, node: &str) -> Gpu {
        Gpu {
            index: 0,
            uuid: uuid.to_owned(),
            name: String::new(),
            kind: "k80".to_owned(),
            node: node.to_owned(),
            state: GpuState::Free,
            memory_total_mib: 0,
            memory_used_mib: None,
            utilisation_percent: None,
            memory_utilisation_percent: None,
            power_watts: None,
            temperature_c: None,
            jobs: Vec::new(),
            processes: Vec::new(),
        }
    }

    #[test]
    fn a_node_is_busy_from_the_start_of_a_job_on_though_no_look_has_shown_it() {
        let request =
            Submission { uid: 0, user: "ada".to_owned(), gpus: 1, env_id: 0, memory_mib: None, group: None, spec: None };
        let mut record = JobRecord::new(5, &request, Stamp { at: 0, wall_ns: 0 });
        (record.state, record.gpu_uuids) = (JobState::Starting, vec!["GPU-1".to_owned()]);
        let mut view = View::default();
        view.gpus.extend([gpu("GPU-1", "k1.a1"), gpu("GPU-2", "v1.a2")]);
        assert!(busy_nodes(&view).is_empty());
        view.jobs.insert(5, Arc::new(record));
        assert_eq!(busy_nodes(&view), HashSet::from(["k1.a1".to_owned()]));
    }
}
