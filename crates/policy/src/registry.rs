//! The list of all policies. One line here makes a policy known to `rota sim`, `rota sweep`, `rota policies` and the live queue.

use crate::gavel::{allox, fifo};
use crate::lag::matching as lag;
use crate::order::batch_rules::{self, BatchRule};
use crate::order::by_history::ReservesByHistory;
use crate::order::{fcfs, gittins, las, lottery, priority, rr, sjf, srsf, srtf, wfq};
use crate::params::{Param, Params, PolicyError};
use crate::share::sharing::{BY_TYPE, Merit, Renewal, Sharing, Sight, Turns};
use crate::share::time_sharing as share;
use crate::{MemoryError, Policy};
use rota_core::{Backfill, Durations};
use std::sync::{Arc, LazyLock};

/// What a policy needs to know of how long jobs run, where their users gave no estimate. A policy with the parameter `estimates` needs
/// none of it with `estimates=history`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knows {
    /// The policy is told nothing of how long jobs run.
    Nothing,
    /// How long jobs run, for reservations (`backfill=easy` and `backfill=conservative`) and nothing else.
    ForReservations,
    /// How long jobs run.
    Durations,
}

type BuildFunction = fn(&Params<'_>) -> Result<Box<dyn Policy>, PolicyError>;
type BuildClosure = dyn Fn(&Params<'_>) -> Result<Box<dyn Policy>, PolicyError> + Send + Sync;

/// How a policy is made from its parameters.
#[derive(Clone)]
pub enum Build {
    /// From the parameters alone.
    Function(BuildFunction),
    /// From something the caller has beside: a policy that was learned needs its file.
    Closure(Arc<BuildClosure>),
}

/// What a policy is, for people and for the command line.
#[derive(Clone)]
pub struct PolicyInfo {
    /// The policy's name.
    pub name: &'static str,
    /// Other names it answers to.
    pub aliases: &'static [&'static str],
    /// What it does, in one line.
    pub summary: &'static str,
    /// The policy's parameters.
    pub params: &'static [Param],
    /// Whether it stops running jobs.
    pub preemptive: bool,
    /// Whether it puts jobs together on a GPU by itself (shares given by the job are always honoured).
    pub packs: bool,
    /// Whether it weighs the speed of jobs on different GPU types.
    pub heterogeneity_aware: bool,
    /// What it needs to know of how long jobs run.
    pub knows: Knows,
    /// How it is made.
    pub build: Build,
}

impl PolicyInfo {
    /// Whether the policy can go by what earlier jobs taught (`estimates=history`).
    pub fn can_go_by_history(&self) -> bool {
        self.params.iter().any(|param| param.name == "estimates")
    }
}

/// A row of the registry to begin with.
pub const PLAIN: PolicyInfo = PolicyInfo {
    name: "",
    aliases: &[],
    summary: "",
    params: &[],
    preemptive: false,
    packs: false,
    heterogeneity_aware: false,
    knows: Knows::Nothing,
    build: Build::Function(fcfs::build),
};

/// Jobs wait about as long for their next turn, whatever their share.
const EVEN_TURNS: Sharing = Sharing { turns: Turns::Even, ..BY_TYPE };
/// GPUs are taken to be alike.
const BLIND: Sharing = Sharing { sight: Sight::Blind, ..BY_TYPE };
/// The allocation depends on what jobs have done.
const EVERY_ROUND: Sharing = Sharing { renewal: Renewal::EveryRound, ..BY_TYPE };
/// GPUs are taken to be alike, and the allocation depends on what jobs have done.
const BLIND_EVERY_ROUND: Sharing = Sharing { renewal: Renewal::EveryRound, ..BLIND };
/// Throughput is all that counts: what falls free inside a round goes to the job that would be done with it soonest.
const OWES_NOTHING: Sharing = Sharing { merit_between: Merit::Shortness, ..BY_TYPE };
/// The same, and the allocation depends on what jobs have done.
const OWES_NOTHING_EVERY_ROUND: Sharing = Sharing { renewal: Renewal::EveryRound, ..OWES_NOTHING };

/// Every policy that needs nothing but its parameters.
#[rustfmt::skip]
const BUILTIN: &[PolicyInfo] = &[
    PolicyInfo { name: "fcfs", summary: "first come, first served", params: fcfs::PARAMS, knows: Knows::ForReservations, build: Build::Function(fcfs::build), ..PLAIN },
    PolicyInfo { name: "sjf", summary: "shortest job first, by estimate", params: sjf::PARAMS, knows: Knows::Durations, build: Build::Function(sjf::build), ..PLAIN },
    PolicyInfo { name: "srtf", summary: "shortest remaining time first", params: srtf::PARAMS, preemptive: true, knows: Knows::Durations, build: Build::Function(srtf::build), ..PLAIN },
    PolicyInfo { name: "rr", aliases: &["round-robin"], summary: "round robin: everybody a quantum in turn", params: rr::PARAMS, preemptive: true, build: Build::Function(rr::build), ..PLAIN },
    PolicyInfo { name: "lottery", summary: "a draw by tickets at every decision; with rounds, every round", params: lottery::PARAMS, preemptive: true, knows: Knows::ForReservations, build: Build::Function(lottery::build), ..PLAIN },
    PolicyInfo { name: "wfq", summary: "weighted fair queueing: smallest virtual finish time first", params: wfq::PARAMS, knows: Knows::Durations, build: Build::Function(wfq::build), ..PLAIN },
    PolicyInfo { name: "priority", summary: "largest priority first, growing with the time waited", params: priority::PARAMS, preemptive: true, knows: Knows::ForReservations, build: Build::Function(priority::build), ..PLAIN },
    PolicyInfo { name: "least-loaded", summary: "in order of arrival, each job on the GPUs that have worked least", params: fcfs::LEAST_LOADED_PARAMS, knows: Knows::ForReservations, build: Build::Function(fcfs::build_least_loaded), ..PLAIN },
    PolicyInfo { name: "random", summary: "any waiting job on any free GPU, the baseline for all others", params: lottery::RANDOM_PARAMS, knows: Knows::ForReservations, build: Build::Function(lottery::build_random), ..PLAIN },
    PolicyInfo { name: "las", aliases: &["tiresias"], summary: "least attained GPU time first, in queues with demotion and promotion", params: las::PARAMS, preemptive: true, build: Build::Function(las::build), ..PLAIN },
    PolicyInfo { name: "gittins", summary: "Gittins index: most likely to end soon for the GPU time received, learned from jobs that ended", params: gittins::PARAMS, preemptive: true, build: Build::Function(gittins::build), ..PLAIN },
    PolicyInfo { name: "srsf", summary: "smallest remaining GPU time first (time left × GPUs)", params: srsf::PARAMS, preemptive: true, knows: Knows::Durations, build: Build::Function(srsf::build), ..PLAIN },
    PolicyInfo { name: "saf", summary: "smallest area first: estimate × GPUs", params: batch_rules::PARAMS, knows: Knows::Durations, build: Build::Function(|params| batch_rules::build(BatchRule::Saf, params)), ..PLAIN },
    PolicyInfo { name: "f1", summary: "batch rule F1: log(estimate) × GPUs, earlier submissions first", params: batch_rules::PARAMS, knows: Knows::Durations, build: Build::Function(|params| batch_rules::build(BatchRule::F1, params)), ..PLAIN },
    PolicyInfo { name: "f2", summary: "batch rule F2: √estimate × GPUs, earlier submissions first", params: batch_rules::PARAMS, knows: Knows::Durations, build: Build::Function(|params| batch_rules::build(BatchRule::F2, params)), ..PLAIN },
    PolicyInfo { name: "f3", summary: "batch rule F3: estimate × GPUs, earlier submissions first", params: batch_rules::PARAMS, knows: Knows::Durations, build: Build::Function(|params| batch_rules::build(BatchRule::F3, params)), ..PLAIN },
    PolicyInfo { name: "f4", summary: "batch rule F4: estimate × √GPUs, earlier submissions first", params: batch_rules::PARAMS, knows: Knows::Durations, build: Build::Function(|params| batch_rules::build(BatchRule::F4, params)), ..PLAIN },
    PolicyInfo { name: "wfp3", summary: "batch rule WFP3: longest wait for its estimate first, wide jobs before narrow ones", params: batch_rules::PARAMS, knows: Knows::Durations, build: Build::Function(|params| batch_rules::build(BatchRule::Wfp3, params)), ..PLAIN },
    PolicyInfo { name: "unicep", summary: "batch rule UNICEP: longest wait for its estimate first, narrow jobs before wide ones", params: batch_rules::PARAMS, knows: Knows::Durations, build: Build::Function(|params| batch_rules::build(BatchRule::Unicep, params)), ..PLAIN },
    PolicyInfo { name: "fifo", summary: "in order of arrival, to the end, each on any GPU type with room", build: Build::Function(|_| Ok(fifo::any_type())), ..PLAIN },
    PolicyInfo { name: "fifo-perf", aliases: &["fifo_perf"], summary: "in order of arrival, each on its fastest free GPU type", preemptive: true, heterogeneity_aware: true, build: Build::Function(|_| Ok(fifo::fastest_type())), ..PLAIN },
    PolicyInfo { name: "fifo-packed", aliases: &["fifo_packed"], summary: "fifo-perf that lets two jobs share GPUs where that pays", preemptive: true, packs: true, heterogeneity_aware: true, build: Build::Function(|_| Ok(fifo::packed())), ..PLAIN },
    PolicyInfo { name: "allox", summary: "least mean completion time: jobs matched to places in the queues of the GPU types", params: allox::PARAMS, preemptive: true, heterogeneity_aware: true, knows: Knows::Durations, build: Build::Function(allox::build), ..PLAIN },
    PolicyInfo { name: "isolated", summary: "everybody a private n-th of every GPU type", params: share::FORMULA_PARAMS, preemptive: true, build: Build::Function(|params| share::build("isolated", BY_TYPE, params)), ..PLAIN },
    PolicyInfo { name: "proportional", summary: "everybody all of its time, divided over the GPU types as they are", params: share::FORMULA_PARAMS, preemptive: true, build: Build::Function(|params| share::build("proportional", BY_TYPE, params)), ..PLAIN },
    PolicyInfo { name: "max-min", aliases: &["max_min_fairness"], summary: "least share of time as large as can be, all GPUs alike", params: share::PARAMS, preemptive: true, build: Build::Function(|params| share::build("max-min", BLIND, params)), ..PLAIN },
    PolicyInfo { name: "max-min-perf", aliases: &["max_min_fairness_perf"], summary: "least normalised throughput as large as can be, then the sum", params: share::EVEN_PARAMS, preemptive: true, heterogeneity_aware: true, build: Build::Function(|params| share::build("max-min-perf", EVEN_TURNS, params)), ..PLAIN },
    PolicyInfo { name: "max-min-packed", aliases: &["max_min_fairness_packed"], summary: "max-min-perf with two jobs on one GPU where that helps", params: share::EVEN_PARAMS, preemptive: true, packs: true, heterogeneity_aware: true, build: Build::Function(|params| share::build("max-min-packed", EVEN_TURNS, params)), ..PLAIN },
    PolicyInfo { name: "water-filling", aliases: &["max_min_fairness_water_filling"], summary: "max-min level by level, all GPUs alike", params: share::PARAMS, preemptive: true, build: Build::Function(|params| share::build("water-filling", BLIND, params)), ..PLAIN },
    PolicyInfo { name: "water-filling-perf", aliases: &["max_min_fairness_water_filling_perf"], summary: "max-min-perf level by level: nobody can gain without a worse-off job losing", params: share::PARAMS, preemptive: true, heterogeneity_aware: true, build: Build::Function(|params| share::build("water-filling-perf", BY_TYPE, params)), ..PLAIN },
    PolicyInfo { name: "water-filling-packed", aliases: &["max_min_fairness_water_filling_packed"], summary: "water-filling-perf with two jobs on one GPU", params: share::PARAMS, preemptive: true, packs: true, heterogeneity_aware: true, build: Build::Function(|params| share::build("water-filling-packed", BY_TYPE, params)), ..PLAIN },
    PolicyInfo { name: "ftf", aliases: &["finish_time_fairness"], summary: "least worst finish-time ratio against a private share, all GPUs alike", params: share::PARAMS, preemptive: true, knows: Knows::Durations, build: Build::Function(|params| share::build("ftf", BLIND_EVERY_ROUND, params)), ..PLAIN },
    PolicyInfo { name: "ftf-perf", aliases: &["finish_time_fairness_perf"], summary: "least worst finish-time ratio against a private share", params: share::PARAMS, preemptive: true, heterogeneity_aware: true, knows: Knows::Durations, build: Build::Function(|params| share::build("ftf-perf", EVERY_ROUND, params)), ..PLAIN },
    PolicyInfo { name: "ftf-packed", aliases: &["finish_time_fairness_packed"], summary: "ftf-perf with two jobs on one GPU", params: share::PARAMS, preemptive: true, packs: true, heterogeneity_aware: true, knows: Knows::Durations, build: Build::Function(|params| share::build("ftf-packed", EVERY_ROUND, params)) },
    PolicyInfo { name: "makespan", aliases: &["min_total_duration"], summary: "all done as early as can be, all GPUs alike", params: share::MAKESPAN_PARAMS, preemptive: true, knows: Knows::Durations, build: Build::Function(|params| share::build("makespan", BLIND_EVERY_ROUND, params)), ..PLAIN },
    PolicyInfo { name: "makespan-perf", aliases: &["min_total_duration_perf"], summary: "all done as early as can be", params: share::MAKESPAN_PARAMS, preemptive: true, heterogeneity_aware: true, knows: Knows::Durations, build: Build::Function(|params| share::build("makespan-perf", EVERY_ROUND, params)), ..PLAIN },
    PolicyInfo { name: "makespan-packed", aliases: &["min_total_duration_packed"], summary: "makespan-perf with two jobs on one GPU", params: share::MAKESPAN_PARAMS, preemptive: true, packs: true, heterogeneity_aware: true, knows: Knows::Durations, build: Build::Function(|params| share::build("makespan-packed", EVERY_ROUND, params)) },
    PolicyInfo { name: "max-throughput-perf", aliases: &["max_sum_throughput_perf"], summary: "most steps per second in all", params: share::PARAMS, preemptive: true, heterogeneity_aware: true, knows: Knows::Durations, build: Build::Function(|params| share::build("max-throughput-perf", OWES_NOTHING, params)), ..PLAIN },
    PolicyInfo { name: "max-throughput-cost-perf", aliases: &["max_sum_throughput_normalized_by_cost_perf"], summary: "most steps per dollar in all", params: share::PARAMS, preemptive: true, heterogeneity_aware: true, knows: Knows::Durations, build: Build::Function(|params| share::build("max-throughput-cost-perf", OWES_NOTHING, params)), ..PLAIN },
    PolicyInfo { name: "max-throughput-cost-slo-perf", aliases: &["max_sum_throughput_normalized_by_cost_perf_SLOs"], summary: "most steps per dollar with deadlines kept", params: share::PARAMS, preemptive: true, heterogeneity_aware: true, knows: Knows::Durations, build: Build::Function(|params| share::build("max-throughput-cost-slo-perf", OWES_NOTHING_EVERY_ROUND, params)), ..PLAIN },
    PolicyInfo { name: "max-throughput-cost-slo-packed", aliases: &["max_sum_throughput_normalized_by_cost_packed_SLOs"], summary: "most steps per dollar with deadlines kept, two jobs on one GPU", params: share::PARAMS, preemptive: true, packs: true, heterogeneity_aware: true, knows: Knows::Durations, build: Build::Function(|params| share::build("max-throughput-cost-slo-packed", OWES_NOTHING_EVERY_ROUND, params)) },
    PolicyInfo { name: "strategy-proof", aliases: &["max_min_fairness_strategy_proof"], summary: "largest product of throughputs, discounted so that lying about speeds does not pay", params: share::PARAMS, preemptive: true, heterogeneity_aware: true, build: Build::Function(|params| share::build("strategy-proof", BY_TYPE, params)), ..PLAIN },
    PolicyInfo { name: "hierarchical", summary: "water-filling over users with weights and rules of their own", params: share::PARAMS, preemptive: true, heterogeneity_aware: true, build: Build::Function(|params| share::build("hierarchical", BY_TYPE, params)), ..PLAIN },
    PolicyInfo { name: "gandiva", aliases: &[], summary: "equal shares for jobs and for random pairs that pay", params: share::FORMULA_PARAMS, preemptive: true, packs: true, heterogeneity_aware: true, build: Build::Function(|params| share::build("gandiva", Sharing { sight: Sight::Fastest, ..BY_TYPE }, params)), ..PLAIN },
    PolicyInfo { name: "lag-match", summary: "each job on the GPU type where it gains most, and nobody behind a fair share for long", params: lag::MATCH_PARAMS, preemptive: true, heterogeneity_aware: true, build: Build::Function(lag::build_match), ..PLAIN },
    PolicyInfo { name: "lag-gittins", summary: "lag-match that also goes by uncertain estimates", params: lag::GITTINS_PARAMS, preemptive: true, heterogeneity_aware: true, knows: Knows::Durations, build: Build::Function(lag::build_gittins), ..PLAIN },
    PolicyInfo { name: "lag-history", summary: "lag-match that learns from earlier jobs how long jobs like these run", params: lag::HISTORY_PARAMS, preemptive: true, heterogeneity_aware: true, build: Build::Function(lag::build_history), ..PLAIN },
    PolicyInfo { name: "lag-srsf", summary: "lag-match that knows how long jobs still run", params: lag::SRSF_PARAMS, preemptive: true, heterogeneity_aware: true, knows: Knows::Durations, build: Build::Function(lag::build_srsf), ..PLAIN },
];

/// A policy with its parameters, ready to decide.
pub struct Configured {
    /// As it was written: `name:key=value,…`.
    pub spec: String,
    /// The policy itself, ready to decide.
    pub policy: Box<dyn Policy>,
    /// Whether it is told how long jobs really run.
    pub durations: Durations,
}

impl Clone for Configured {
    fn clone(&self) -> Self {
        Self { spec: self.spec.clone(), policy: self.policy.fork(), durations: self.durations }
    }
}

impl Configured {
    /// Takes up what the same policy remembered.
    pub fn remember(mut self, memory: &[u8]) -> Result<Self, MemoryError> {
        self.policy.load(memory)?;
        Ok(self)
    }
}

/// The policies that can be chosen. A value: whoever has one that needs a file adds it.
#[derive(Clone)]
pub struct Registry {
    policies: Vec<PolicyInfo>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.policies.iter().map(|info| info.name)).finish()
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self { policies: BUILTIN.to_vec() }
    }
}

impl Registry {
    /// Adds a policy; one of the same name is replaced.
    pub fn add(&mut self, info: PolicyInfo) {
        self.policies.retain(|known| known.name != info.name);
        self.policies.push(info);
    }

    /// Every policy there is.
    pub fn policies(&self) -> &[PolicyInfo] {
        &self.policies
    }

    /// The policy of a name or alias.
    pub fn find(&self, name: &str) -> Result<&PolicyInfo, PolicyError> {
        self.policies.iter().find(|info| info.name == name || info.aliases.contains(&name)).ok_or_else(|| {
            let names = self.policies.iter().flat_map(|info| std::iter::once(info.name).chain(info.aliases.iter().copied()));
            let all = || self.policies.iter().map(|info| format!("`{}`", info.name)).collect::<Vec<_>>().join(", ");
            let known = match rota_core::nearest(name, names) {
                Some(meant) => format!("did you mean `{meant}`? `rota policies` lists all"),
                None => format!("known are {}", all()),
            };
            PolicyError::UnknownPolicy { given: name.to_owned(), known }
        })
    }

    /// Makes the policy that `name:key=value,…` describes.
    pub fn build(&self, spec: &str) -> Result<Configured, PolicyError> {
        let (name, params) = spec.split_once(':').unwrap_or((spec, ""));
        let info = self.find(name)?;
        let params = Params::parse(info.name, info.params, params)?;
        let policy = match &info.build {
            Build::Function(build) => build(&params)?,
            Build::Closure(build) => build(&params)?,
        };
        let rule = params.run_to_end();
        let reserves = rule.is_ok_and(|rule| matches!(rule.backfill, Backfill::Easy | Backfill::Conservative));
        let (policy, durations) = match info.knows {
            Knows::Nothing => (policy, Durations::Hidden),
            Knows::Durations if params.goes_by_history()? => (policy, Durations::Hidden),
            Knows::Durations => (policy, Durations::Known),
            Knows::ForReservations if params.goes_by_history()? => {
                if !reserves {
                    params.refuse(
                        &["estimates"],
                        "left out where nothing is reserved: add backfill=easy or backfill=conservative",
                    )?;
                }
                let policy: Box<dyn Policy> = Box::new(ReservesByHistory::new(policy));
                (policy, Durations::Hidden)
            }
            Knows::ForReservations => (policy, if reserves { Durations::Known } else { Durations::Hidden }),
        };
        Ok(Configured { spec: spec.to_owned(), policy, durations })
    }

    /// The same policy with a parameter set, if it knows that parameter and it was not given.
    pub fn with_param(&self, spec: &str, key: &str, value: &str) -> String {
        let (name, params) = spec.split_once(':').unwrap_or((spec, ""));
        let knows = self.find(name).is_ok_and(|info| info.params.iter().any(|param| param.name == key));
        let is_given = params.split(',').any(|param| param.split_once('=').is_some_and(|(given, _)| given == key));
        match (knows && !is_given, params.is_empty()) {
            (false, _) => spec.to_owned(),
            (true, true) => format!("{name}:{key}={value}"),
            (true, false) => format!("{spec},{key}={value}"),
        }
    }
}

static REGISTRY: LazyLock<Registry> = LazyLock::new(Registry::default);

/// The built-in policy of a name or alias.
pub fn find(name: &str) -> Result<&'static PolicyInfo, PolicyError> {
    REGISTRY.find(name)
}

/// Makes the built-in policy that `name:key=value,…` describes.
pub fn build(spec: &str) -> Result<Configured, PolicyError> {
    REGISTRY.build(spec)
}

/// The same built-in policy with a parameter set, if it knows that parameter and it was not given.
pub fn with_param(spec: &str, key: &str, value: &str) -> String {
    REGISTRY.with_param(spec, key, value)
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
        for info in BUILTIN {
            assert_eq!(message(info.name), "");
            names.extend(std::iter::once(info.name).chain(info.aliases.iter().copied()));
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn a_parameter_is_set_where_it_is_known_and_not_given() {
        let with = |spec| with_param(spec, "solver", "interior");
        assert_eq!(with("max-min-perf"), "max-min-perf:solver=interior");
        assert_eq!(with("max_min_fairness_perf:tick=60"), "max_min_fairness_perf:tick=60,solver=interior");
        assert_eq!(with("max-min-perf:solver=price"), "max-min-perf:solver=price");
        assert_eq!(with("fcfs"), "fcfs");
    }

    #[test]
    fn a_policy_that_goes_by_history_is_told_no_lengths() {
        let durations = |spec| build(spec).map(|built| built.durations);
        let pairs = [
            ("sjf", "sjf:estimates=history"),
            ("srsf", "srsf:estimates=history"),
            ("fcfs:backfill=easy", "fcfs:backfill=easy,estimates=history"),
            ("priority", "priority:estimates=history"),
            ("least-loaded", "least-loaded:backfill=conservative,estimates=history"),
        ];
        for (by_users, by_history) in pairs {
            assert_eq!(durations(by_users), Ok(Durations::Known), "{by_users}");
            assert_eq!(durations(by_history), Ok(Durations::Hidden), "{by_history}");
        }
        assert!(message("fcfs:estimates=history").contains("add backfill=easy"));
        assert!(message("priority:preempt=true,estimates=history").contains("beside preempt=true"));
        assert!(message("fcfs:estimates=guess").ends_with("must be user or history"));
    }

    #[test]
    fn mistakes_are_answered_with_what_would_be_right() {
        assert_eq!(message("fcsf"), "unknown policy `fcsf`; did you mean `fcfs`? `rota policies` lists all");
        assert!(message("nonsense").starts_with("unknown policy `nonsense`; known are `fcfs`, `sjf`"));
        assert_eq!(
            message("max_min_fairnes_perf"),
            "unknown policy `max_min_fairnes_perf`; did you mean `max_min_fairness_perf`? `rota policies` lists all"
        );
        assert_eq!(message("rr:quantom=3"), "policy `rr` has no parameter `quantom`; it knows `quantum`");
        assert_eq!(message("rr:quantum"), "policy `rr`: `quantum` is not of the form `key=value`, each key once");
        assert!(message("rr:quantum=0").contains("must be a number from"));
        assert!(message("rr:quantum=NaN").contains("must be a number from"));
        assert!(message("rr:quantum=3,quantum=4").contains("each key once"));
        assert!(message("fcfs:backfill=eesy").contains("one of none, greedy, easy, conservative"));
    }
}
