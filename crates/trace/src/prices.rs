//! Price files: what a GPU of each type costs, constant or over time.
//!
//! **CSV**, a history: `time_s` (since the trace's zero), `gpu_type`, `usd_per_gpu_hour`. A price holds until the next one of its GPU
//! type; the first one of a type also holds before its time. Times must go up for each GPU type.
//!
//! ```csv
//! time_s,gpu_type,usd_per_gpu_hour
//! 0,v100,0.74
//! 0,k80,0.135
//! 3600,v100,0.90
//! ```
//!
//! **TOML**, constants:
//!
//! ```toml
//! [usd_per_gpu_hour]
//! v100 = 0.74
//! k80 = 0.135
//! ```
//!
//! A GPU type must be one of the cluster or one that Rota knows, so that a slip in a name is found; every GPU type of the cluster must
//! have a price.

use crate::collect::Collector;
use crate::error::{Fault, Problem, TraceError, excerpt};
use crate::format::{PREFIX_BYTES, detect_by_mark, first_line, refuse_binary};
use crate::lines::Lines;
use crate::table::each_record;
use crate::{Format, ReadOptions, cell};
use rota_core::{Cluster, GpuCatalog, PriceTable, Time};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use toml::Spanned;

/// The most bytes read of prices in TOML.
const PRICES_BYTES_MAX: u64 = 16 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConstantsFile {
    usd_per_gpu_hour: BTreeMap<Spanned<String>, f64>,
}

/// Reads prices for the GPU types of a cluster.
pub fn read_prices(path: &Path, cluster: &Cluster) -> Result<PriceTable, TraceError> {
    let source_name = path.display().to_string();
    let (prefix, file) = crate::load::open(path, &source_name)?;
    let mut input = BufReader::with_capacity(PREFIX_BYTES, prefix.as_slice().chain(file));
    parse(&source_name, &prefix, &mut input, cluster)
}

/// As [`read_prices`], from memory. `source_name` stands for the file in messages.
pub fn parse_prices(source_name: &str, text: &[u8], cluster: &Cluster) -> Result<PriceTable, TraceError> {
    parse(source_name, text, &mut { text }, cluster)
}

fn parse(source_name: &str, prefix: &[u8], input: &mut dyn BufRead, cluster: &Cluster) -> Result<PriceTable, TraceError> {
    let failed = |problem| TraceError::whole_file(source_name, problem);
    refuse_binary(prefix).map_err(failed)?;
    let mark = prefix.strip_prefix(b"\xef\xbb\xbf").unwrap_or(prefix);
    let is_toml = first_line(mark).and_then(|first| detect_by_mark(mark, first)) == Some(Format::RotaToml);
    let mut draft = Draft { table: PriceTable::new(source_name), cluster, catalog: GpuCatalog::default() };
    if is_toml {
        let text = crate::load::read_whole(source_name, input, PRICES_BYTES_MAX, Format::RotaToml)?;
        let text = std::str::from_utf8(&text).map_err(|_| failed(Problem::NotText))?;
        draft.read_constants(text.strip_prefix('\u{feff}').unwrap_or(text))?;
    } else {
        draft.read_history(&mut Lines::new(input))?;
    }
    let missing = cluster.types.iter().find(|kind| draft.table.series(&kind.name).is_none());
    match missing {
        None => Ok(draft.table),
        Some(kind) => Err(TraceError {
            field: Some(excerpt(&kind.name).into()),
            ..failed(Problem::Missing { wanted: "a price for every GPU type of the cluster" })
        }),
    }
}

/// Prices being read.
struct Draft<'c> {
    table: PriceTable,
    cluster: &'c Cluster,
    catalog: GpuCatalog,
}

impl Draft<'_> {
    fn push(&mut self, gpu_type: &str, from: Time, usd_per_hour: f64) -> Result<(), Fault> {
        let name = cell::gpu_type(gpu_type).map_err(|problem| problem.within("gpu_type"))?;
        if self.cluster.type_named(name).is_none() && !self.catalog.knows(name) {
            let known = self.cluster.types.iter().map(|kind| kind.name.as_str()).collect::<Vec<_>>().join(", ");
            let problem = Problem::UnknownGpuType { given: excerpt(name), owner: format!("the cluster, which has {known}") };
            return Err(problem.within("gpu_type"));
        }
        self.table.push(name, from, usd_per_hour).map_err(|error| {
            let field = if matches!(error, rota_core::PriceError::TimeOrder { .. }) { "time_s" } else { "usd_per_gpu_hour" };
            Problem::Price(error).within(field)
        })
    }

    fn read_history(&mut self, lines: &mut Lines<'_>) -> Result<(), TraceError> {
        let mut collector = Collector::new(&self.table.source, Format::RotaCsv, &ReadOptions::default());
        each_record(
            lines,
            &mut collector,
            b',',
            |header| {
                let columns = ["time_s", "gpu_type", "usd_per_gpu_hour"];
                if let Some(unknown) = header.names().iter().find(|name| !columns.contains(&name.as_str())) {
                    return Err(Problem::UnknownColumn { known: columns.join(", ") }.within(excerpt(unknown)));
                }
                let time = header.require(&["time_s"], "when a price begins to hold")?;
                let gpu_type = header.require(&["gpu_type"], "what has this price")?;
                Ok((time, gpu_type, header.require(&["usd_per_gpu_hour"], "the price")?))
            },
            |&(time, gpu_type, price), fields, _| {
                let from = cell::time(fields.get(time)).map_err(|problem| problem.within("time_s"))?;
                let text = fields.get(price);
                let usd = cell::number(text, "a price in US dollars per GPU and hour");
                self.push(fields.get(gpu_type), from, usd.map_err(|problem| problem.within("usd_per_gpu_hour"))?)
            },
        )
    }

    fn read_constants(&mut self, text: &str) -> Result<(), TraceError> {
        let line_of = |at: usize| text.bytes().take(at).filter(|&byte| byte == b'\n').count() as u32 + 1;
        let error = |line: u32, fault: Fault| TraceError {
            path: self.table.source.clone(),
            line,
            field: fault.field,
            problem: fault.problem,
        };
        let file = toml::from_str::<ConstantsFile>(text).map_err(|problem| {
            let message = excerpt(problem.message());
            error(problem.span().map_or(0, |span| line_of(span.start)), Problem::Toml { message }.into())
        })?;
        let source = self.table.source.clone();
        for (name, &usd) in &file.usd_per_gpu_hour {
            self.push(name.get_ref(), Time::ZERO, usd).map_err(|fault| TraceError {
                path: source.clone(),
                line: line_of(name.span().start),
                field: Some(format!("usd_per_gpu_hour: {}", excerpt(name.get_ref())).into()),
                problem: fault.problem,
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<PriceTable, String> {
        let cluster = Cluster::from_spec("v100:1,mine:1", 1).unwrap();
        parse_prices("p", text.as_bytes(), &cluster).map_err(|error| error.to_string())
    }

    #[test]
    fn histories_and_constants() {
        let history = read("# spot\ntime_s,gpu_type,usd_per_gpu_hour\n0,v100,1\n5,mine,0\n3600,v100,2.5\n0,t4,9\n").unwrap();
        let hour = Time(3_600_000_000_000);
        assert_eq!((history.price_at("v100", Time::ZERO), history.price_at("v100", hour)), (Some(1.0), Some(2.5)));
        assert_eq!((history.price_at("mine", Time::ZERO), history.changes().collect()), (Some(0.0), vec![hour]));
        let constants = read("[usd_per_gpu_hour]\nv100 = 0.74\nmine = 1\nk80 = 0.135\n").unwrap();
        assert_eq!((constants.price_at("v100", hour), constants.price_at("mine", hour)), (Some(0.74), Some(1.0)));
    }

    #[test]
    fn faults_name_the_line_and_the_field() {
        let row = |rows: &str| read(&format!("time_s,gpu_type,usd_per_gpu_hour\n0,v100,1\n0,mine,1\n{rows}\n")).unwrap_err();
        for (rows, message) in [
            ("9,v100,-1", "p:4: usd_per_gpu_hour: `-1` is out of range: give US dollars per GPU and hour from 0 to 1e6"),
            ("9,v100,NaN", "p:4: usd_per_gpu_hour: `NaN` is not a price in US dollars per GPU and hour"),
            ("9,v1000,1", "p:4: gpu_type: `v1000` is not a GPU type of the cluster, which has v100, mine"),
            ("-1,v100,1", "p:4: time_s: `-1` is out of range: give seconds from 0 to 3155760000 (100 years)"),
            ("9,v100,1\n8,v100,1", "p:5: time_s: times must go up for each GPU type: 8 s does not come after 9 s"),
            ("9,v100", "p:4: has 2 columns where 3 belong"),
        ] {
            assert_eq!(row(rows), message);
        }
        for (text, message) in [
            ("", "p: is empty"),
            (
                "time_s,gpu_type,usd\n",
                "p:1: usd: is no column of this format; the columns are time_s, gpu_type, usd_per_gpu_hour",
            ),
            (
                "time_s,gpu_type,usd_per_gpu_hour\n0,v100,1\n",
                "p: mine: is missing: give a price for every GPU type of the cluster",
            ),
            (
                "[usd_per_gpu_hour]\nmine = 1\nv100 = -1\n",
                "p:3: usd_per_gpu_hour: v100: `-1` is out of range: give US dollars per GPU and hour from 0 to 1e6",
            ),
            (
                "[usd_per_gpu_hour]\nmine = 1\nv1 = 1\n",
                "p:3: usd_per_gpu_hour: v1: `v1` is not a GPU type of the cluster, which has v100, mine",
            ),
        ] {
            assert_eq!(read(text).unwrap_err(), message);
        }
        assert!(read("[usd_per_hour]\nmine = 1\n").unwrap_err().starts_with("p:1: is not TOML: unknown field"));
        assert!(read("[usd_per_gpu_hour]\nmine = nan\nv100 = 1\n").unwrap_err().contains("p:2: usd_per_gpu_hour: mine: `NaN`"));
    }
}
