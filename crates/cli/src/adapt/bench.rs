//! `rota adapt bench`: a training step (forward, backward, Adam) of a network, in CPU time of one thread.

use super::cpu_seconds;
use crate::args::AdaptBenchArgs;
use crate::output::{print, print_json};
use rota_core::random::RandomStream;
use rota_learn::adapt::network::architecture::{Architecture, FinalRelu, InputShape};
use rota_learn::adapt::network::growing::{Calibration, GrowingNetwork};
use rota_nn::cross_entropy;
use rota_nn::layers::Mode;
use serde::Serialize;

const BATCH: usize = 64;
const CLASSES: usize = 10;

#[derive(Serialize)]
struct Figures {
    model: &'static str,
    grow: String,
    parameters: usize,
    batch: usize,
    steps: u32,
    step_ms_median: f64,
    step_ms_least: f64,
    images_per_cpu_second: f64,
}

pub fn run(args: &AdaptBenchArgs) -> anyhow::Result<()> {
    let side = usize::from(args.side);
    let input = InputShape { channels: usize::from(args.channels), height: side, width: side, classes: CLASSES };
    let mut stream = RandomStream::new(0, "bench");
    let architecture = Architecture::new(args.model, input, FinalRelu::Dropped)?;
    let mut network = GrowingNetwork::random(architecture, &mut stream)?;
    let images = (0..BATCH * input.channels * side * side).map(|_| stream.uniform(-1.0, 1.0) as f32).collect::<Vec<_>>();
    let labels = (0..BATCH).map(|_| stream.below(CLASSES as u64) as u8).collect::<Vec<_>>();
    for digit in args.grow.bytes() {
        anyhow::ensure!(digit.is_ascii_digit(), "--grow `{}`: give blocks as digits, such as `011`", args.grow);
        let block = usize::from(digit - b'0');
        if block < network.architecture.blocks() {
            network.deepen(block, Calibration::Batch(&images, BATCH))?;
        }
    }
    let mut times = Vec::new();
    for step in 0..=args.steps {
        let before = cpu_seconds();
        let mut scores = network.stack.forward(&images, BATCH, Mode::Train);
        cross_entropy(&mut scores, CLASSES, &labels);
        network.stack.backward(&scores, BATCH);
        network.stack.step(0.01);
        // The first step fills the memory that the others use again.
        if step > 0 {
            times.push(1e3 * (cpu_seconds() - before));
        }
    }
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    let figures = Figures {
        model: args.model.name(),
        grow: args.grow.clone(),
        parameters: network.stack.parameters(),
        batch: BATCH,
        steps: args.steps,
        step_ms_median: median,
        step_ms_least: times[0],
        images_per_cpu_second: BATCH as f64 / median * 1e3,
    };
    if args.json {
        return print_json(&figures);
    }
    print(&format!(
        "{} {}: {:.1} ms a step of {BATCH} images (least {:.1}), {:.0} images per CPU second",
        figures.model, figures.grow, figures.step_ms_median, figures.step_ms_least, figures.images_per_cpu_second
    ))
}
