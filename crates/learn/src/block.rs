//! Networks that look at several rows at once. Most models score one row at a time; a dense network that was trained elsewhere takes a
//! block of rows, with zeros where there are fewer, and gives each row of the block its score.

use rota_nn::{Network, Workspace};

/// The rows that a network takes at once; `None` if its sizes do not fit rows of so many features.
pub(crate) fn rows(network: &Network, features: usize) -> Option<usize> {
    let rows = network.outputs();
    (features > 0 && network.inputs() == rows * features).then_some(rows)
}

/// The score of each row. Rows beyond the first block are looked at block by block.
pub(crate) fn scores<'a>(network: &Network, rows: &[f32], workspace: &'a mut Workspace) -> &'a [f32] {
    let at_once = network.outputs();
    if at_once == 1 {
        return network.forward(rows, workspace);
    }
    let features = network.inputs() / at_once;
    let count = rows.len() / features;
    let mut blocks = rows[..count * features].to_vec();
    blocks.resize(count.div_ceil(at_once) * network.inputs(), 0.0);
    &network.forward(&blocks, workspace)[..count]
}
