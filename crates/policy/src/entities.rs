//! Who shares with whom in hierarchical fairness: users are the entities, with the weights and rules the cluster's file gives them.
//!
//! A user the file does not name is an entity of weight 1 that shares fairly among its own jobs.

use crate::allocation::{Entity, EntityRule};
use rota_core::cluster::SharingRule;
use rota_core::{Bound, JobId, Name};
use std::collections::HashMap;

/// All entities of a workload.
pub struct Entities {
    /// By index.
    pub list: Vec<Entity>,
    index_of: HashMap<Name, u32>,
}

impl Entities {
    /// The users of a workload, in order of their first job.
    pub fn of(bound: &Bound) -> Self {
        let mut entities = Self { list: Vec::new(), index_of: HashMap::new() };
        for job in &bound.jobs {
            entities.index_of.entry(job.user).or_insert_with(|| {
                let known = bound.cluster.entities.iter().find(|entity| entity.name == bound.names.text(job.user));
                let rule = match known.map(|entity| entity.rule) {
                    Some(SharingRule::Fifo) => EntityRule::Fifo,
                    Some(SharingRule::Fairness) | None => EntityRule::Fairness,
                };
                entities.list.push(Entity { weight: known.map_or(1.0, |entity| entity.weight), rule });
                entities.list.len() as u32 - 1
            });
        }
        entities
    }

    /// The entity of a job.
    pub fn of_job(&self, job: JobId, bound: &Bound) -> u32 {
        self.index_of.get(&bound.job(job).user).copied().unwrap_or(0)
    }
}
