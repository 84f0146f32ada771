//! `rota learn bench`: steps of an environment, and scores of a network, in CPU seconds of one thread.

use super::environment;
use crate::args::BenchArgs;
use crate::output::{print, print_json};
use rota_core::random::RandomStream;
use rota_learn::simulated::Episodes;
use rota_learn::task::Task;
use rota_nn::{Activation, Network, Workspace};
use serde::Serialize;

/// The network that inference is measured with: what `rota learn train` makes unless it is told otherwise.
const HIDDEN: [usize; 1] = [16];
/// Calls that one measurement of inference is the mean of.
const CALLS: u32 = 2000;

#[derive(Serialize)]
struct Figures {
    env: String,
    episodes: u64,
    steps: u64,
    steps_per_cpu_second: f64,
    inference_us_16: f64,
    inference_us_128: f64,
}

pub fn run(args: &BenchArgs) -> anyhow::Result<()> {
    let chosen = environment::task(&args.env)?;
    let before = cpu_seconds();
    let steps = play(&chosen.task, args.episodes)?;
    let spent = (cpu_seconds() - before).max(1e-9);
    let figures = Figures {
        env: args.env.env.clone(),
        episodes: args.episodes,
        steps,
        steps_per_cpu_second: steps as f64 / spent,
        inference_us_16: inference_us(16)?,
        inference_us_128: inference_us(128)?,
    };
    if args.json {
        return print_json(&figures);
    }
    print(&format!(
        "{}: {:.0} steps per CPU second ({} steps); a network {HIDDEN:?} scores 16 jobs in {:.1} µs and 128 in {:.1} µs",
        figures.env, figures.steps_per_cpu_second, figures.steps, figures.inference_us_16, figures.inference_us_128
    ))
}

/// Plays by legal choices at random, or first come, first served where the simulator plays. Gives the steps taken (jobs, there).
fn play(task: &Task, episodes: u64) -> anyhow::Result<u64> {
    let mut steps = 0;
    if let Task::Simulated(scenario) = task {
        for seed in 0..episodes {
            scenario.play_policy("fcfs:backfill=greedy", seed, Episodes::Training)?;
            steps += scenario.bound(seed, Episodes::Training)?.jobs.len() as u64;
        }
        return Ok(steps);
    }
    let Some(mut environment) = task.environment(Episodes::Training) else { return Ok(0) };
    let mut stream = RandomStream::new(0, "bench");
    for seed in 0..episodes {
        environment.reset(seed);
        loop {
            let rows = environment.view().legal.len() as u64;
            steps += 1;
            if environment.step(stream.below(rows) as usize)?.done {
                break;
            }
        }
    }
    Ok(steps)
}

fn inference_us(rows: usize) -> anyhow::Result<f64> {
    let features = rota_learn::features::COUNT;
    let sizes = std::iter::once(features).chain(HIDDEN).chain(std::iter::once(1)).collect::<Vec<_>>();
    let mut stream = RandomStream::new(0, "inference");
    let network = Network::random(&sizes, Activation::Relu, 1.0, &mut || stream.normal())?;
    let input = (0..rows * features).map(|_| stream.unit() as f32).collect::<Vec<_>>();
    let mut workspace = Workspace::default();
    let before = cpu_seconds();
    let mut sum = 0.0;
    for _ in 0..CALLS {
        sum += network.forward(&input, &mut workspace).iter().sum::<f32>();
    }
    anyhow::ensure!(sum.is_finite(), "the network gave a score that is no number");
    Ok((cpu_seconds() - before) * 1e6 / f64::from(CALLS))
}

/// CPU seconds of this process.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
