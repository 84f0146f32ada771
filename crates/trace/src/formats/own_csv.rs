//! Rota's own table: a header of known columns in any order, one job a line, `#` for comments.

use super::own::{Draft, OwnField};
use crate::collect::Collector;
use crate::error::{Problem, TraceError};
use crate::lines::Lines;
use crate::table::each_record;

pub(crate) fn read(lines: &mut Lines<'_>, collector: &mut Collector) -> Result<(), TraceError> {
    each_record(
        lines,
        collector,
        b',',
        |header| {
            let columns = header.names().iter().map(|name| OwnField::named(name)).collect::<Result<Vec<_>, _>>()?;
            header.require(&["arrival_s"], "when a job is submitted")?;
            if header.find(&["duration_s", "steps"]).is_none() {
                return Err(Problem::MissingColumn { wanted: "how long a job runs (or `steps`)" }.within("duration_s"));
            }
            Ok(columns)
        },
        |columns, fields, collector| {
            let mut draft = Draft::new();
            for (index, &column) in columns.iter().enumerate() {
                draft.set(column, fields.get(index), collector)?;
            }
            draft.add(collector)
        },
    )
}
