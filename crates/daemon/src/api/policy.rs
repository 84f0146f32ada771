//! The policies there are to choose from.

use rota_policy::PolicyInfo;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A policy that can be chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicyChoice {
    /// The name that is typed to choose it.
    pub name: String,
    /// Other names of it.
    pub aliases: Vec<String>,
    /// What the policy does, in a line.
    pub summary: String,
    /// The policy's parameters.
    pub parameters: Vec<PolicyParameter>,
    /// Whether the policy may stop jobs for others.
    pub preemptive: bool,
    /// Whether the policy puts two jobs on the same whole GPUs.
    pub packs: bool,
    /// Whether the policy weighs GPU types against each other.
    pub heterogeneity_aware: bool,
    /// Whether a simulation tells the policy how long jobs really run where their users gave no estimate: never, for reservations
    /// (backfill), always, or unless `estimates=history` is set. A live queue has only estimates.
    pub knows_durations: String,
}

/// Something that can be set about a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicyParameter {
    /// The name that is typed to choose it.
    pub name: String,
    /// The value if none is set.
    pub default: Option<String>,
    /// The parameter's meaning.
    pub meaning: String,
}

impl From<&PolicyInfo> for PolicyChoice {
    fn from(info: &PolicyInfo) -> Self {
        let parameter = |param: &rota_policy::Param| PolicyParameter {
            name: param.name.to_owned(),
            default: Some(param.default.to_owned()).filter(|default| !default.is_empty()),
            meaning: param.meaning.to_owned(),
        };
        Self {
            name: info.name.to_owned(),
            aliases: info.aliases.iter().map(|alias| (*alias).to_owned()).collect(),
            summary: info.summary.to_owned(),
            parameters: info.params.iter().map(parameter).collect(),
            preemptive: info.preemptive,
            packs: info.packs,
            heterogeneity_aware: info.heterogeneity_aware,
            knows_durations: match info.knows {
                rota_policy::Knows::Nothing => "never",
                rota_policy::Knows::ForReservations => "for reservations",
                rota_policy::Knows::Durations if info.can_go_by_history() => "unless estimates=history",
                rota_policy::Knows::Durations => "always",
            }
            .to_owned(),
        }
    }
}

impl PolicyChoice {
    /// Every policy that this Rota knows.
    pub fn all() -> Vec<Self> {
        rota_learn::registry().policies().iter().map(Self::from).collect()
    }
}
