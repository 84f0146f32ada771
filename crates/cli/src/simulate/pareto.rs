//! `rota sim --pareto FILE.svg`: every policy under several power caps, mean completion time against the energy of busy GPUs.

use super::sim::{Request, simulate_one};
use crate::args::SimArgs;
use crate::inputs::{sim_options, with_power_cap};
use crate::output::{print, print_json, progress, write_file};
use anyhow::Context;
use rayon::prelude::*;
use rota_core::Bound;
use rota_gpu::PowerCap;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

/// The least part of the speed that GPUs keep, from no cap on downwards.
const SPEEDS: [&str; 7] = ["none", "best=0.99", "best=0.97", "best=0.95", "best", "best=0.9", "best=0.85"];
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 560.0;
const MARGIN: f64 = 80.0;
const COLOURS: [&str; 6] = ["#1f6feb", "#d1495b", "#2e8b57", "#b8860b", "#7b4fa6", "#4a5568"];

/// A policy under a cap.
#[derive(Serialize)]
struct Point {
    policy: String,
    power_cap: String,
    jct_mean_s: f64,
    /// Energy of GPUs while jobs held them.
    busy_energy_kwh: f64,
    /// Energy of all GPUs.
    energy_kwh: f64,
    /// Against the same policy without a cap.
    jct_change: f64,
    busy_energy_change: f64,
    /// Whether no other point has both less energy and a shorter mean completion time.
    on_front: bool,
}

pub fn run(args: &SimArgs, bound: &Arc<Bound>, file: &Path) -> anyhow::Result<()> {
    let kinds = rota_gpu::measured_kinds();
    if let Some(kind) = bound.cluster.types.iter().find(|kind| PowerCap::Best { speed_min: 0.9 }.watts(&kind.name).is_none()) {
        anyhow::bail!("--pareto: how {} slows down under a cap was not measured; measured are {}", kind.name, kinds.join(", "));
    }
    let options = sim_options(&args.model, args.seed, None)?;
    let bar = progress((bound.jobs.len() * args.policies.len() * SPEEDS.len()) as u64, "jobs");
    let grid = args.policies.iter().flat_map(|policy| SPEEDS.map(|cap| (policy, cap))).collect::<Vec<_>>();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(args.jobs_parallel.unwrap_or(0) as usize).build()?;
    let simulate = |&(policy, cap): &(&String, &str)| -> anyhow::Result<Point> {
        let (capped, _) = with_power_cap(Arc::clone(bound), &cap.parse::<PowerCap>()?)?;
        let solver = args.model.solver;
        let request = Request {
            bound: &capped,
            policy,
            options: &options,
            gavel: None,
            learning: None,
            solver,
            timeline: false,
            events: None,
        };
        let (run, summary, _) = simulate_one(&request, &bar)?;
        Ok(Point {
            policy: policy.clone(),
            power_cap: cap.to_owned(),
            jct_mean_s: summary.jct_mean_s.context("no job was completed")?,
            busy_energy_kwh: run.jobs.iter().map(|job| job.energy_joules).sum::<f64>() / 3.6e6,
            energy_kwh: run.energy_joules() / 3.6e6,
            jct_change: 0.0,
            busy_energy_change: 0.0,
            on_front: false,
        })
    };
    let mut points = pool.install(|| grid.par_iter().map(simulate).collect::<anyhow::Result<Vec<_>>>())?;
    bar.finish_and_clear();
    compare(&mut points);
    write_file(file, |output| Ok(output.write_all(draw(&points, &bound.cluster.describe()).as_bytes())?))?;
    if args.json { print_json(&points) } else { print(&table(&points)) }
}

fn compare(points: &mut [Point]) {
    let figures = points.iter().map(|point| (point.busy_energy_kwh, point.jct_mean_s)).collect::<Vec<_>>();
    for series in 0..points.len() / SPEEDS.len() {
        let (energy, jct) = figures[series * SPEEDS.len()];
        for point in &mut points[series * SPEEDS.len()..(series + 1) * SPEEDS.len()] {
            point.busy_energy_change = point.busy_energy_kwh / energy.max(1e-12) - 1.0;
            point.jct_change = point.jct_mean_s / jct.max(1e-12) - 1.0;
        }
    }
    for (place, point) in points.iter_mut().enumerate() {
        let (energy, jct) = figures[place];
        point.on_front = !figures.iter().any(|other| other.0 <= energy && other.1 <= jct && *other != (energy, jct));
    }
}

fn table(points: &[Point]) -> String {
    let mut text = format!(
        "{:<24} {:<10} {:>14} {:>9} {:>16} {:>9} {:>12}  front\n",
        "policy", "power cap", "mean JCT (s)", "change", "busy GPUs (kWh)", "change", "all (kWh)"
    );
    for point in points {
        _ = writeln!(
            text,
            "{:<24} {:<10} {:>14.1} {:>+8.1}% {:>16.2} {:>+8.1}% {:>12.2}  {}",
            point.policy,
            point.power_cap,
            point.jct_mean_s,
            100.0 * point.jct_change,
            point.busy_energy_kwh,
            100.0 * point.busy_energy_change,
            point.energy_kwh,
            if point.on_front { "yes" } else { "" }
        );
    }
    text
}

/// The smallest and the largest value, a little apart.
fn ends(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let (low, high) = (values.clone().fold(f64::INFINITY, f64::min), values.fold(f64::NEG_INFINITY, f64::max));
    let margin = (0.06 * (high - low)).max(1e-6 * high.abs()).max(1e-9);
    (low - margin, high + margin)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn draw(points: &[Point], cluster: &str) -> String {
    let (left, right) = ends(points.iter().map(|point| point.busy_energy_kwh));
    let (low, high) = ends(points.iter().map(|point| point.jct_mean_s));
    let x = |energy: f64| MARGIN + (energy - left) / (right - left) * (WIDTH - 2.0 * MARGIN);
    let y = |jct: f64| HEIGHT - MARGIN - (jct - low) / (high - low) * (HEIGHT - 2.0 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n\
         <text x=\"{MARGIN}\" y=\"30\" font-size=\"17\">Mean completion time against energy of busy GPUs, {}</text>\n",
        escape(cluster)
    );
    for part in 0..=4 {
        let part = f64::from(part) / 4.0;
        let (energy, jct) = (left + part * (right - left), low + part * (high - low));
        _ = writeln!(
            svg,
            "<path d=\"M{x0:.1} {y0:.1}V{top:.1}M{MARGIN} {yj:.1}H{end:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{x0:.1}\" y=\"{label:.1}\" text-anchor=\"middle\">{energy:.1}</text>\
             <text x=\"{near:.1}\" y=\"{yj:.1}\" text-anchor=\"end\" dominant-baseline=\"middle\">{jct:.0}</text>",
            x0 = x(energy),
            y0 = HEIGHT - MARGIN,
            top = MARGIN,
            yj = y(jct),
            end = WIDTH - MARGIN,
            label = HEIGHT - MARGIN + 20.0,
            near = MARGIN - 8.0,
        );
    }
    _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">energy of busy GPUs (kWh)</text>\
         <text x=\"20\" y=\"{}\" transform=\"rotate(-90 20 {})\" text-anchor=\"middle\">mean JCT (s)</text>",
        WIDTH / 2.0,
        HEIGHT - 25.0,
        HEIGHT / 2.0,
        HEIGHT / 2.0
    );
    for (series, line) in points.chunks(SPEEDS.len()).enumerate() {
        let colour = COLOURS[series % COLOURS.len()];
        let path = line.iter().map(|point| format!("{:.1},{:.1}", x(point.busy_energy_kwh), y(point.jct_mean_s)));
        let path = path.collect::<Vec<_>>().join(" ");
        _ = writeln!(svg, "<polyline points=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>");
        for point in line {
            let (across, down) = (x(point.busy_energy_kwh), y(point.jct_mean_s));
            let fill = if point.on_front { colour } else { "#fff" };
            _ = writeln!(
                svg,
                "<circle cx=\"{across:.1}\" cy=\"{down:.1}\" r=\"5\" fill=\"{fill}\" stroke=\"{colour}\"><title>{}, {}: {:.0} s, {:.2} kWh</title></circle>",
                escape(&point.policy),
                point.power_cap,
                point.jct_mean_s,
                point.busy_energy_kwh
            );
        }
        let above = 52.0 + 18.0 * series as f64;
        let name = line.first().map_or("", |point| point.policy.as_str());
        _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{above}\" text-anchor=\"end\" fill=\"{colour}\">{}</text>",
            WIDTH - MARGIN,
            escape(name)
        );
    }
    svg.push_str("</svg>\n");
    svg
}
