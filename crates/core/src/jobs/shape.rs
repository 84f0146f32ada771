//! What jobs have in common: jobs of one shape fit or do not fit together, jobs of one class have the same speeds.

use crate::{GpuTypeId, MilliGpu, Slice};
use serde::{Deserialize, Serialize};

/// A set of GPU types, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TypeSet(u64);

impl TypeSet {
    /// The empty set.
    pub const EMPTY: Self = Self(0);

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether a type is in the set.
    pub fn contains(self, gpu_type: GpuTypeId) -> bool {
        self.0 >> gpu_type.index() & 1 == 1
    }

    /// Adds a type.
    pub fn insert(&mut self, gpu_type: GpuTypeId) {
        self.0 |= 1 << gpu_type.index();
    }

    /// Adds all types of another set.
    pub fn insert_all(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// The types of this set that are not in `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The types in ascending order.
    pub fn iter(self) -> impl Iterator<Item = GpuTypeId> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let lowest = left.trailing_zeros();
            (left != 0).then(|| {
                left &= left - 1;
                GpuTypeId(lowest)
            })
        })
    }
}

/// A row in the table of shapes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ShapeId(pub u32);

impl ShapeId {
    /// The row of this shape.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A row in the table of job classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClassId(pub u32);

impl ClassId {
    /// The row of this class.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What throughput tables tell apart: a job type with a gang size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobClass {
    /// The job type.
    pub kind: crate::Name,
    /// The number of GPUs that the gang needs at once.
    pub gpus: u32,
    /// Row of its speeds.
    pub speeds: u32,
    /// Steps per second at speed 1; 1 for jobs given as time, whose steps are seconds.
    pub steps_per_second: f64,
    /// How much of its speed is left on each GPU type when its gang is spread over nodes, where the table says so.
    pub spread_part: Option<Box<[f64]>>,
    /// Whether anything is known of its speed beside others.
    pub is_paired: bool,
    /// Whether its speeds were measured while its jobs ran.
    pub is_measured: bool,
    /// GPU types on which its speed is only believed, from other job types.
    pub untried: TypeSet,
}

/// Everything about a job that decides where it fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Shape {
    /// The number of GPUs that the gang needs at once.
    pub gpus: u32,
    /// Share of each GPU.
    pub share: MilliGpu,
    /// Memory on each GPU.
    pub memory_mib: u32,
    /// With whom it may share a GPU.
    pub group: u32,
    /// Over how many nodes it may be spread; 0 means any.
    pub nodes_max: u32,
    /// Types it can run on.
    pub types: TypeSet,
    /// Row of the speeds of this shape's jobs: the order in which types are tried depends on it.
    pub speeds: u32,
    /// The only GPUs it may use, if not all: its row in [`Bound::gpu_sets`].
    pub only: Option<u32>,
    /// Whether a gang may span several of the types.
    pub is_mixed: bool,
    /// The class of its jobs, where they share GPUs and something is known of their speeds beside others.
    pub class: Option<ClassId>,
}

impl Shape {
    /// Whether it takes whole GPUs.
    pub fn is_exclusive(&self) -> bool {
        self.share == MilliGpu::WHOLE
    }

    /// What it takes of each GPU.
    pub fn slice(&self) -> Slice {
        Slice { share: self.share, memory_mib: self.memory_mib, group: self.group, class: self.class }
    }
}
