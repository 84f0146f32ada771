//! Rota's table in TOML: `[[speed]]` and `[[pair]]` tables.

use super::draft::{Draft, Gang, Placement, checked_speed};
use crate::cell::{self, GANG_MAX};
use crate::error::{Fault, Problem, TraceError, excerpt};
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    speed: Vec<Spanned<Speed>>,
    #[serde(default)]
    pair: Vec<Spanned<Pair>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Speed {
    job_type: String,
    #[serde(default = "one")]
    gpus: u32,
    #[serde(default)]
    spread: bool,
    steps_per_second: BTreeMap<String, f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair {
    job_types: [String; 2],
    #[serde(default = "one_each")]
    gpus: [u32; 2],
    steps_per_second: BTreeMap<String, [f64; 2]>,
}

fn one() -> u32 {
    1
}

fn one_each() -> [u32; 2] {
    [1, 1]
}

pub(super) fn read(text: &str, draft: &mut Draft) -> Result<(), TraceError> {
    let line_ends = text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n').map(|(at, _)| at).collect::<Vec<_>>();
    let line_of = |at: usize| line_ends.partition_point(|&end| end < at) as u32 + 1;
    let file = toml::from_str::<File>(text).map_err(|error| {
        let message = error.message().chars().map(|letter| if letter.is_control() { ' ' } else { letter }).take(400).collect();
        draft.error(error.span().map_or(0, |span| line_of(span.start)), Problem::Toml { message }.into())
    })?;
    for entry in &file.speed {
        read_speed(entry.get_ref(), draft).map_err(|fault| draft.error(line_of(entry.span().start), fault))?;
    }
    for entry in &file.pair {
        let line = line_of(entry.span().start);
        read_pair(entry.get_ref(), line, draft).map_err(|fault| draft.error(line, fault))?;
    }
    Ok(())
}

fn read_speed(entry: &Speed, draft: &mut Draft) -> Result<(), Fault> {
    let gang = gang(&entry.job_type, entry.gpus, "job_type")?;
    if entry.steps_per_second.is_empty() {
        return Err(no_speeds());
    }
    let placement = if entry.spread { Placement::Spread } else { Placement::Close };
    for (gpu_type, &speed) in &entry.steps_per_second {
        let within = |problem: Problem| problem.within(excerpt(gpu_type));
        let gpu_type = cell::gpu_type(gpu_type).map_err(within)?;
        let speed = checked_speed(&speed.to_string(), speed).map_err(within)?;
        draft.set(&gang, placement, gpu_type, speed).map_err(within)?;
    }
    Ok(())
}

fn read_pair(entry: &Pair, line: u32, draft: &mut Draft) -> Result<(), Fault> {
    let first = gang(&entry.job_types[0], entry.gpus[0], "job_types")?;
    let second = gang(&entry.job_types[1], entry.gpus[1], "job_types")?;
    if entry.steps_per_second.is_empty() {
        return Err(no_speeds());
    }
    for (gpu_type, speeds) in &entry.steps_per_second {
        let within = |problem: Problem| problem.within(excerpt(gpu_type));
        let gpu_type = cell::gpu_type(gpu_type).map_err(within)?;
        let checked = speeds.map(|speed| checked_speed(&speed.to_string(), speed));
        let [speed, other] = checked;
        let speeds = (speed.map_err(within)?, other.map_err(within)?);
        draft.set_pair(line, &first, &second, gpu_type, speeds).map_err(within)?;
    }
    Ok(())
}

fn gang(job_type: &str, gpus: u32, field: &'static str) -> Result<Gang, Fault> {
    if !(1..=GANG_MAX).contains(&gpus) {
        return Err(Problem::out_of_range(&gpus.to_string(), "a number of GPUs from 1 to 1000000").within("gpus"));
    }
    Gang::new(job_type, gpus).map_err(|problem| problem.within(field))
}

fn no_speeds() -> Fault {
    Problem::Missing { wanted: "the speed on at least one GPU type" }.within("steps_per_second")
}

#[cfg(test)]
mod tests {
    use crate::parse_throughputs;

    #[test]
    fn faults_name_the_line_and_the_field() {
        let net = "[[speed]]\njob_type = 'net'\nsteps_per_second = { h100 = 10 }\n";
        let pair = |rest: &str| format!("{net}[[pair]]\njob_types = ['net', 'net']\n{rest}\n");
        let speed = |rest: &str| format!("{net}\n[[speed]]\njob_type = 'net'\n{rest}\n");
        for (text, message) in [
            (
                speed("gpus = 0\nsteps_per_second.h100 = 1"),
                "t:5: gpus: `0` is out of range: give a number of GPUs from 1 to 1000000",
            ),
            (speed("steps_per_second.h100 = nan"), "t:5: h100: `NaN` is out of range: give steps per second from 0 to 1e12"),
            (speed("steps_per_second.h100 = -inf"), "t:5: h100: `-inf` is out of range: give steps per second from 0 to 1e12"),
            (speed("steps_per_second.h100 = 11"), "t:5: h100: `11` contradicts `10`, given for the same before"),
            (speed("steps_per_second = {}"), "t:5: steps_per_second: is missing: give the speed on at least one GPU type"),
            (speed("steps_per_second.'a|b' = 11"), "t:5: a|b: `a|b` is not the name of a GPU type"),
            (pair("steps_per_second.h100 = [5, 4]"), "t:4: h100: `[5, 4]` contradicts `[4, 5]`, given for the same before"),
            (
                pair("steps_per_second.l4 = [5, 5]"),
                "t:4: l4: net (1 GPU): is missing: give its speed alone on this GPU type too, as it is part of a pair there",
            ),
            ("[speed]\n".to_owned(), "t:1: is not TOML: invalid type: map, expected a sequence"),
        ] {
            assert_eq!(parse_throughputs("t", text.as_bytes()).unwrap_err().to_string(), message, "{text}");
        }
        for (text, part) in [
            ("[[speed]]\n", "missing field `job_type`"),
            ("[[velocity]]\n", "unknown field `velocity`"),
            ("speed = 1\n[\n", "is not TOML"),
        ] {
            let message = parse_throughputs("t", text.as_bytes()).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}
