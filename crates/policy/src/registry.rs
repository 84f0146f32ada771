//! The list of all policies. One line here makes a policy known to `rota sim`, `rota sweep`, `rota policies` and the live queue.

use crate::params::{Param, Params, PolicyError};
use crate::{Policy, fcfs, gittins, lag, las, lottery, priority, rr, sjf, srtf, wfq};

/// What a policy is, for people and for the command line.
pub struct PolicyInfo {
    /// Its name.
    pub name: &'static str,
    /// Other names it answers to.
    pub aliases: &'static [&'static str],
    /// What it does, in one line.
    pub summary: &'static str,
    /// Its parameters.
    pub params: &'static [Param],
    /// Whether it stops running jobs.
    pub preemptive: bool,
    /// Whether it puts jobs together on a GPU by itself (shares given by the job are always honoured).
    pub packs: bool,
    /// Whether it weighs the speed of jobs on different GPU types.
    pub heterogeneity_aware: bool,
    build: fn(&Params<'_>) -> Result<Box<dyn Policy>, PolicyError>,
}

const PLAIN: PolicyInfo = PolicyInfo {
    name: "",
    aliases: &[],
    summary: "",
    params: &[],
    preemptive: false,
    packs: false,
    heterogeneity_aware: false,
    build: fcfs::build,
};

/// Every policy there is.
#[rustfmt::skip]
pub const POLICIES: &[PolicyInfo] = &[
    PolicyInfo { name: "fcfs", summary: "first come, first served", params: fcfs::PARAMS, build: fcfs::build, ..PLAIN },
    PolicyInfo { name: "sjf", summary: "shortest job first, by estimate", params: sjf::PARAMS, build: sjf::build, ..PLAIN },
    PolicyInfo { name: "srtf", summary: "shortest remaining time first", params: srtf::PARAMS, preemptive: true, build: srtf::build, ..PLAIN },
    PolicyInfo { name: "rr", aliases: &["round-robin"], summary: "round robin: everybody a quantum in turn", params: rr::PARAMS, preemptive: true, build: rr::build, ..PLAIN },
    PolicyInfo { name: "lottery", summary: "a draw by tickets at every decision; with rounds, every round", params: lottery::PARAMS, preemptive: true, build: lottery::build, ..PLAIN },
    PolicyInfo { name: "wfq", summary: "weighted fair queueing: smallest virtual finish time first", params: wfq::PARAMS, build: wfq::build, ..PLAIN },
    PolicyInfo { name: "priority", summary: "largest priority first, growing with the time waited", params: priority::PARAMS, preemptive: true, build: priority::build, ..PLAIN },
    PolicyInfo { name: "least-loaded", summary: "in order of arrival, each job on the GPUs that have worked least", params: fcfs::LEAST_LOADED_PARAMS, build: fcfs::build_least_loaded, ..PLAIN },
    PolicyInfo { name: "random", summary: "any waiting job on any free GPU, the baseline for all others", params: lottery::RANDOM_PARAMS, build: lottery::build_random, ..PLAIN },
    PolicyInfo { name: "las", aliases: &["tiresias"], summary: "least attained GPU time first, in queues with demotion and promotion", params: las::PARAMS, preemptive: true, build: las::build, ..PLAIN },
    PolicyInfo { name: "gittins", summary: "Gittins index: most likely to end soon for the GPU time received, learned from jobs that ended", params: gittins::PARAMS, preemptive: true, build: gittins::build, ..PLAIN },
    PolicyInfo { name: "lag-match", summary: "each job on the GPU type where it gains most, and nobody behind a fair share for long", params: lag::MATCH_PARAMS, preemptive: true, heterogeneity_aware: true, build: lag::build_match, ..PLAIN },
    PolicyInfo { name: "lag-gittins", summary: "lag-match that also goes by uncertain estimates", params: lag::GITTINS_PARAMS, preemptive: true, heterogeneity_aware: true, build: lag::build_gittins, ..PLAIN },
    PolicyInfo { name: "lag-srsf", summary: "lag-match that knows how long jobs still run", params: lag::SRSF_PARAMS, preemptive: true, heterogeneity_aware: true, build: lag::build_srsf, ..PLAIN },
];

/// The policy of a name or alias.
pub fn find(name: &str) -> Result<&'static PolicyInfo, PolicyError> {
    POLICIES.iter().find(|info| info.name == name || info.aliases.contains(&name)).ok_or_else(|| {
        let known = POLICIES.iter().map(|info| format!("`{}`", info.name)).collect::<Vec<_>>().join(", ");
        PolicyError::UnknownPolicy { given: name.to_owned(), known }
    })
}

/// Makes the policy that `name:key=value,…` describes.
pub fn build(spec: &str) -> Result<Box<dyn Policy>, PolicyError> {
    let (name, params) = spec.split_once(':').unwrap_or((spec, ""));
    let info = find(name)?;
    (info.build)(&Params::parse(info.name, info.params, params)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(spec: &str) -> String {
        build(spec).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn every_policy_builds_with_its_defaults_and_every_name_is_unique() {
        let mut names = Vec::new();
        for info in POLICIES {
            assert_eq!(message(info.name), "");
            names.extend(std::iter::once(info.name).chain(info.aliases.iter().copied()));
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn mistakes_are_answered_with_what_would_be_right() {
        assert!(message("fcsf").starts_with("unknown policy `fcsf`; known are `fcfs`, `sjf`"));
        assert_eq!(message("rr:quantom=3"), "policy `rr` has no parameter `quantom`; it knows `quantum`");
        assert_eq!(message("rr:quantum"), "policy `rr`: `quantum` is not of the form `key=value`, each key once");
        assert!(message("rr:quantum=0").contains("must be a number from"));
        assert!(message("rr:quantum=NaN").contains("must be a number from"));
        assert!(message("rr:quantum=3,quantum=4").contains("each key once"));
        assert!(message("fcfs:backfill=eesy").contains("one of none, greedy, easy, conservative"));
    }
}
