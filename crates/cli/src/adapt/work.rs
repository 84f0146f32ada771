//! From what was typed to images and settings of a run.

use crate::args::{CostWord, WorkArgs};
use rota_learn::adapt::train::images::{Dataset, ImagesError, Portion};
use rota_learn::adapt::train::job::{Allocation, Cost};
use rota_learn::adapt::train::training::{Manner, RunSettings};

/// The images to train and to test with.
pub fn images(args: &WorkArgs) -> Result<Dataset, ImagesError> {
    let portion = Portion { train: args.images, test: args.test_images, side: args.side.map(usize::from) };
    Dataset::read(&args.data, portion)
}

/// The cost model.
pub fn cost(word: CostWord) -> Cost {
    match word {
        CostWord::Recorded => Cost::Recorded,
        CostWord::Arithmetic => Cost::Arithmetic,
        CostWord::Wall => Cost::Wall,
    }
}

/// The settings of a run.
pub fn settings(args: &WorkArgs, cost: Cost, seed: u64, budget_s: f64, changes: Vec<(f64, Allocation)>) -> RunSettings {
    let manner = if args.compat { Manner::Compat } else { Manner::Sound };
    RunSettings { model: args.model, manner, seed, batch: usize::from(args.batch), cost, budget_s, changes }
}
