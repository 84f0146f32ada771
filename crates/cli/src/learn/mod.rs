//! `rota learn`: train models, judge them, measure them, and try them on a site's own history.

mod bench;
mod chart;
mod environment;
mod eval;
mod power;
mod shadow;
mod train;

use crate::args::{LearnArgs, LearnVerb};

pub fn run(args: &LearnArgs) -> anyhow::Result<()> {
    match &args.verb {
        LearnVerb::Train(args) => train::run(args),
        LearnVerb::Eval(args) => eval::run(args),
        LearnVerb::Bench(args) => bench::run(args),
        LearnVerb::Shadow(args) => shadow::run(args),
    }
}
