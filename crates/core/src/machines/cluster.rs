//! A cluster: nodes and their GPUs, by type; what a type draws and costs; which nodes are lost when.
//!
//! GPU types are names, never a fixed list. Known names take their figures from [`GpuCatalog`]; others get
//! [`GpuType::unknown`] figures, and the run says so among its assumptions.

use crate::{GpuId, GpuTypeId, NodeId, Time};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ops::Range;

/// Most GPU types one cluster may have: sets of types are bits of one word.
pub const GPU_TYPES_MAX: usize = 64;
/// Most GPUs one cluster may have; a larger number is a slip of the pen.
pub const GPUS_MAX: usize = 10_000_000;

/// A kind of GPU.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuType {
    /// Its name, e.g. `a100`.
    pub name: String,
    /// Memory of one GPU.
    pub memory_mib: u32,
    /// Power drawn when nothing runs.
    pub idle_watts: f64,
    /// Power drawn at full use.
    pub full_watts: f64,
    /// Price of one GPU for one hour, where known.
    pub usd_per_hour: Option<f64>,
    /// Speed of jobs whose length is given as time, against the reference GPU.
    #[serde(default = "one")]
    pub speed: f64,
    /// Whether the figures are known rather than assumed.
    #[serde(skip, default = "yes")]
    pub known: bool,
}

fn one() -> f64 {
    1.0
}

fn yes() -> bool {
    true
}

impl GpuType {
    /// A type nobody told us about: figures of a 300 W card with 24 GiB, no price.
    pub fn unknown(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            memory_mib: 24_576,
            idle_watts: 30.0,
            full_watts: 300.0,
            usd_per_hour: None,
            speed: 1.0,
            known: false,
        }
    }
}

/// Figures of GPU types by name.
#[derive(Clone, Debug)]
pub struct GpuCatalog(HashMap<String, GpuType>);

#[derive(Deserialize)]
struct CatalogFile {
    gpu_type: Vec<GpuType>,
}

impl Default for GpuCatalog {
    /// The types that come with Rota (`gpus.toml` beside this file, with sources).
    fn default() -> Self {
        let types = toml::from_str::<CatalogFile>(include_str!("gpus.toml")).map(|file| file.gpu_type).unwrap_or_default();
        Self(types.into_iter().map(|kind| (kind.name.clone(), kind)).collect())
    }
}

impl GpuCatalog {
    /// Whether a type's figures are known.
    pub fn knows(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// A type's figures, where they are known.
    pub fn get(&self, name: &str) -> Option<&GpuType> {
        self.0.get(name)
    }

    /// The figures of a type, assumed where they are not known.
    pub fn find(&self, name: &str) -> GpuType {
        self.get(name).cloned().unwrap_or_else(|| GpuType::unknown(name))
    }
}

/// One GPU: where it is and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// The node that the GPU is in.
    pub node: NodeId,
    /// The GPU's type.
    pub gpu_type: GpuTypeId,
}

/// One machine of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The node's name.
    pub name: String,
    /// Its GPUs, which are numbered without gaps.
    pub gpus: Range<u32>,
}

/// A node that goes away and perhaps comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// The node that is lost.
    pub node: NodeId,
    /// When it is lost.
    pub from: Time,
    /// When it returns, if it does.
    pub until: Option<Time>,
}

/// Everything jobs can run on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cluster {
    /// The kinds of GPU, in the order given.
    pub types: Vec<GpuType>,
    /// The machines that the GPUs are in.
    pub nodes: Vec<Node>,
    /// The GPUs, machine by machine.
    pub gpus: Vec<Gpu>,
    /// Known losses of nodes, to be replayed by the simulator.
    pub outages: Vec<Outage>,
    /// Users (or projects) with a part of their own in hierarchical sharing.
    pub entities: Vec<SharingEntity>,
}

/// A user or project and its part of the cluster under hierarchical sharing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharingEntity {
    /// The user, as the trace calls it.
    pub name: String,
    /// Its part against others.
    #[serde(default = "one")]
    pub weight: f64,
    /// How its jobs share that part.
    #[serde(default)]
    pub rule: SharingRule,
}

/// How the jobs of one entity share its part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SharingRule {
    /// By their weights.
    #[default]
    Fairness,
    /// Everything to the first that can use it.
    Fifo,
}

/// What is wrong with a cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// The text is not a cluster.
    #[error(
        "cluster `{given}`: {problem}; write GPU types and counts such as `v100:8,p100:16`, Gavel's `8:16:24`, or the name of a TOML file"
    )]
    Spec {
        /// What was given.
        given: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The TOML is not a cluster.
    #[error("cluster file: {0}")]
    File(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClusterFile {
    #[serde(default)]
    gpu_type: Vec<GpuType>,
    #[serde(default)]
    node: Vec<NodeTable>,
    #[serde(default)]
    outage: Vec<OutageTable>,
    #[serde(default)]
    entity: Vec<SharingEntity>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeTable {
    name: String,
    gpus: String,
    #[serde(default = "one_node")]
    count: u32,
}

fn one_node() -> u32 {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OutageTable {
    node: String,
    from_s: f64,
    until_s: Option<f64>,
}

impl Cluster {
    /// Reads `v100:8,p100:16` or Gavel's `8:16:24` (v100, p100, k80), on nodes of `gpus_per_node` GPUs each.
    pub fn from_spec(spec: &str, gpus_per_node: u32) -> Result<Self, ClusterError> {
        let error = |problem: String| ClusterError::Spec { given: spec.to_owned(), problem };
        let mut cluster = Self::empty();
        let catalog = GpuCatalog::default();
        let counts = parse_counts(spec).map_err(error)?;
        if counts.iter().map(|&(_, count)| count as usize).sum::<usize>() > GPUS_MAX {
            return Err(error(format!("has more than {GPUS_MAX} GPUs")));
        }
        for (name, count) in counts {
            let mut left = count;
            let mut number = 0;
            while left > 0 {
                let size = left.min(gpus_per_node.max(1));
                cluster.add_node(&format!("{name}-{number}"), &[(name.clone(), size)], &catalog).map_err(error)?;
                left -= size;
                number += 1;
            }
        }
        if cluster.gpus.is_empty() {
            return Err(error("has no GPU".to_owned()));
        }
        Ok(cluster)
    }

    /// Reads a TOML file of `[[node]]`, `[[gpu_type]]`, `[[outage]]` and `[[entity]]` tables.
    pub fn from_toml(text: &str) -> Result<Self, ClusterError> {
        let file: ClusterFile = toml::from_str(text).map_err(|error| ClusterError::File(error.to_string()))?;
        let mut catalog = GpuCatalog::default();
        for kind in file.gpu_type {
            let sane = |value: f64| value.is_finite() && value >= 0.0;
            if !sane(kind.idle_watts) || !sane(kind.full_watts) || kind.full_watts < kind.idle_watts {
                return Err(ClusterError::File(format!("gpu_type `{}`: watts must be 0 ≤ idle ≤ full", kind.name)));
            }
            let speed_is_sane = kind.speed.is_finite() && kind.speed > 0.0;
            if !speed_is_sane || !kind.usd_per_hour.is_none_or(sane) {
                return Err(ClusterError::File(format!(
                    "gpu_type `{}`: speed must be above 0 and the price not negative",
                    kind.name
                )));
            }
            catalog.0.insert(kind.name.clone(), kind);
        }
        let mut cluster = Self::empty();
        for table in &file.node {
            let counts = parse_counts(&table.gpus)
                .map_err(|problem| ClusterError::File(format!("node `{}`: gpus = \"{}\" {problem}", table.name, table.gpus)))?;
            for number in 0..table.count {
                let name = if table.count == 1 { table.name.clone() } else { format!("{}-{number}", table.name) };
                cluster.add_node(&name, &counts, &catalog).map_err(ClusterError::File)?;
            }
        }
        if cluster.gpus.is_empty() {
            return Err(ClusterError::File(
                "has no GPU; add `[[node]]` tables such as `name = \"a\"`, `gpus = \"v100:8\"`".to_owned(),
            ));
        }
        for table in &file.outage {
            cluster.add_outage(table)?;
        }
        for (position, entity) in file.entity.iter().enumerate() {
            let problem = if !(entity.weight.is_finite() && entity.weight > 0.0) {
                "weight must be above 0"
            } else if file.entity[..position].iter().any(|earlier| earlier.name == entity.name) {
                "is given twice"
            } else {
                continue;
            };
            return Err(ClusterError::File(format!("entity `{}`: {problem}", entity.name)));
        }
        cluster.entities = file.entity;
        Ok(cluster)
    }

    fn empty() -> Self {
        Self { types: Vec::new(), nodes: Vec::new(), gpus: Vec::new(), outages: Vec::new(), entities: Vec::new() }
    }

    fn add_node(&mut self, name: &str, counts: &[(String, u32)], catalog: &GpuCatalog) -> Result<(), String> {
        let node = NodeId::from_index(self.nodes.len());
        let first = self.gpus.len() as u32;
        for (type_name, count) in counts {
            let position = self.types.iter().position(|known| known.name == *type_name);
            if position.is_none() {
                self.types.push(catalog.find(type_name));
            }
            let gpu_type = GpuTypeId::from_index(position.unwrap_or(self.types.len() - 1));
            if self.types.len() > GPU_TYPES_MAX {
                return Err(format!("has more than {GPU_TYPES_MAX} GPU types"));
            }
            if self.gpus.len() + *count as usize > GPUS_MAX {
                return Err(format!("has more than {GPUS_MAX} GPUs"));
            }
            self.gpus.extend((0..*count).map(|_| Gpu { node, gpu_type }));
        }
        self.nodes.push(Node { name: name.to_owned(), gpus: first..self.gpus.len() as u32 });
        Ok(())
    }

    fn add_outage(&mut self, table: &OutageTable) -> Result<(), ClusterError> {
        let position = self.nodes.iter().position(|node| node.name == table.node);
        let node = position.map(NodeId::from_index).ok_or_else(|| {
            let known = self.nodes.iter().take(8).map(|node| node.name.as_str()).collect::<Vec<_>>().join(", ");
            ClusterError::File(format!("outage of unknown node `{}`; nodes are {known}", table.node))
        })?;
        let from = Time::from_seconds(table.from_s);
        let until = table.until_s.map(Time::from_seconds);
        match (from, until) {
            (Some(from), None) => self.outages.push(Outage { node, from, until: None }),
            (Some(from), Some(Some(until))) if until > from => self.outages.push(Outage { node, from, until: Some(until) }),
            _ => {
                return Err(ClusterError::File(format!("outage of `{}`: from_s must be ≥ 0 and until_s after it", table.node)));
            }
        }
        Ok(())
    }

    /// How many GPUs there are of a type.
    pub fn count_of(&self, gpu_type: GpuTypeId) -> usize {
        self.gpus.iter().filter(|gpu| gpu.gpu_type == gpu_type).count()
    }

    /// A type by its name.
    pub fn type_named(&self, name: &str) -> Option<GpuTypeId> {
        self.types.iter().position(|known| known.name == name).map(GpuTypeId::from_index)
    }

    /// The type of one GPU.
    pub fn type_of(&self, gpu: GpuId) -> &GpuType {
        &self.types[self.gpus[gpu.index()].gpu_type.index()]
    }

    /// The cluster in words: `400 gpu on 50 nodes`.
    pub fn describe(&self) -> String {
        let counts = (0..self.types.len())
            .map(|index| format!("{} {}", self.count_of(GpuTypeId::from_index(index)), self.types[index].name))
            .collect::<Vec<_>>()
            .join(", ");
        format!("{counts} on {} {}", self.nodes.len(), if self.nodes.len() == 1 { "node" } else { "nodes" })
    }
}

/// `v100:8,p100:16` or `8:16:24`, as (type, count) pairs without empty ones.
fn parse_counts(spec: &str) -> Result<Vec<(String, u32)>, String> {
    let count = |text: &str| text.trim().parse::<u32>().map_err(|_| format!("has `{text}` where a number of GPUs belongs"));
    let numbers_only = spec.contains(':') && spec.split(':').all(|part| part.trim().parse::<u32>().is_ok());
    let pairs = if numbers_only {
        let parts = spec.split(':').collect::<Vec<_>>();
        if parts.len() != 3 {
            return Err(format!("has {} numbers where Gavel's form has three", parts.len()));
        }
        ["v100", "p100", "k80"]
            .iter()
            .zip(parts)
            .map(|(name, text)| Ok(((*name).to_owned(), count(text)?)))
            .collect::<Result<Vec<_>, String>>()?
    } else {
        spec.split(',')
            .map(|part| match part.rsplit_once(':') {
                Some((name, text)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), count(text)?)),
                _ => Err(format!("has `{part}` where `TYPE:COUNT` belongs")),
            })
            .collect::<Result<Vec<_>, String>>()?
    };
    let mut counts: Vec<(String, u32)> = Vec::new();
    for (name, count) in pairs.into_iter().filter(|&(_, count)| count > 0) {
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum = sum.saturating_add(count),
            None => counts.push((name, count)),
        }
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_of_a_cluster() {
        let ours = Cluster::from_spec("v100:8,p100:16,k80:24", 8).unwrap();
        assert_eq!(ours, Cluster::from_spec("8:16:24", 8).unwrap());
        assert_eq!(ours.describe(), "8 v100, 16 p100, 24 k80 on 6 nodes");
        assert_eq!(ours.nodes[1].gpus, 8..16);
        assert_eq!(ours.type_of(GpuId(8)).name, "p100");
    }

    #[test]
    fn bad_clusters_say_what_is_wrong() {
        for (spec, words) in [
            ("", "TYPE:COUNT"),
            ("v100", "TYPE:COUNT"),
            ("v100:x", "number of GPUs"),
            ("v100:-1", "number of GPUs"),
            ("v100:0", "has no GPU"),
            ("0:0:0", "has no GPU"),
            ("1:2", "three"),
            ("v100:99999999999", "number of GPUs"),
            ("v100:4000000000", "more than"),
        ] {
            let message = Cluster::from_spec(spec, 8).unwrap_err().to_string();
            assert!(message.contains(words), "{spec}: {message}");
        }
    }

    #[test]
    fn a_file_may_mix_types_on_a_node_and_set_their_figures() {
        let cluster = Cluster::from_toml(
            r#"
            [[gpu_type]]
            name = "mine"
            memory_mib = 1000
            idle_watts = 5
            full_watts = 50
            [[node]]
            name = "box"
            gpus = "mine:2,t4:1"
            [[node]]
            name = "rack"
            gpus = "a100:4"
            count = 2
            [[outage]]
            node = "rack-1"
            from_s = 10
            until_s = 20
            "#,
        )
        .unwrap();
        assert_eq!(cluster.describe(), "2 mine, 1 t4, 8 a100 on 3 nodes");
        assert_eq!(cluster.outages[0].node, NodeId(2));
        assert!(cluster.types.iter().all(|kind| kind.known));
        let message =
            Cluster::from_toml("[[node]]\nname='a'\ngpus='t4:1'\n[[outage]]\nnode='b'\nfrom_s=1").unwrap_err().to_string();
        assert!(message.contains("unknown node `b`; nodes are a"), "{message}");
    }

    #[test]
    fn the_catalogue_is_readable_and_sane() {
        let catalog = GpuCatalog::default();
        assert!(catalog.0.len() > 20);
        assert!(catalog.0.values().all(|kind| kind.idle_watts < kind.full_watts && kind.memory_mib > 0));
        assert!(catalog.find("k80").known && catalog.find("b200").known);
    }
}
