//! Who shares with whom in hierarchical fairness: users are the entities, with the weights and rules that the cluster's file or the
//! queue's configuration gives them.
//!
//! A user that is named nowhere is an entity of weight 1 that shares fairly among its own jobs. A user becomes an entity with its first
//! job: whoever comes later is no less one.

use crate::allocation::{Entity, EntityRule};
use rota_core::cluster::SharingRule;
use rota_core::{Bound, JobId, Name};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// All entities that have had a job.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Entities {
    /// The entities, in the order of their index.
    pub list: Vec<Entity>,
    index_of: HashMap<Name, u32>,
}

impl Entities {
    /// The entity of a job, made if its user is new.
    pub fn of_job(&mut self, job: JobId, bound: &Bound) -> u32 {
        let user = bound.job(job).user;
        *self.index_of.entry(user).or_insert_with(|| {
            let known = bound.cluster.entities.iter().find(|entity| entity.name == bound.names.text(user));
            let rule = match known.map(|entity| entity.rule) {
                Some(SharingRule::Fifo) => EntityRule::Fifo,
                Some(SharingRule::Fairness) | None => EntityRule::Fairness,
            };
            self.list.push(Entity { weight: known.map_or(1.0, |entity| entity.weight), rule });
            self.list.len() as u32 - 1
        })
    }
}
