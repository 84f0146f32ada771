//! The words of scheduling, without any deciding: jobs, clusters, snapshots, targets, plans and events.
//!
//! Every other crate speaks in these types, so this one has no clock, no files and no policy.
//! The data goes: [`workload`] + [`cluster`] are [bound](bind) together, the engine shows a
//! [`snapshot`] to a policy, the policy answers with a [`target`], placement makes a [`plan`] of it,
//! [`check`] proves that the plan is sound, and the world reports what happened as [`event`]s.
//!
//! The rooms: `naming` (ids and names), `randomness`, `machines` (nodes and GPUs), `jobs`, `speeds`, `binding`, `decisions`.
//! Their modules are known by their own names: [`bind`] is `binding/bind.rs`.

pub mod event;
pub mod time;

mod binding;
mod decisions;
mod jobs;
mod machines;
mod naming;
mod randomness;
mod speeds;

pub use binding::{bind, binder};
pub use decisions::{check, plan, snapshot, target};
pub use jobs::{job, restart, shape, workload};
pub use machines::{cluster, price};
pub use naming::{id, mark, names, nearest, renumbering};
pub use randomness::{mersenne, random};
pub use speeds::{companions, measured, pair_parts, throughput};

pub use bind::{BindError, Bound, NewJob, Truth};
pub use binder::Binder;
pub use cluster::{Cluster, ClusterError, GpuCatalog, GpuType};
pub use companions::Companions;
pub use event::{End, Event, EventKind, ExtraStep, GpuList, Hold, JobChange, JobList, Realm, StopCause, Tables};
pub use id::{GpuId, GpuTypeId, JobId, NodeId};
pub use job::{Dependency, DependencyCondition, Job, MilliGpu};
pub use mark::mark;
pub use measured::{MeasuredSpeed, MeasuredSpeeds, SpeedEntry, SpeedSample};
pub use names::{Name, Names};
pub use nearest::nearest;
pub use pair_parts::{NoEstimates, PairEstimator, PairParts};
pub use plan::{Plan, Promise, Start};
pub use price::{PriceError, PriceSeries, PriceTable};
pub use renumbering::Renumbering;
pub use restart::{RestartCost, RestartCosts};
pub use shape::{ClassId, JobClass, Shape, ShapeId, TypeSet};
pub use snapshot::{Durations, JobState, JobView, Phase, Slice, Snapshot};
pub use target::{Backfill, Preempt, Rule, Score, Target, Wish};
pub use throughput::ThroughputTable;
pub use time::{Span, Time};
pub use workload::Workload;
