//! Throughput tables: the one that comes with Rota, and users' own.
//!
//! A table is read by its content. All speeds are steps per second of the whole job; 0 means "cannot run so", and
//! what is left out is not known. Names of job types and GPU types are any text, compared letter by letter.
//!
//! **CSV**: `job_type`, `gpus` (gang size) and a column for each GPU type, named like it.
//!
//! ```csv
//! job_type,gpus,h100,l4
//! net,1,10,4
//! net,8,75,
//! ```
//!
//! Further columns, each of which may be left out, say what else a row is about. `spread` (`true` or `false`): the gang
//! is spread over nodes. `with_job_type`: the speed is that beside a job of this type on the same GPUs; `with_gpus` is
//! the gang size of that job, if it is another one. A pair has a row from either side (one, if both jobs are alike).
//!
//! ```csv
//! job_type,gpus,with_job_type,spread,h100
//! net,1,,,10
//! lm,1,,,6
//! net,8,,,75
//! net,8,,true,60
//! net,1,lm,,5
//! lm,1,net,,3.5
//! net,1,net,,5.5
//! ```
//!
//! **TOML**: the same as tables; `gpus` is 1 and `spread` false where they are left out.
//!
//! ```toml
//! [[speed]]
//! job_type = "net"
//! gpus = 8
//! spread = true
//! steps_per_second = { h100 = 60 }
//!
//! [[pair]]
//! job_types = ["net", "lm"]
//! gpus = [1, 1]
//! steps_per_second = { h100 = [5, 3.5] }
//! ```
//!
//! **JSON** as Gavel has it: GPU type → `"('net', 8)"` → `"null"` (alone) or another such key (beside it, two speeds).
//! GPU types ending in `_unconsolidated` are speeds with the gang spread over nodes; pairs of these are checked and
//! left out.
//!
//! In all three, a pair needs the speeds alone of both its jobs on that GPU type, and nothing may be said twice
//! differently. A GPU type of the cluster that a table does not have is one its jobs do not run on. A table in which every
//! speed is 0 is refused.

mod draft;
pub mod estimate;
mod gavel_json;
mod own_csv;
mod own_toml;
mod write;
mod write_gavel;

pub use write::{write_throughputs_csv, write_throughputs_toml};
pub use write_gavel::write_throughputs_json;

use crate::Format;
use crate::error::{Problem, TraceError};
use crate::format::{PREFIX_BYTES, detect_by_mark, first_line, refuse_binary};
use crate::lines::Lines;
use draft::Draft;
use rota_core::ThroughputTable;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// The most bytes read of a table in TOML or JSON; Gavel's has 1.2 MiB.
const TABLE_BYTES_MAX: u64 = 256 << 20;

/// The measured speeds of 26 job types on three GPU types that come with Rota.
pub fn default_throughputs() -> ThroughputTable {
    let source = "built-in table (Gavel, OSDI'20, simulation throughputs)";
    let nothing = ThroughputTable::default();
    let table = parse_table(source, &[], &mut include_bytes!("throughputs.csv").as_slice(), nothing);
    debug_assert!(table.is_ok(), "the built-in table must be readable");
    table.unwrap_or_else(|_| ThroughputTable::new(source))
}

/// Reads a table in Rota's CSV or TOML, or in Gavel's JSON.
pub fn read_throughputs(path: &Path) -> Result<ThroughputTable, TraceError> {
    read_throughputs_beside(path, ThroughputTable::default())
}

/// As [`read_throughputs`], beside what is already `known`: the file must not contradict it, and a pair may rest on the
/// speeds alone that are known there.
pub fn read_throughputs_beside(path: &Path, known: ThroughputTable) -> Result<ThroughputTable, TraceError> {
    let source_name = path.display().to_string();
    let (prefix, file) = crate::load::open(path, &source_name)?;
    let mut input = BufReader::with_capacity(PREFIX_BYTES, prefix.as_slice().chain(file));
    parse_table(&source_name, &prefix, &mut input, known)
}

/// As [`read_throughputs`], from memory. `source_name` stands for the file in messages.
pub fn parse_throughputs(source_name: &str, text: &[u8]) -> Result<ThroughputTable, TraceError> {
    parse_table(source_name, text, &mut { text }, ThroughputTable::default())
}

fn parse_table(
    source_name: &str,
    prefix: &[u8],
    input: &mut dyn BufRead,
    known: ThroughputTable,
) -> Result<ThroughputTable, TraceError> {
    let failed = |problem| TraceError::whole_file(source_name, problem);
    refuse_binary(prefix).map_err(failed)?;
    let prefix = prefix.strip_prefix(b"\xef\xbb\xbf").unwrap_or(prefix);
    let format = first_line(prefix).and_then(|first| detect_by_mark(prefix, first));
    let mut draft = Draft::new(source_name, known);
    match format {
        Some(format @ (Format::PhillyJson | Format::RotaToml)) => {
            let text = crate::load::read_whole(source_name, input, TABLE_BYTES_MAX, format)?;
            let text = std::str::from_utf8(&text).map_err(|_| failed(Problem::NotText))?;
            let text = text.strip_prefix('\u{feff}').unwrap_or(text);
            if format == Format::RotaToml { own_toml::read(text, &mut draft)? } else { gavel_json::read(text, &mut draft)? }
        }
        _ => own_csv::read(&mut Lines::new(input), &mut draft)?,
    }
    draft.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_table_knows_26_types_and_their_gangs() {
        let table = default_throughputs();
        assert_eq!(table.job_types().len(), 26);
        assert_eq!(table.gpu_types().into_iter().collect::<Vec<_>>(), ["k80", "p100", "v100"]);
        assert_eq!(table.gang_sizes("ResNet-18 (batch size 16)").into_iter().collect::<Vec<_>>(), [1, 2, 4, 8]);
        assert_eq!(table.gang_sizes("A3C").into_iter().collect::<Vec<_>>(), [1]);
        assert_eq!(table.get("ResNet-18 (batch size 16)", 1, "v100"), Some(32.353_384_328_946_916));
        assert_eq!(table.get("ResNet-50 (batch size 128)", 8, "k80"), Some(0.0));
        assert_eq!(table.get("A3C", 2, "v100"), None);
    }

    /// The same table in each of the three formats.
    #[test]
    fn one_table_in_three_formats() {
        let csv = "# speeds\njob_type,gpus,with_job_type,with_gpus,spread,H100,l4\nnet,1,,,,10,4\nlm,2,,,false,6,\nlm,2,,,1,5,\n\
                   net,1,lm,2,,5,\nlm,2,net,1,no,3.5,\nnet,1,net,,,4,2\n";
        let toml = "# speeds\n[[speed]]\njob_type = 'net'\nsteps_per_second = { H100 = 10, l4 = 4.0 }\n\
                    [[speed]]\njob_type = 'lm'\ngpus = 2\nsteps_per_second.H100 = 6\n\
                    [[speed]]\njob_type = 'lm'\ngpus = 2\nspread = true\nsteps_per_second.H100 = 5\n\
                    [[pair]]\njob_types = ['lm', 'net']\ngpus = [2, 1]\nsteps_per_second.H100 = [3.5, 5]\n\
                    [[pair]]\njob_types = ['net', 'net']\nsteps_per_second = { H100 = [4, 4], l4 = [2, 2] }\n";
        let json = r#"{"H100": {"('net', 1)": {"null": 10, "('lm', 2)": [5, 3.5], "('net', 1)": [4, 4]},
                      "('lm', 2)": {"('net', 1)": [3.5, 5.0], "null": 6.0}},
                      "l4": {"('net', 1)": {"null": 4, "('net', 1)": [2, 2]}},
                      "H100_unconsolidated": {"('lm', 2)": {"null": 5, "('lm', 2)": [1, 1]}}}"#;
        for text in [csv, toml, json] {
            for mark in ["", "\u{feff}"] {
                let table = parse_throughputs("t", format!("{mark}{text}").as_bytes()).unwrap();
                assert_eq!(table.gpu_types().into_iter().collect::<Vec<_>>(), ["H100", "l4"], "{text}");
                assert_eq!((table.get("net", 1, "H100"), table.get("lm", 2, "H100")), (Some(10.0), Some(6.0)));
                assert_eq!((table.get("net", 1, "l4"), table.get("lm", 2, "l4")), (Some(4.0), None));
                assert_eq!((table.get_spread("lm", 2, "H100"), table.get_spread("net", 1, "H100")), (Some(5.0), None));
                assert_eq!(table.get_pair(("net", 1), ("lm", 2), "H100"), Some((5.0, 3.5)));
                assert_eq!(table.get_pair(("net", 1), ("net", 1), "l4"), Some((2.0, 2.0)));
                assert_eq!(table.get_pair(("lm", 2), ("lm", 2), "H100"), None);
            }
        }
    }
}
