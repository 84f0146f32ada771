//! `rota adapt`: growing networks while they train.

mod bench;
mod evaluate;
mod learn;
mod plot;
mod policies;
mod run;
mod sweep;
mod work;

use crate::args::{AdaptArgs, AdaptVerb};

pub fn run(args: &AdaptArgs) -> anyhow::Result<()> {
    match &args.verb {
        AdaptVerb::Learn(args) => learn::run(args),
        AdaptVerb::Evaluate(args) => evaluate::run(args),
        AdaptVerb::Run(args) => run::run(args),
        AdaptVerb::Sweep(args) => sweep::run(args),
        AdaptVerb::Plot(args) => plot::run(args),
        AdaptVerb::Bench(args) => bench::run(args),
    }
}

/// CPU seconds of this thread.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
