//! `rota adapt`: growing networks while they train.

mod evaluate;
mod learn;
mod policies;

use crate::args::{AdaptArgs, AdaptVerb};

pub fn run(args: &AdaptArgs) -> anyhow::Result<()> {
    match &args.verb {
        AdaptVerb::Learn(args) => learn::run(args),
        AdaptVerb::Evaluate(args) => evaluate::run(args),
    }
}
