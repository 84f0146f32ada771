//! `rota learn bench`: steps of an environment, and scores of a network, in CPU seconds of one thread.

use super::environment;
use crate::args::BenchArgs;
use crate::output::{print, print_json};
use rota_core::random::RandomStream;
use rota_learn::environment::Environment;
use rota_learn::environment::queue::{self, Cost, Play};
use rota_learn::simulated::Episodes;
use rota_learn::task::{Objective, Task};
use rota_nn::{Activation, Network, Workspace};
use serde::Serialize;

/// The network that inference is measured with: what `rota learn train` makes unless it is told otherwise.
const HIDDEN: [usize; 1] = [16];
/// Calls that one measurement of inference is the mean of.
const CALLS: u32 = 2000;

/// How long it is played where no number of episodes is given.
const CPU_SECONDS: f64 = 2.0;

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
    let mut played = environment(&chosen.task, args)?;
    let Played { episodes, steps, cpu_seconds } = play(&mut *played, args.episodes)?;
    let figures = Figures {
        env: args.env.env.clone(),
        episodes,
        steps,
        steps_per_cpu_second: steps as f64 / cpu_seconds.max(1e-9),
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

fn environment(task: &Task, args: &BenchArgs) -> anyhow::Result<Box<dyn Environment>> {
    let jobs_seen = args.jobs_seen as usize;
    Ok(match task {
        Task::Simulated(scenario) => {
            let play = Play { cost: Cost::Jct, jobs_seen, estimates: true, may_wait: true };
            queue::environment(scenario, Episodes::Training, play)?
        }
        _ => task.environment(Episodes::Training, Objective::Reward, true)?,
    })
}

/// What was played, and in what time.
struct Played {
    episodes: u64,
    steps: u64,
    cpu_seconds: f64,
}

/// Plays by legal choices at random: so many episodes, or for a while.
fn play(environment: &mut dyn Environment, episodes: Option<u64>) -> anyhow::Result<Played> {
    let mut stream = RandomStream::new(0, "bench");
    let random = environment.rules().iter().position(|rule| *rule == "random");
    let mut played = Played { episodes: 0, steps: 0, cpu_seconds: 0.0 };
    environment.reset(0);
    let before = cpu_seconds();
    loop {
        let choice = match random {
            Some(rule) => environment.choice_of(rule, &mut stream),
            None => stream.below(environment.view().legal.len() as u64) as usize,
        };
        let is_done = environment.step(choice)?.done;
        played.steps += 1;
        played.episodes += u64::from(is_done);
        let is_enough = match episodes {
            Some(episodes) => played.episodes == episodes,
            None => played.steps.is_multiple_of(1024) && cpu_seconds() - before >= CPU_SECONDS,
        };
        if is_enough {
            played.cpu_seconds = cpu_seconds() - before;
            return Ok(played);
        }
        if is_done {
            environment.reset(played.episodes);
        }
    }
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
