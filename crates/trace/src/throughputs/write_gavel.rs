//! Throughput tables out, in Gavel's JSON.

use super::gavel_json::SPREAD_ENDING;
use crate::error::{Problem, TraceError};
use rota_core::ThroughputTable;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;

/// GPU type → job type and gang size → `null` or another such key → speeds.
type Document = BTreeMap<String, BTreeMap<String, BTreeMap<String, Value>>>;

/// Writes a table as Gavel's JSON. A pair is there from both sides.
pub fn write_throughputs_json(table: &ThroughputTable, mut output: impl Write) -> Result<(), TraceError> {
    let mut document = Document::new();
    let mut set = |gpu_type: String, gang: (&str, u32), beside: String, speeds: Value| {
        document.entry(gpu_type).or_default().entry(key(gang)).or_default().insert(beside, speeds);
    };
    for gpu_type in table.gpu_types() {
        for gang in table.gangs() {
            if let Some(speed) = table.get(gang.0, gang.1, gpu_type) {
                set(gpu_type.to_owned(), gang, "null".to_owned(), json!(speed));
            }
            if let Some(speed) = table.get_spread(gang.0, gang.1, gpu_type) {
                set(format!("{gpu_type}{SPREAD_ENDING}"), gang, "null".to_owned(), json!(speed));
            }
        }
        for (first, second) in table.pairs() {
            if let Some((one, other)) = table.get_pair(first, second, gpu_type) {
                set(gpu_type.to_owned(), first, key(second), json!([one, other]));
                set(gpu_type.to_owned(), second, key(first), json!([other, one]));
            }
        }
    }
    let write = |output: &mut dyn Write| -> std::io::Result<()> {
        serde_json::to_writer_pretty(&mut *output, &document)?;
        output.write_all(b"\n")?;
        output.flush()
    };
    write(&mut output).map_err(|error| TraceError::whole_file(&table.source, Problem::Write(error)))
}

/// A job type and a gang size as Python spells them: `('net', 1)`, or `("the teacher's net", 1)`.
fn key((job_type, gpus): (&str, u32)) -> String {
    let quote = if job_type.contains('\'') && !job_type.contains('"') { '"' } else { '\'' };
    let mut text = format!("({quote}");
    for letter in job_type.chars() {
        if letter == quote || letter == '\\' {
            text.push('\\');
        }
        text.push(letter);
    }
    text.push(quote);
    text + &format!(", {gpus})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_throughputs;

    #[test]
    fn what_is_written_reads_back() {
        let text = "job_type,gpus,with_job_type,spread,h100,l4\na,1,,,0.1,4\n\"the teacher's \\net\",1,,,6,\na,2,,,0.2,\n\
                    a,2,,true,0.125,\na,1,\"the teacher's \\net\",,0.05,\n\"the teacher's \\net\",1,a,,3.5,\na,1,a,,0.25,2\n";
        let table = parse_throughputs("t", text.as_bytes()).unwrap();
        let mut written = Vec::new();
        write_throughputs_json(&table, &mut written).unwrap();
        let again = parse_throughputs("t", &written).unwrap();
        assert_eq!((again.gangs(), again.pairs()), (table.gangs(), table.pairs()));
        let net = ("the teacher's \\net", 1);
        assert_eq!(again.get_pair(("a", 1), net, "h100"), Some((0.05, 3.5)));
        assert_eq!(again.get_pair(("a", 1), ("a", 1), "l4"), Some((2.0, 2.0)));
        assert_eq!((again.get("a", 1, "l4"), again.get_spread("a", 2, "h100")), (Some(4.0), Some(0.125)));
        let document: Value = serde_json::from_slice(&written).unwrap();
        assert_eq!(document["h100"][r#"("the teacher's \\net", 1)"#]["('a', 1)"], json!([3.5, 0.05]));
    }
}
