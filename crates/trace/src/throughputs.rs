//! Throughput tables: the one that comes with Rota, and users' own.

use crate::cell;
use crate::collect::Collector;
use crate::error::{Problem, TraceError};
use crate::format::{PREFIX_BYTES, refuse_binary};
use crate::lines::Lines;
use crate::table::each_record;
use crate::{Format, ReadOptions};
use rota_core::ThroughputTable;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// The measured speeds of 26 job types on three GPU types that come with Rota.
pub fn default_throughputs() -> ThroughputTable {
    let source = "built-in table (Gavel, OSDI'20, simulation throughputs)";
    let table = parse_table(source, &mut include_bytes!("throughputs.csv").as_slice());
    debug_assert!(table.is_ok(), "the built-in table must be readable");
    table.unwrap_or_else(|_| ThroughputTable::new(source))
}

/// Reads a table `job_type,gpus,<a column a GPU type>` of steps per second. An empty cell is a speed not known; 0 means
/// that the job cannot run there.
pub fn read_throughputs(path: &Path) -> Result<ThroughputTable, TraceError> {
    let source_name = path.display().to_string();
    let (prefix, file) = crate::load::open(path, &source_name)?;
    refuse_binary(&prefix).map_err(|problem| TraceError::whole_file(&source_name, problem))?;
    parse_table(&source_name, &mut BufReader::with_capacity(PREFIX_BYTES, prefix.as_slice().chain(file)))
}

/// As [`read_throughputs`], from memory. `source_name` stands for the file in messages.
pub fn parse_throughputs(source_name: &str, text: &[u8]) -> Result<ThroughputTable, TraceError> {
    refuse_binary(text).map_err(|problem| TraceError::whole_file(source_name, problem))?;
    parse_table(source_name, &mut { text })
}

fn parse_table(source_name: &str, input: &mut dyn BufRead) -> Result<ThroughputTable, TraceError> {
    struct Columns {
        job_type: usize,
        gpus: usize,
        gpu_types: Vec<(usize, String)>,
    }
    let mut table = ThroughputTable::new(source_name);
    let mut collector = Collector::new(source_name, Format::RotaCsv, &ReadOptions::default());
    each_record(
        &mut Lines::new(input),
        &mut collector,
        b',',
        |header| {
            let job_type = header.require(&["job_type"], "the type of a job")?;
            let gpus = header.require(&["gpus"], "the gang size")?;
            let others = header.names().iter().enumerate().filter(|&(index, _)| index != job_type && index != gpus);
            let gpu_types = others.map(|(index, name)| (index, name.clone())).collect::<Vec<_>>();
            if gpu_types.is_empty() || gpu_types.iter().any(|(_, name)| name.is_empty()) {
                return Err(
                    Problem::Missing { wanted: "a column of steps per second for each GPU type, named like the type" }.into()
                );
            }
            Ok(Columns { job_type, gpus, gpu_types })
        },
        |columns, fields, _| {
            let job_type = cell::name(fields.get(columns.job_type)).map_err(|problem| problem.within("job_type"))?;
            let gpus = cell::gpus(fields.get(columns.gpus)).map_err(|problem| problem.within("gpus"))?;
            for (index, gpu_type) in &columns.gpu_types {
                let text = fields.get(*index);
                if text.is_empty() {
                    continue;
                }
                let speed =
                    cell::number(text, "a number of steps per second").map_err(|problem| problem.within(gpu_type.clone()))?;
                if !(0.0..=1e12).contains(&speed) {
                    return Err(Problem::out_of_range(text, "steps per second from 0 to 1e12").within(gpu_type.clone()));
                }
                table.insert(job_type, gpus, gpu_type, speed);
            }
            Ok(())
        },
    )?;
    if table.is_empty() {
        return Err(TraceError::whole_file(source_name, Problem::Missing { wanted: "a line for each job type and gang size" }));
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_table_knows_26_types_and_their_gangs() {
        let table = default_throughputs();
        assert_eq!(table.job_types().len(), 26);
        assert_eq!(table.gang_sizes("ResNet-18 (batch size 16)").into_iter().collect::<Vec<_>>(), [1, 2, 4, 8]);
        assert_eq!(table.gang_sizes("A3C").into_iter().collect::<Vec<_>>(), [1]);
        assert_eq!(table.get("ResNet-18 (batch size 16)", 1, "v100"), Some(32.353_384_328_946_916));
        assert_eq!(table.get("ResNet-50 (batch size 128)", 8, "k80"), Some(0.0));
        assert_eq!(table.get("A3C", 2, "v100"), None);
    }

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
            ("job_type,gpus,h100\nnet,1,fast\n", "speeds.csv:2: h100: `fast` is not a number of steps per second"),
            ("job_type,gpus,h100\nnet,1\n", "speeds.csv:2: has 2 columns where 3 belong"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), message);
        }
    }
}
