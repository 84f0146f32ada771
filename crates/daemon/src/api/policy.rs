//! The policies there are to choose from.

use rota_policy::PolicyInfo;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicyChoice {
    /// Its name.
    pub name: String,
    /// Other names of it.
    pub aliases: Vec<String>,
    /// What it does, in a line.
    pub summary: String,
    /// What can be set about it.
    pub parameters: Vec<PolicyParameter>,
    /// Whether it may stop jobs for others.
    pub preemptive: bool,
    /// Whether it puts two jobs on the same whole GPUs.
    pub packs: bool,
    /// Whether it weighs GPU types against each other.
    pub heterogeneity_aware: bool,
}

/// Something that can be set about a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicyParameter {
    /// Its name.
    pub name: String,
    /// What it is if nobody sets it.
    pub default: Option<String>,
    /// What it means.
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
        }
    }
}

impl PolicyChoice {
    /// All of them.
    pub fn all() -> Vec<Self> {
        rota_policy::registry::POLICIES.iter().map(Self::from).collect()
    }
}
