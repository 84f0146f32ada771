//! An image of an engine: everything that decisions depend on, as bytes. A restarted daemon takes it up and replays what happened since.
//!
//! The cluster is not in it: an image holds only for the cluster it was made on, and one made on another is refused.

use crate::{Engine, State};
use rota_core::random::RandomStream;
use rota_core::{Cluster, PriceTable, Span, ThroughputTable, Time};
use rota_place::Placer;
use rota_policy::{Context, Registry};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The form of images. Those of another form are refused, and the engine is made anew.
const IMAGE_VERSION: u32 = 11;

/// An image that cannot be taken up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// Written by another version, or damaged.
    #[error("the image of the scheduler cannot be read: {0}")]
    Unreadable(String),
    /// The machine has changed.
    #[error("the image of the scheduler is of another cluster")]
    OtherCluster,
    /// The policy is not known any more, or does not understand what it remembered.
    #[error("the image of the scheduler: {0}")]
    Policy(String),
}

#[derive(Serialize, Deserialize)]
struct Image {
    version: u32,
    cluster: Vec<u8>,
    state: State,
    placer: Placer,
    stream: RandomStream,
    /// The policy in force last, those before it first: what was written, and what it remembers.
    policies: Vec<(String, Vec<u8>)>,
    review_at: Option<Time>,
    wants_follow_up: bool,
}

/// What makes one cluster another.
fn cluster_key(cluster: &Cluster) -> Vec<u8> {
    let types = cluster.types.iter().map(|kind| (kind.name.clone(), kind.memory_mib, kind.speed)).collect::<Vec<_>>();
    let gpus = cluster.gpus.iter().map(|gpu| (gpu.node.0, gpu.gpu_type.0)).collect::<Vec<_>>();
    let nodes = cluster.nodes.iter().map(|node| (node.name.clone(), node.gpus.start, node.gpus.end)).collect::<Vec<_>>();
    postcard::to_allocvec(&(types, gpus, nodes)).unwrap_or_default()
}

impl Engine {
    /// Everything that decisions depend on.
    pub fn image(&self) -> Vec<u8> {
        let policies = self.parked.iter().chain(std::iter::once(&self.policy));
        let image = Image {
            version: IMAGE_VERSION,
            cluster: cluster_key(&self.state.bound.cluster),
            state: self.state.clone(),
            placer: self.placer.clone(),
            stream: self.context.stream.clone(),
            policies: policies.map(|policy| (policy.spec.clone(), policy.policy.save())).collect(),
            review_at: self.review_at,
            wants_follow_up: self.wants_follow_up,
        };
        // Plain data can always be written to memory.
        postcard::to_allocvec(&image).unwrap_or_default()
    }

    /// The engine of an image, on the same cluster.
    pub fn from_image(
        bytes: &[u8],
        cluster: &Cluster,
        prices: PriceTable,
        table: Arc<ThroughputTable>,
        registry: &Registry,
        round: Option<Span>,
    ) -> Result<Self, ImageError> {
        let unreadable = |error: postcard::Error| ImageError::Unreadable(error.to_string());
        let (version, _): (u32, &[u8]) = postcard::take_from_bytes(bytes).map_err(unreadable)?;
        if version != IMAGE_VERSION {
            return Err(ImageError::Unreadable(format!("it has form {version}, and this Rota knows {IMAGE_VERSION}")));
        }
        let image: Image = postcard::from_bytes(bytes).map_err(unreadable)?;
        if image.cluster != cluster_key(cluster) {
            return Err(ImageError::OtherCluster);
        }
        let mut state = image.state;
        let bound = Arc::make_mut(&mut state.bound);
        bound.cluster = cluster.clone();
        bound.prices = prices;
        let wrong = |error: &dyn std::fmt::Display| ImageError::Policy(error.to_string());
        let build = |(spec, memory): (String, Vec<u8>)| {
            let policy = registry.build(&spec).map_err(|error| wrong(&error))?;
            policy.remember(&memory).map_err(|error| wrong(&error))
        };
        let mut policies = image.policies.into_iter().map(build).collect::<Result<Vec<_>, _>>()?;
        let policy = policies.pop().ok_or_else(|| ImageError::Unreadable("it has no policy".to_owned()))?;
        Ok(Self {
            state: state.with_throughputs(table),
            policy,
            parked: policies,
            placer: image.placer,
            context: Context { stream: image.stream, problems: Vec::new() },
            round,
            review_at: image.review_at,
            wants_follow_up: image.wants_follow_up,
            look: None,
        })
    }
}
