//! The reference models: job types whose pairs with each other are all known, and the one a new job type is like.
//!
//! A row of a job type has an entry for each GPU type and reference: its speed beside the reference there over its speed alone. Entry
//! (GPU type `j`, reference `b`) always stands at `j * references + b`, for references and new types alike, whichever references are
//! chosen.

use super::completion::{self, Holed};
use crate::error::{Problem, TraceError};
use rota_core::ThroughputTable;
use rota_core::random::RandomStream;

/// The normalised speeds of the references beside each other.
pub(super) struct References {
    /// The job types of the reference models, sorted.
    pub names: Vec<String>,
    /// The gang size of the reference models.
    pub gpus: u32,
    /// The GPU types, sorted.
    pub gpu_types: Vec<String>,
    rows: Vec<Vec<f64>>,
}

/// A job type among the references.
#[derive(Clone, Copy, Debug)]
pub(super) struct Match {
    /// The reference it is most like.
    pub reference: usize,
    /// 1 minus the cosine between their rows.
    pub distance: f64,
}

impl References {
    /// Takes the references from a table, which must know all their pairs on all its GPU types.
    pub fn new(table: &ThroughputTable, gpus: u32, names: Vec<String>) -> Result<Self, TraceError> {
        Self::unchecked(gpus, names, table.gpu_types().into_iter().map(str::to_owned).collect()).filled(table)
    }

    /// References whose speeds are not known yet.
    pub fn unchecked(gpus: u32, names: Vec<String>, gpu_types: Vec<String>) -> Self {
        Self { names, gpus, gpu_types, rows: Vec::new() }
    }

    /// The same with their speeds, which the table must all know.
    pub fn filled(mut self, table: &ThroughputTable) -> Result<Self, TraceError> {
        let gpus = self.gpus;
        for name in &self.names {
            let row = self.row_of(table, name);
            if let Some(hole) = row.iter().position(Option::is_none) {
                let (gpu_type, other) = self.place(hole);
                let (field, wanted) = if table.get(name, gpus, gpu_type).is_none() {
                    (format!("{gpu_type}: `{name}` with {gpus} GPUs"), "its speed on every GPU type: it is a reference model")
                } else {
                    (
                        format!("{gpu_type}: `{name}` beside `{other}` with {gpus} GPUs each"),
                        "the speeds of every pair of reference models",
                    )
                };
                return Err(TraceError {
                    path: table.source.clone(),
                    line: 0,
                    field: Some(field.into()),
                    problem: Problem::Missing { wanted },
                });
            }
            self.rows.push(row.into_iter().flatten().collect());
        }
        Ok(self)
    }

    /// What a table knows of a job type's row.
    pub fn row_of(&self, table: &ThroughputTable, job_type: &str) -> Vec<Option<f64>> {
        let job = (job_type, self.gpus);
        let places = self.gpu_types.iter().flat_map(|gpu_type| self.names.iter().map(move |other| (gpu_type, other)));
        places.map(|(gpu_type, other)| normalised(table, job, (other, self.gpus), gpu_type)).collect()
    }

    /// The GPU type and the reference that a position of a row is about.
    pub fn place(&self, position: usize) -> (&str, &str) {
        (&self.gpu_types[position / self.names.len()], &self.names[position % self.names.len()])
    }

    /// How fast a reference is beside another one, over its speed alone.
    pub fn normalised(&self, reference: usize, other: usize, gpu_type: usize) -> f64 {
        self.rows[reference][gpu_type * self.names.len() + other]
    }

    /// The mean of everything known: what one would guess without any estimator.
    pub fn mean(&self, known: &[Option<f64>]) -> f64 {
        let (mut sum, mut count) = (0.0, 0_u32);
        for value in self.rows.iter().flatten().chain(known.iter().flatten()) {
            sum += value;
            count += 1;
        }
        sum / f64::from(count.max(1))
    }

    /// Fills the holes of a row and finds the reference it is most like.
    ///
    /// A row of which nothing is known is taken as the mean of the references' rows. Distances are those of Gavel, 1 minus the cosine,
    /// and the first of equals wins. A row of zeros has no direction: it is matched with the reference of the least norm, the nearest
    /// one in plain distance. A reference of zeros is as far as can be from any other row.
    pub fn match_row(&self, known: &[Option<f64>], stream: &mut RandomStream) -> Match {
        let row = self.fill(known, stream);
        let norm = |row: &[f64]| row.iter().map(|value| value * value).sum::<f64>().sqrt();
        let own_norm = norm(&row);
        let distance = |reference: &Vec<f64>| {
            let norms = own_norm * norm(reference);
            let product = reference.iter().zip(&row).map(|(one, other)| one * other).sum::<f64>();
            if norms > 0.0 { 1.0 - product / norms } else { 1.0 }
        };
        let least = |of: &dyn Fn(&Vec<f64>) -> f64| {
            let values = self.rows.iter().map(of).enumerate();
            values.min_by(|one, other| one.1.total_cmp(&other.1)).map_or(0, |(position, _)| position)
        };
        let reference = if own_norm > 0.0 { least(&distance) } else { least(&|row| norm(row)) };
        Match { reference, distance: self.rows.get(reference).map_or(1.0, distance) }
    }

    fn fill(&self, known: &[Option<f64>], stream: &mut RandomStream) -> Vec<f64> {
        if known.iter().all(Option::is_none) {
            let mean = |column: usize| self.rows.iter().map(|row| row[column]).sum::<f64>() / self.rows.len().max(1) as f64;
            return (0..known.len()).map(mean).collect();
        }
        if let Some(whole) = known.iter().copied().collect() {
            return whole;
        }
        let mut holed = self.rows.iter().map(|row| row.iter().copied().map(Some).collect()).collect::<Holed>();
        holed.push(known.to_vec());
        let filled = completion::complete(&holed, stream).pop().unwrap_or_default();
        known.iter().zip(filled).map(|(known, filled)| known.unwrap_or(filled.clamp(0.0, 1.0))).collect()
    }
}

/// How fast a job is beside another, over its speed alone; 0 where it cannot run alone, `None` where something is not known.
pub(super) fn normalised(table: &ThroughputTable, job: (&str, u32), beside: (&str, u32), gpu_type: &str) -> Option<f64> {
    let alone = table.get(job.0, job.1, gpu_type)?;
    let (together, _) = table.get_pair(job, beside, gpu_type)?;
    Some(if alone > 0.0 { together / alone } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types t0 … t4 on two GPU types; `t{a}` beside `t{b}` runs at a speed that tells a, b and the GPU type.
    fn table() -> ThroughputTable {
        let mut table = ThroughputTable::new("test");
        let names = (0..5).map(|number| format!("t{number}")).collect::<Vec<_>>();
        for (j, gpu_type) in ["x", "y"].into_iter().enumerate() {
            for (a, first) in names.iter().enumerate() {
                table.insert(first, 1, gpu_type, 10.0);
                for (b, second) in names.iter().enumerate().skip(a) {
                    let speed = |a: usize, b: usize| (a * 10 + b + j * 100) as f64 / 100.0;
                    table.insert_pair((first, 1), (second, 1), gpu_type, (speed(a, b), speed(b, a)));
                }
            }
        }
        table
    }

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_subset_of_references_reads_its_own_columns() {
        let references = References::new(&table(), 1, names(&["t1", "t4"])).unwrap();
        let expected = [0.31, 0.34, 1.31, 1.34].map(|speed| Some(speed / 10.0));
        let row = references.row_of(&table(), "t3");
        assert!(row.iter().zip(expected).all(|(found, wanted)| (found.unwrap() - wanted.unwrap()).abs() < 1e-12), "{row:?}");
        assert_eq!([0, 1, 2, 3].map(|at| references.place(at)), [("x", "t1"), ("x", "t4"), ("y", "t1"), ("y", "t4")]);
        assert!((references.normalised(1, 0, 1) - 0.141).abs() < 1e-12);
    }

    #[test]
    fn what_is_missing_is_named() {
        let mut table = table();
        table.insert("t5", 1, "x", 10.0);
        let message = References::new(&table, 1, names(&["t1", "t5"])).err().unwrap().to_string();
        assert!(message.starts_with("test: x: `t1` beside `t5` with 1 GPUs each: is missing"), "{message}");
        let message = References::new(&table, 1, names(&["t5"])).err().unwrap().to_string();
        assert!(message.starts_with("test: x: `t5` beside `t5`"), "{message}");
        table.insert_pair(("t5", 1), ("t5", 1), "x", (5.0, 5.0));
        let message = References::new(&table, 1, names(&["t5"])).err().unwrap().to_string();
        assert!(message.starts_with("test: y: `t5` with 1 GPUs: is missing: give its speed on every GPU type"), "{message}");
    }

    #[test]
    fn rows_without_a_direction_are_matched_by_rule() {
        let mut table = table();
        // A job type that stops whenever it shares a GPU, and one that cannot run on y at all.
        for gpu_type in ["x", "y"] {
            for (name, speed) in [("zero", 5.0), ("half", if gpu_type == "x" { 5.0 } else { 0.0 })] {
                table.insert(name, 1, gpu_type, speed);
                for other in ["t1", "t2", "zero", "half"] {
                    if table.knows(other, 1) {
                        table.insert_pair((name, 1), (other, 1), gpu_type, (0.0, 0.0));
                    }
                }
            }
        }
        let references = References::new(&table, 1, names(&["t1", "t2", "zero"])).unwrap();
        let mut stream = RandomStream::new(0, "test");
        let nothing = references.match_row(&[None; 6], &mut stream);
        assert!(nothing.reference < 2 && nothing.distance < 1.0);
        let zero = references.match_row(&[Some(0.0), None, None, None, None, None], &mut stream);
        assert_eq!(references.names[zero.reference], "zero");
        let half = references.match_row(&references.row_of(&table, "half"), &mut stream);
        assert_eq!((references.names[half.reference].as_str(), half.distance), ("zero", 1.0));
        let like = references.match_row(&references.row_of(&table, "t2"), &mut stream);
        assert_eq!(references.names[like.reference], "t2");
        assert!(like.distance.abs() < 1e-12);
    }
}
