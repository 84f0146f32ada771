//! The rows of a schedule seen by GPU: one a GPU while these are few, else one a node, else one a group of nodes.

use rota_core::{Bound, GpuId, NodeId};

/// What the rows of a chart stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowKind {
    Gpus,
    Nodes,
    NodeGroups(usize),
}

/// GPUs arranged in rows.
pub(crate) struct Rows {
    pub kind: RowKind,
    /// Row of each GPU.
    row_of: Vec<u32>,
    /// GPUs of each row.
    pub sizes: Vec<u32>,
    /// First node of each row.
    pub nodes: Vec<NodeId>,
}

impl Rows {
    /// The finest arrangement with at most `rows_max` rows.
    pub fn of(bound: &Bound, rows_max: usize) -> Self {
        let cluster = &bound.cluster;
        let rows_max = rows_max.max(1);
        let kind = if cluster.gpus.len() <= rows_max {
            RowKind::Gpus
        } else if cluster.nodes.len() <= rows_max {
            RowKind::Nodes
        } else {
            RowKind::NodeGroups(cluster.nodes.len().div_ceil(rows_max))
        };
        let row = |(index, gpu): (usize, &rota_core::cluster::Gpu)| match kind {
            RowKind::Gpus => index as u32,
            RowKind::Nodes => gpu.node.0,
            RowKind::NodeGroups(size) => gpu.node.0 / size as u32,
        };
        let row_of = cluster.gpus.iter().enumerate().map(row).collect::<Vec<_>>();
        let count = row_of.last().map_or(0, |&last| last as usize + 1);
        let mut rows = Self { kind, row_of, sizes: vec![0; count], nodes: vec![NodeId(0); count] };
        for (gpu, row) in cluster.gpus.iter().zip(&rows.row_of).rev() {
            rows.sizes[*row as usize] += 1;
            rows.nodes[*row as usize] = gpu.node;
        }
        rows
    }

    pub fn len(&self) -> usize {
        self.sizes.len()
    }

    /// The row of a GPU.
    pub fn of_gpu(&self, gpu: GpuId) -> usize {
        self.row_of[gpu.index()] as usize
    }

    /// What a row is called.
    pub fn name(&self, bound: &Bound, row: usize) -> String {
        let node = &bound.cluster.nodes[self.nodes[row].index()];
        match self.kind {
            RowKind::Gpus if bound.cluster.nodes.len() == 1 => format!("GPU {row}"),
            RowKind::Gpus => format!("{}:{}", node.name, row as u32 - node.gpus.start),
            RowKind::Nodes => node.name.clone(),
            RowKind::NodeGroups(_) => format!("{}…", node.name),
        }
    }

    /// What all rows are: `one row a GPU`.
    pub fn describe(&self) -> String {
        match self.kind {
            RowKind::Gpus => "one row a GPU".to_owned(),
            RowKind::Nodes => "one row a node".to_owned(),
            RowKind::NodeGroups(size) => format!("one row for {size} nodes"),
        }
    }
}
