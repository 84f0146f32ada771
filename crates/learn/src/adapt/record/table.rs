//! Tables of recorded runs: for a model and a moment at which it may grow, the accuracy that each triple of actions ended with.
//!
//! A table is whole: it has every triple once for each seed. Runs of several seeds are averaged.

use crate::adapt::network::architecture::{Architecture, FinalRelu, InputShape, ModelKind, StructureError};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// Decisions in a run.
pub const DECISIONS: usize = 3;
/// The study's time for a run, where the file does not say it.
const TOTAL_S: f64 = 400.0;
/// Scored epochs at the end of a run whose mean is its settled accuracy.
const SETTLED_EPOCHS: usize = 5;

/// Three actions: numbers of blocks, or the number of blocks for "nothing".
pub type Triple = [usize; DECISIONS];

/// What is wrong with a file of tables.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum TableError {
    #[error("cannot read `{}`: {source}", path.display())]
    Read { path: PathBuf, source: csv::Error },
    #[error("`{}` has no column `{column}`", path.display())]
    Column { path: PathBuf, column: &'static str },
    #[error("`{}`, line {line}, field `{column}`: {problem}", path.display())]
    Field { path: PathBuf, line: u64, column: &'static str, problem: String },
    #[error("`{}`, line {line}: {table} has the triple {triple} twice for one seed; a triple is one row a seed", path.display())]
    Duplicate { path: PathBuf, line: u64, table: String, triple: String },
    #[error("`{}`: {table} has {found} of {wanted} runs; missing is the triple {missing}", path.display())]
    Short { path: PathBuf, table: String, found: usize, wanted: usize, missing: String },
    #[error("`{}` has no rows", .0.display())]
    Empty(PathBuf),
    #[error("there is no table `{name}`; the file has {known}")]
    Unknown { name: String, known: String },
    #[error(transparent)]
    Structure(#[from] StructureError),
}

/// One triple of a table, averaged over its seeds.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedRun {
    /// The three actions of the run.
    pub actions: Triple,
    /// The accuracy after the last epoch.
    pub accuracy: f64,
    /// The mean accuracy of the last five epochs, or the last one where the file does not tell more.
    pub settled: f64,
    /// Seconds left before each decision.
    pub time_left_s: [f64; DECISIONS],
    /// The settled accuracy for each seed, in the order of the seeds.
    pub settled_by_seed: Vec<f64>,
    /// The accuracy after the last epoch for each seed.
    pub accuracy_by_seed: Vec<f64>,
}

/// A whole table.
#[derive(Clone, Debug)]
pub struct Table {
    /// The scenario: when the network may grow.
    pub scenario: String,
    /// The network before it grows.
    pub architecture: Architecture,
    /// Seconds of a run.
    pub total_s: f64,
    /// The runs, in the order of their triples.
    pub runs: Vec<RecordedRun>,
    /// How many seeds each run is the mean of.
    pub seeds: usize,
}

/// Actions as they are written: one digit each.
pub fn triple_text(actions: &[usize]) -> String {
    actions.iter().map(ToString::to_string).collect()
}

impl Table {
    /// The table's name: model and scenario.
    pub fn name(&self) -> String {
        format!("{}/{}", self.architecture.kind.name(), self.scenario)
    }

    /// Actions at each decision: the blocks and "nothing".
    pub fn actions(&self) -> usize {
        self.architecture.blocks() + 1
    }

    /// The place of a triple among the runs.
    pub fn place(&self, triple: Triple) -> usize {
        triple.iter().fold(0, |place, action| place * self.actions() + action)
    }

    /// The run of a triple.
    pub fn run(&self, triple: Triple) -> &RecordedRun {
        &self.runs[self.place(triple)]
    }

    /// The triple that does nothing.
    pub fn nothing(&self) -> Triple {
        [self.architecture.blocks(); DECISIONS]
    }

    /// The highest accuracy of the table.
    pub fn best(&self) -> f64 {
        self.runs.iter().map(|run| run.accuracy).fold(f64::NEG_INFINITY, f64::max)
    }

    /// How far a triple stays below the best, in points.
    pub fn regret_points(&self, triple: Triple) -> f64 {
        100.0 * (self.best() - self.run(triple).accuracy)
    }

    /// The place of a triple in the order of accuracy, from 1; of equals the first triple is ahead.
    pub fn rank(&self, triple: Triple) -> usize {
        let (own, place) = (self.run(triple).accuracy, self.place(triple));
        let ahead = |(other, run): &(usize, &RecordedRun)| run.accuracy > own || (*other < place && run.accuracy >= own);
        1 + self.runs.iter().enumerate().filter(ahead).count()
    }

    /// The part of the budget that is left when the network may grow.
    pub fn part_left(&self) -> f64 {
        self.runs[0].time_left_s[0] / self.total_s
    }
}

/// The table with this name. Case, separators and the short names of scenarios (E, EM, M, ML, L) do not matter.
pub fn find<'a>(tables: &'a [Table], name: &str) -> Result<&'a Table, TableError> {
    let wanted = plain_name(name);
    let known = || tables.iter().map(Table::name).collect::<Vec<_>>().join(", ");
    let found = tables.iter().find(|table| plain_name(&table.name()) == wanted);
    found.ok_or_else(|| TableError::Unknown { name: name.to_owned(), known: known() })
}

fn plain_name(name: &str) -> String {
    let words = name.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty());
    let long = words.map(|word| match word.to_lowercase().as_str() {
        "e" => "early".to_owned(),
        "em" => "earlymiddle".to_owned(),
        "m" => "middle".to_owned(),
        "ml" => "middlelate".to_owned(),
        "l" => "late".to_owned(),
        other => other.to_owned(),
    });
    long.collect()
}

/// A row of the file, checked by itself.
struct Row {
    key: (String, String),
    architecture: Architecture,
    seed: String,
    run: RecordedRun,
    total_s: f64,
    line: u64,
}

/// Reads every table of a file. The settled accuracy is the column `mean_last_five_acc`, or comes from a `curves.csv` beside the file.
pub fn read_tables(path: &Path) -> Result<Vec<Table>, TableError> {
    let rows = Sheet::open(path)?.rows()?;
    let mut order: Vec<(String, String)> = Vec::new();
    let mut grouped: HashMap<(String, String), Vec<Row>> = HashMap::new();
    for row in rows {
        if !grouped.contains_key(&row.key) {
            order.push(row.key.clone());
        }
        grouped.entry(row.key.clone()).or_default().push(row);
    }
    if order.is_empty() {
        return Err(TableError::Empty(path.to_owned()));
    }
    let tables = order.into_iter().filter_map(|key| grouped.remove(&key)).map(|rows| whole(path, rows));
    let mut tables = tables.collect::<Result<Vec<_>, _>>()?;
    let curves = path.with_file_name("curves.csv");
    if curves.is_file() && !Sheet::open(path)?.has("mean_last_five_acc") {
        settle(&mut tables, &curves)?;
    }
    Ok(tables)
}

/// Makes one table of its rows, or says what is missing.
fn whole(path: &Path, rows: Vec<Row>) -> Result<Table, TableError> {
    let first = &rows[0];
    let (architecture, total_s, scenario) = (first.architecture.clone(), first.total_s, first.key.1.clone());
    let mut table = Table { scenario, architecture, total_s, runs: Vec::new(), seeds: 0 };
    let mut seeds: BTreeMap<String, BTreeMap<Triple, RecordedRun>> = BTreeMap::new();
    for row in rows {
        let triple = row.run.actions;
        if seeds.entry(row.seed).or_default().insert(triple, row.run).is_some() {
            let (table, triple) = (table.name(), triple_text(&triple));
            return Err(TableError::Duplicate { path: path.to_owned(), line: row.line, table, triple });
        }
    }
    let actions = table.actions();
    let all = || (0..actions.pow(DECISIONS as u32)).map(|place| triple_at(place, actions));
    for runs in seeds.values() {
        if let Some(missing) = all().find(|triple| !runs.contains_key(triple)) {
            let (found, wanted) = (runs.len(), actions.pow(DECISIONS as u32));
            let (table, missing) = (table.name(), triple_text(&missing));
            return Err(TableError::Short { path: path.to_owned(), table, found, wanted, missing });
        }
    }
    table.seeds = seeds.len();
    table.runs = all().map(|triple| mean_run(triple, &seeds)).collect();
    Ok(table)
}

/// The triple at a place of the enumeration.
pub fn triple_at(place: usize, actions: usize) -> Triple {
    [place / (actions * actions), place / actions % actions, place % actions]
}

fn mean_run(actions: Triple, seeds: &BTreeMap<String, BTreeMap<Triple, RecordedRun>>) -> RecordedRun {
    let count = seeds.len() as f64;
    let mean = |value: &dyn Fn(&RecordedRun) -> f64| seeds.values().map(|runs| value(&runs[&actions])).sum::<f64>() / count;
    RecordedRun {
        actions,
        accuracy: mean(&|run| run.accuracy),
        settled: mean(&|run| run.settled),
        time_left_s: std::array::from_fn(|step| mean(&|run| run.time_left_s[step])),
        settled_by_seed: seeds.values().map(|runs| runs[&actions].settled).collect(),
        accuracy_by_seed: seeds.values().map(|runs| runs[&actions].accuracy).collect(),
    }
}

/// Takes the settled accuracies from the curves of the runs.
fn settle(tables: &mut [Table], path: &Path) -> Result<(), TableError> {
    let mut curves: HashMap<(String, Triple), Vec<f64>> = HashMap::new();
    let mut sheet = Sheet::open(path)?;
    for column in ["model", "scenario", "a1", "a2", "a3", "test_acc"] {
        sheet.need(column)?;
    }
    while let Some(record) = sheet.next()? {
        let name = format!("{}/{}", sheet.text(&record, "model")?, sheet.text(&record, "scenario")?);
        let mut triple = [0; DECISIONS];
        for (action, column) in triple.iter_mut().zip(["a1", "a2", "a3"]) {
            *action = sheet.whole(&record, column)?;
        }
        curves.entry((name, triple)).or_default().push(sheet.accuracy(&record, "test_acc")?);
    }
    for table in tables {
        let name = table.name();
        for run in &mut table.runs {
            if let Some(curve) = curves.get(&(name.clone(), run.actions)) {
                let last = &curve[curve.len().saturating_sub(SETTLED_EPOCHS)..];
                run.settled = last.iter().sum::<f64>() / last.len() as f64;
                run.settled_by_seed = vec![run.settled];
            }
        }
    }
    Ok(())
}

/// A CSV file whose columns are found by name and whose faults are told by line and field.
struct Sheet {
    path: PathBuf,
    columns: HashMap<String, usize>,
    records: csv::StringRecordsIntoIter<std::fs::File>,
}

impl Sheet {
    fn open(path: &Path) -> Result<Self, TableError> {
        let reading = |source| TableError::Read { path: path.to_owned(), source };
        let mut reader = csv::Reader::from_path(path).map_err(reading)?;
        let columns = reader.headers().map_err(reading)?.iter().enumerate().map(|(place, name)| (name.trim().to_owned(), place));
        let columns = columns.collect();
        Ok(Self { path: path.to_owned(), columns, records: reader.into_records() })
    }

    fn has(&self, column: &str) -> bool {
        self.columns.contains_key(column)
    }

    fn need(&self, column: &'static str) -> Result<(), TableError> {
        if self.has(column) { Ok(()) } else { Err(TableError::Column { path: self.path.clone(), column }) }
    }

    fn next(&mut self) -> Result<Option<csv::StringRecord>, TableError> {
        let path = &self.path;
        self.records.next().transpose().map_err(|source| TableError::Read { path: path.clone(), source })
    }

    fn wrong(&self, record: &csv::StringRecord, column: &'static str, problem: String) -> TableError {
        let line = record.position().map_or(0, csv::Position::line);
        TableError::Field { path: self.path.clone(), line, column, problem }
    }

    fn text<'a>(&self, record: &'a csv::StringRecord, column: &'static str) -> Result<&'a str, TableError> {
        let place = self.columns.get(column).and_then(|place| record.get(*place));
        place.map(str::trim).ok_or_else(|| TableError::Column { path: self.path.clone(), column })
    }

    fn number(&self, record: &csv::StringRecord, column: &'static str) -> Result<f64, TableError> {
        let text = self.text(record, column)?;
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
        number.ok_or_else(|| self.wrong(record, column, format!("`{text}` is no number")))
    }

    fn whole(&self, record: &csv::StringRecord, column: &'static str) -> Result<usize, TableError> {
        let text = self.text(record, column)?;
        text.parse().map_err(|_| self.wrong(record, column, format!("`{text}` is no whole number")))
    }

    fn accuracy(&self, record: &csv::StringRecord, column: &'static str) -> Result<f64, TableError> {
        let number = self.number(record, column)?;
        let wrong = || self.wrong(record, column, format!("{number} is no accuracy; give a part from 0 to 1"));
        if (0.0..=1.0).contains(&number) { Ok(number) } else { Err(wrong()) }
    }

    /// The network of a row; a file that does not say more means CIFAR-10 and the study's `ReLU` at the end.
    fn architecture(&self, record: &csv::StringRecord) -> Result<Architecture, TableError> {
        let model = self.text(record, "model")?.parse::<ModelKind>();
        let model = model.map_err(|problem| self.wrong(record, "model", problem))?;
        let mut input = InputShape::CIFAR;
        let sides = [("channels", &mut input.channels), ("height", &mut input.height), ("width", &mut input.width)];
        for (column, side) in sides {
            if self.has(column) {
                *side = self.whole(record, column)?;
            }
        }
        let kept = !self.has("final_relu") || self.whole(record, "final_relu")? == 1;
        Ok(Architecture::new(model, input, if kept { FinalRelu::Kept } else { FinalRelu::Dropped })?)
    }

    fn row(&self, record: &csv::StringRecord) -> Result<Row, TableError> {
        let architecture = self.architecture(record)?;
        let blocks = architecture.blocks();
        let mut actions = [0; DECISIONS];
        for (action, column) in actions.iter_mut().zip(["a1", "a2", "a3"]) {
            *action = self.whole(record, column)?;
            if *action > blocks {
                let problem = format!("{action} is no action; {} has 0 to {blocks}", architecture.kind.name());
                return Err(self.wrong(record, column, problem));
            }
        }
        let mut time_left_s = [0.0; DECISIONS];
        for (left, column) in time_left_s.iter_mut().zip(["timeleft_before_a1", "timeleft_before_a2", "timeleft_before_a3"]) {
            *left = self.number(record, column)?;
        }
        let accuracy = self.accuracy(record, "final_test_acc")?;
        let settled = if self.has("mean_last_five_acc") { self.accuracy(record, "mean_last_five_acc")? } else { accuracy };
        let total_s = if self.has("total_time_s") { self.number(record, "total_time_s")? } else { TOTAL_S };
        if total_s <= 0.0 {
            return Err(self.wrong(record, "total_time_s", format!("{total_s} is no length of a run; give seconds above 0")));
        }
        let seed = if self.has("seed") { self.text(record, "seed")?.to_owned() } else { String::new() };
        Ok(Row {
            key: (architecture.kind.name().to_owned(), self.text(record, "scenario")?.to_owned()),
            architecture,
            seed,
            run: RecordedRun {
                actions,
                accuracy,
                settled,
                time_left_s,
                settled_by_seed: vec![settled],
                accuracy_by_seed: vec![accuracy],
            },
            total_s,
            line: record.position().map_or(0, csv::Position::line),
        })
    }

    fn rows(mut self) -> Result<Vec<Row>, TableError> {
        let times = ["timeleft_before_a1", "timeleft_before_a2", "timeleft_before_a3"];
        for column in ["model", "scenario", "a1", "a2", "a3", "final_test_acc"].into_iter().chain(times) {
            self.need(column)?;
        }
        let mut rows = Vec::new();
        while let Some(record) = self.next()? {
            rows.push(self.row(&record)?);
        }
        Ok(rows)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const HEAD: &str = "model,scenario,a1,a2,a3,final_test_acc,timeleft_before_a1,timeleft_before_a2,timeleft_before_a3\n";

    /// A table of one model whose accuracy a rule gives.
    pub(crate) fn text(model: &str, scenario: &str, accuracy: impl Fn(Triple) -> f64) -> String {
        let rows = (0..64).map(|place| triple_at(place, 4)).map(|triple| {
            let [a, b, c] = triple;
            format!("{model},{scenario},{a},{b},{c},{},330,320,310\n", accuracy(triple))
        });
        rows.collect()
    }

    fn read(text: &str) -> Result<Vec<Table>, TableError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tables.csv");
        std::fs::write(&path, text).unwrap();
        read_tables(&path)
    }

    pub(crate) fn example() -> Table {
        let accuracy = |triple: Triple| 0.5 + triple.iter().map(|action| [0.05, 0.04, 0.01, 0.0][*action]).sum::<f64>();
        read(&(HEAD.to_owned() + &text("ConvNet2", "early", accuracy))).unwrap().remove(0)
    }

    #[test]
    fn a_whole_table_is_ranked_and_found_by_any_spelling() {
        let table = example();
        assert_eq!((table.rank([0, 0, 0]), table.rank([3, 3, 3]), table.rank([0, 0, 1])), (1, 64, 2));
        assert!((table.regret_points([3, 3, 3]) - 15.0).abs() < 1e-9);
        let tables = [table];
        for name in ["ConvNet2/early", "convnet2-E", "ConvNet2 early"] {
            assert_eq!(find(&tables, name).unwrap().name(), "ConvNet2/early");
        }
        let error = find(&tables, "ConvNet2/late").unwrap_err().to_string();
        assert_eq!(error, "there is no table `ConvNet2/late`; the file has ConvNet2/early");
    }

    #[test]
    fn broken_short_and_double_rows_are_told_with_their_place() {
        let good = text("ConvNet2", "early", |_| 0.5);
        let first = good.lines().next().unwrap();
        for (text, reason) in [
            (String::new(), "no column `model`"),
            (HEAD.to_owned(), "has no rows"),
            (format!("{HEAD}{good}{first}\n"), "line 66: ConvNet2/early has the triple 000 twice"),
            (format!("{HEAD}{}", good.replace(&format!("{first}\n"), "")), "has 63 of 64 runs; missing is the triple 000"),
            (format!("{HEAD}{}", good.replacen("0.5", "1.5", 1)), "line 2, field `final_test_acc`: 1.5 is no accuracy"),
            (format!("{HEAD}{}", good.replacen("0.5", "nan", 1)), "`nan` is no number"),
            (format!("{HEAD}{}", good.replacen("early,0", "early,7", 1)), "7 is no action; ConvNet2 has 0 to 3"),
            (format!("{HEAD}ConvNet2,early,0\n"), "cannot read"),
            (format!("{HEAD}{}", good.replacen("ConvNet2", "ConvNet9", 1)), "unknown model `ConvNet9`"),
        ] {
            let error = read(&text).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn seeds_are_averaged() {
        let rows = |seed: u32, accuracy: f64| -> String {
            text("ConvNet2", "early", |_| accuracy).lines().map(|line| [line, ",", &seed.to_string(), "\n"].concat()).collect()
        };
        let file = format!("{},seed\n{}{}", HEAD.trim_end(), rows(1, 0.4), rows(2, 0.6));
        let table = read(&file).unwrap().remove(0);
        assert_eq!(table.seeds, 2);
        assert!((table.run([1, 2, 3]).accuracy - 0.5).abs() < 1e-12);
        assert_eq!(table.run([1, 2, 3]).accuracy_by_seed, [0.4, 0.6]);
    }
}
