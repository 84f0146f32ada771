//! Throughput tables out, in Rota's CSV and TOML: every speed reads back as it was, to the last digit.

use crate::error::{Problem, TraceError};
use crate::write::push_csv;
use rota_core::ThroughputTable;
use std::io::{self, Write};

/// A job type with its gang size.
type Gang<'t> = (&'t str, u32);

/// Writes a table as CSV; columns about pairs and spread gangs are there only if it has some.
pub fn write_throughputs_csv(table: &ThroughputTable, mut output: impl Write) -> Result<(), TraceError> {
    let write = |output: &mut dyn Write| -> io::Result<()> {
        let gpu_types = table.gpu_types();
        let (gangs, pairs) = (table.gangs(), table.pairs());
        let spread = |gang: &&Gang<'_>| gpu_types.iter().any(|gpu_type| table.get_spread(gang.0, gang.1, gpu_type).is_some());
        let has_spread = gangs.iter().any(|gang| spread(&gang));
        let columns = Columns { has_pairs: !pairs.is_empty(), has_spread };
        writeln!(output, "{}", columns.header(gpu_types.iter().copied()))?;
        let speeds = |of: &dyn Fn(&str) -> Option<f64>| {
            let texts = gpu_types.iter().map(|gpu_type| of(gpu_type).map(|speed| speed.to_string()).unwrap_or_default());
            texts.collect::<Vec<_>>()
        };
        for &gang in &gangs {
            let alone = speeds(&|gpu_type| table.get(gang.0, gang.1, gpu_type));
            let apart = speeds(&|gpu_type| table.get_spread(gang.0, gang.1, gpu_type));
            for (speeds, is_spread) in [(alone, "false"), (apart, "true")] {
                if speeds.iter().any(|text| !text.is_empty()) {
                    writeln!(output, "{}", columns.row(gang, None, is_spread, &speeds))?;
                }
            }
        }
        for &(first, second) in &pairs {
            let sides = speeds(&|gpu_type| Some(table.get_pair(first, second, gpu_type)?.0));
            writeln!(output, "{}", columns.row(first, Some(second), "false", &sides))?;
            if first != second {
                let sides = speeds(&|gpu_type| Some(table.get_pair(first, second, gpu_type)?.1));
                writeln!(output, "{}", columns.row(second, Some(first), "false", &sides))?;
            }
        }
        output.flush()
    };
    write(&mut output).map_err(|error| TraceError::whole_file(&table.source, Problem::Write(error)))
}

/// Which of the columns that may be left out are there.
struct Columns {
    has_pairs: bool,
    has_spread: bool,
}

impl Columns {
    fn header<'n>(&self, gpu_types: impl Iterator<Item = &'n str>) -> String {
        let mut line = "job_type,gpus".to_owned();
        line.push_str(if self.has_pairs { ",with_job_type,with_gpus" } else { "" });
        line.push_str(if self.has_spread { ",spread" } else { "" });
        for gpu_type in gpu_types {
            line.push(',');
            push_csv(&mut line, gpu_type, false);
        }
        line
    }

    fn row(&self, gang: Gang<'_>, beside: Option<Gang<'_>>, is_spread: &str, speeds: &[String]) -> String {
        let mut line = String::new();
        push_csv(&mut line, gang.0, true);
        line.push(',');
        line.push_str(&gang.1.to_string());
        if self.has_pairs {
            line.push(',');
            push_csv(&mut line, beside.map_or("", |gang| gang.0), false);
            line.push(',');
            line.push_str(&beside.map(|gang| gang.1.to_string()).unwrap_or_default());
        }
        if self.has_spread {
            line.push(',');
            line.push_str(is_spread);
        }
        line.push(',');
        line.push_str(&speeds.join(","));
        line
    }
}

/// Writes a table as TOML: a `[[speed]]` table for each job type and gang size, a `[[pair]]` table for each pair.
pub fn write_throughputs_toml(table: &ThroughputTable, mut output: impl Write) -> Result<(), TraceError> {
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let write = |output: &mut dyn Write| -> io::Result<()> {
        let gpu_types = table.gpu_types();
        let inline = |of: &dyn Fn(&str) -> Option<String>| {
            let known = gpu_types.iter().filter_map(|gpu_type| Some(format!("{} = {}", quoted(gpu_type), of(gpu_type)?)));
            let known = known.collect::<Vec<_>>().join(", ");
            (!known.is_empty()).then(|| format!("steps_per_second = {{ {known} }}\n"))
        };
        for (job_type, gpus) in table.gangs() {
            let alone = inline(&|gpu_type| table.get(job_type, gpus, gpu_type).map(decimal));
            let apart = inline(&|gpu_type| table.get_spread(job_type, gpus, gpu_type).map(decimal));
            for (speeds, spread) in [(alone, ""), (apart, "spread = true\n")] {
                if let Some(speeds) = speeds {
                    writeln!(output, "[[speed]]\njob_type = {}\ngpus = {gpus}\n{spread}{speeds}", quoted(job_type))?;
                }
            }
        }
        for (first, second) in table.pairs() {
            let both = |(one, other): (f64, f64)| format!("[{}, {}]", decimal(one), decimal(other));
            let speeds = inline(&|gpu_type| table.get_pair(first, second, gpu_type).map(both)).unwrap_or_default();
            let (types, gpus) = ((quoted(first.0), quoted(second.0)), (first.1, second.1));
            writeln!(output, "[[pair]]\njob_types = [{}, {}]\ngpus = [{}, {}]\n{speeds}", types.0, types.1, gpus.0, gpus.1)?;
        }
        output.flush()
    };
    write(&mut output).map_err(|error| TraceError::whole_file(&table.source, Problem::Write(error)))
}

/// A number with a point, so that TOML reads it as one with a fraction however large it is.
fn decimal(value: f64) -> String {
    format!("{value:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_throughputs;

    #[test]
    fn what_is_written_reads_back() {
        let text = "job_type,gpus,with_job_type,with_gpus,spread,H100,l4\n\"a, \"\"b\"\"\",1,,,,0.1,4\nlm,2,,,,6,\nlm,2,,,true,5,\n\
                    \"a, \"\"b\"\"\",1,lm,2,,0.05,\nlm,2,\"a, \"\"b\"\"\",1,,3.5,\nlm,2,lm,2,,1e-9,\n";
        let table = parse_throughputs("t", text.as_bytes()).unwrap();
        let (mut csv, mut toml) = (Vec::new(), Vec::new());
        write_throughputs_csv(&table, &mut csv).unwrap();
        write_throughputs_toml(&table, &mut toml).unwrap();
        for written in [&csv, &toml] {
            let again = parse_throughputs("t", written).unwrap();
            assert_eq!(again.gangs(), table.gangs());
            assert_eq!(again.pairs(), table.pairs());
            for gpu_type in ["H100", "l4"] {
                for (job_type, gpus) in table.gangs() {
                    assert_eq!(again.get(job_type, gpus, gpu_type), table.get(job_type, gpus, gpu_type));
                    assert_eq!(again.get_spread(job_type, gpus, gpu_type), table.get_spread(job_type, gpus, gpu_type));
                }
                for (first, second) in table.pairs() {
                    assert_eq!(again.get_pair(first, second, gpu_type), table.get_pair(first, second, gpu_type));
                }
            }
        }
        let mut again = Vec::new();
        write_throughputs_csv(&parse_throughputs("t", &toml).unwrap(), &mut again).unwrap();
        assert_eq!(csv, again);
        let plain = parse_throughputs("t", b"job_type,gpus,h100\nnet,1,2\n").unwrap();
        let mut csv = Vec::new();
        write_throughputs_csv(&plain, &mut csv).unwrap();
        assert_eq!(csv, b"job_type,gpus,h100\nnet,1,2\n");
    }
}
