//! Rota's table in CSV. A row of a pair has one side of it, so pairs are put together when all rows are read.

use super::draft::{Draft, Gang, Placement, checked_speed};
use crate::cell;
use crate::collect::Collector;
use crate::error::{Fault, Problem, TraceError, excerpt};
use crate::fields::{Fields, Header};
use crate::lines::Lines;
use crate::table::each_record;
use crate::{Format, ReadOptions};
use std::collections::HashMap;

struct Columns {
    job_type: usize,
    gpus: usize,
    with_job_type: Option<usize>,
    with_gpus: Option<usize>,
    spread: Option<usize>,
    gpu_types: Vec<(usize, String)>,
}

/// The speed of the first job beside the second.
struct Side {
    line: u32,
    first: Gang,
    second: Gang,
    gpu_type: String,
    speed: f64,
}

pub(super) fn read(lines: &mut Lines<'_>, draft: &mut Draft) -> Result<(), TraceError> {
    let mut collector = Collector::new(draft.source_name(), Format::RotaCsv, &ReadOptions::default());
    let mut sides = Vec::new();
    each_record(lines, &mut collector, b',', bind, |columns, fields, collector| {
        let row = Row::read(columns, fields)?;
        for (index, gpu_type) in &columns.gpu_types {
            let text = fields.get(*index);
            if text.is_empty() {
                continue;
            }
            let within = |problem: Problem| problem.within(gpu_type.clone());
            let speed = cell::number(text, "a number of steps per second").map_err(within)?;
            let speed = checked_speed(text, speed).map_err(within)?;
            match &row.beside {
                None => draft.set(&row.gang, row.placement, gpu_type, speed).map_err(within)?,
                Some(second) => sides.push(Side {
                    line: collector.line(),
                    first: row.gang.clone(),
                    second: second.clone(),
                    gpu_type: gpu_type.clone(),
                    speed,
                }),
            }
        }
        Ok(())
    })?;
    join(&sides, draft)
}

fn bind(header: &Header) -> Result<Columns, Fault> {
    let job_type = header.require(&["job_type"], "the type of a job")?;
    let gpus = header.require(&["gpus"], "the gang size")?;
    let (with_job_type, with_gpus) = (header.find(&["with_job_type"]), header.find(&["with_gpus"]));
    let spread = header.find(&["spread"]);
    let known = [Some(job_type), Some(gpus), with_job_type, with_gpus, spread];
    let mut gpu_types = Vec::new();
    for index in (0..header.names().len()).filter(|&index| !known.contains(&Some(index))) {
        let name = header.spelling(index);
        if name.is_empty() {
            gpu_types.clear();
            break;
        }
        gpu_types.push((index, cell::gpu_type(name)?.to_owned()));
    }
    if gpu_types.is_empty() {
        return Err(Problem::Missing { wanted: "a column of steps per second for each GPU type, named like the type" }.into());
    }
    Ok(Columns { job_type, gpus, with_job_type, with_gpus, spread, gpu_types })
}

/// What the speeds of a row are about.
struct Row {
    gang: Gang,
    placement: Placement,
    beside: Option<Gang>,
}

impl Row {
    fn read(columns: &Columns, fields: &Fields) -> Result<Self, Fault> {
        let gpus = cell::gpus(fields.get(columns.gpus)).map_err(|problem| problem.within("gpus"))?;
        let gang = Gang::new(fields.get(columns.job_type), gpus).map_err(|problem| problem.within("job_type"))?;
        let with_gpus = fields.optional(columns.with_gpus).map(cell::gpus).transpose();
        let with_gpus = with_gpus.map_err(|problem| problem.within("with_gpus"))?;
        let beside = fields.optional(columns.with_job_type).map(|name| Gang::new(name, with_gpus.unwrap_or(gpus))).transpose();
        let beside = beside.map_err(|problem| problem.within("with_job_type"))?;
        if with_gpus.is_some() && beside.is_none() {
            return Err(Problem::Missing { wanted: "the job type that `with_gpus` is about" }.within("with_job_type"));
        }
        let spread = fields.optional(columns.spread).unwrap_or("false");
        let placement = match spread.to_ascii_lowercase().as_str() {
            "false" | "no" | "0" => Placement::Close,
            "true" | "yes" | "1" if beside.is_some() => {
                return Err(Problem::malformed(spread, "`false`: the gangs of a pair are not spread").within("spread"));
            }
            "true" | "yes" | "1" => Placement::Spread,
            _ => return Err(Problem::malformed(spread, "`true` or `false`").within("spread")),
        };
        Ok(Self { gang, placement, beside })
    }
}

/// Puts the two sides of each pair together.
fn join(sides: &[Side], draft: &mut Draft) -> Result<(), TraceError> {
    let mut speeds = HashMap::new();
    for side in sides {
        let known = *speeds.entry((&side.first, &side.second, &side.gpu_type)).or_insert(side.speed);
        if known.to_bits() != side.speed.to_bits() {
            let problem = Problem::Contradiction { given: side.speed.to_string(), known: known.to_string() };
            return Err(draft.error(side.line, problem.within(side.gpu_type.clone())));
        }
    }
    for side in sides {
        let Some(&other) = speeds.get(&(&side.second, &side.first, &side.gpu_type)) else {
            let field = format!("{}: {} beside {}", excerpt(&side.gpu_type), side.second.describe(), side.first.describe());
            let problem = Problem::Missing { wanted: "a row for the other job of the pair as well" };
            return Err(draft.error(side.line, problem.within(field)));
        };
        let set = draft.set_pair(side.line, &side.first, &side.second, &side.gpu_type, (side.speed, other));
        set.map_err(|problem| draft.error(side.line, problem.within(side.gpu_type.clone())))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::parse_throughputs;

    #[test]
    fn a_table_of_ones_own_is_checked() {
        let parse = |text: &str| parse_throughputs("speeds.csv", text.as_bytes());
        let table = parse("job_type,gpus,h100,l4\nnet,1,10,\nnet,2,18,0\n").unwrap();
        assert_eq!(
            (table.get("net", 1, "h100"), table.get("net", 1, "l4"), table.get("net", 2, "l4")),
            (Some(10.0), None, Some(0.0))
        );
        for (text, message) in [
            ("", "speeds.csv: is empty"),
            ("job_type,gpus,h100\n", "speeds.csv: is missing: give a line for each job type and gang size"),
            (
                "job_type,gpus\nnet,1\n",
                "speeds.csv:1: is missing: give a column of steps per second for each GPU type, named like the type",
            ),
            ("job_type,gpus,h100\nnet,1,-1\n", "speeds.csv:2: h100: `-1` is out of range: give steps per second from 0 to 1e12"),
            (
                "job_type,gpus,h100\nnet,1,1e13\n",
                "speeds.csv:2: h100: `1e13` is out of range: give steps per second from 0 to 1e12",
            ),
            ("job_type,gpus,h100\nnet,1,NaN\n", "speeds.csv:2: h100: `NaN` is not a number of steps per second"),
            ("job_type,gpus,h100\nnet,1,fast\n", "speeds.csv:2: h100: `fast` is not a number of steps per second"),
            ("job_type,gpus,h100\nnet,1\n", "speeds.csv:2: has 2 columns where 3 belong"),
            ("job_type,gpus,h100\n,1,1\n", "speeds.csv:2: job_type: is missing: give a job type"),
            ("job_type,gpus,a|b\nnet,1,1\n", "speeds.csv:1: `a|b` is not the name of a GPU type"),
            ("job_type,gpus,h100\nnet,1,1\nnet,1,2\n", "speeds.csv:3: h100: `2` contradicts `1`, given for the same before"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn pairs_and_spread_gangs_are_checked() {
        let header = "job_type,gpus,with_job_type,with_gpus,spread,h100\nnet,1,,,,10\nlm,1,,,,6\n";
        for (rows, message) in [
            (
                "net,1,lm,,,5\n",
                "t:4: h100: lm (1 GPU) beside net (1 GPU): is missing: give a row for the other job of the pair as well",
            ),
            ("net,1,net,,,5\nnet,1,net,,,4\n", "t:5: h100: `4` contradicts `5`, given for the same before"),
            (
                "net,1,lm,2,,5\nlm,2,net,1,,4\n",
                "t:4: h100: lm (2 GPUs): is missing: give its speed alone on this GPU type too, as it is part of a pair there",
            ),
            ("net,1,,2,,5\n", "t:4: with_job_type: is missing: give the job type that `with_gpus` is about"),
            ("net,1,lm,,true,5\n", "t:4: spread: `true` is not `false`: the gangs of a pair are not spread"),
            ("net,1,,,far,5\n", "t:4: spread: `far` is not `true` or `false`"),
            ("net,2,,,true,5\nnet,2,,,true,6\n", "t:5: h100: `6` contradicts `5`, given for the same before"),
        ] {
            assert_eq!(parse_throughputs("t", format!("{header}{rows}").as_bytes()).unwrap_err().to_string(), message);
        }
    }
}
