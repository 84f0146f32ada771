//! Estimates of how fast jobs are beside each other, from a few measured pairs: what a throughput table lacks for new job types.
//!
//! A table that knows all pairs of some reference models is given, and for each new job type its speeds alone and a few pairs with
//! references. The new type's row of normalised speeds (beside a reference, over alone) is filled by matrix completion, and the reference
//! with the nearest row by cosine stands in for it: beside `b`, a job of type `a` is taken to run at its speed alone times what `a`'s
//! reference makes of its own beside `b`'s. This is the method of Gavel (OSDI'20); measured pairs stay as they are. Speeds alone are never estimated.
//!
//! How far to trust it is measured, not promised: some of the known pairs are held out, estimated from the rest and compared, beside
//! the error of guessing the mean of all that is known.

mod completion;
mod live;
mod references;

pub use live::PairFiller;

use crate::error::{Problem, TraceError};
use references::{Match, References, normalised};
use rota_core::ThroughputTable;
use rota_core::random::RandomStream;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// How estimates are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EstimateOptions {
    /// Seed of the factors' start, of the references drawn and of what is held out.
    pub seed: u64,
    /// How many reference models to draw; all there are if not given.
    pub references: Option<u32>,
    /// The part of the known pairs that is held out to measure the error, 0 to 1.
    pub holdout: f64,
}

/// How far estimates were from pairs that had been held out, in normalised speed: 0.1 is a tenth of the speed alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Errors {
    /// Speeds compared: two a pair.
    pub held_out: u32,
    /// Mean absolute error.
    pub mean: f64,
    /// Largest absolute error.
    pub worst: f64,
    /// Mean absolute error of guessing the mean of all known entries.
    pub guess_mean: f64,
    /// Largest absolute error of that guess.
    pub guess_worst: f64,
}

/// What was found out about one job type.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TypeEstimate {
    /// The job type.
    pub job_type: String,
    /// The job type's gang size.
    pub gpus: u32,
    /// The reference model that stands in for it.
    pub reference: String,
    /// 1 minus the cosine between the two rows.
    pub distance: f64,
    /// Pairs with references that were known, counted once for each GPU type.
    pub measured: u32,
    /// Pairs that were estimated, counted likewise.
    pub estimated: u32,
    /// The error on held-out pairs; `None` if there were too few to hold any out.
    pub errors: Option<Errors>,
}

/// An estimated pair.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PairEstimate {
    /// The two job types.
    pub job_types: [String; 2],
    /// The gang size of both jobs.
    pub gpus: u32,
    /// The GPU type that the pair shares.
    pub gpu_type: String,
    /// The speed of each beside the other.
    pub steps_per_second: [f64; 2],
}

/// Everything that came out.
#[derive(Clone, Debug, Serialize)]
pub struct Estimate {
    /// The reference models by gang size.
    pub references: BTreeMap<u32, Vec<String>>,
    /// The job types estimated.
    pub types: Vec<TypeEstimate>,
    /// The error over all of them.
    pub errors: Option<Errors>,
    /// The pairs estimated.
    pub pairs: Vec<PairEstimate>,
    /// The table with measured and estimated pairs in it.
    #[serde(skip)]
    pub table: ThroughputTable,
}

/// Errors being added up.
#[derive(Default)]
struct ErrorSum {
    errors: Errors,
}

impl ErrorSum {
    fn add(&mut self, estimate: f64, guess: f64, truth: f64) {
        let (error, guess_error) = ((estimate - truth).abs(), (guess - truth).abs());
        self.errors.held_out += 1;
        self.errors.mean += error;
        self.errors.worst = self.errors.worst.max(error);
        self.errors.guess_mean += guess_error;
        self.errors.guess_worst = self.errors.guess_worst.max(guess_error);
    }

    fn absorb(&mut self, other: &Self) {
        self.errors.held_out += other.errors.held_out;
        self.errors.mean += other.errors.mean;
        self.errors.worst = self.errors.worst.max(other.errors.worst);
        self.errors.guess_mean += other.errors.guess_mean;
        self.errors.guess_worst = self.errors.guess_worst.max(other.errors.guess_worst);
    }

    fn finish(&self) -> Option<Errors> {
        let count = f64::from(self.errors.held_out);
        let means = Errors { mean: self.errors.mean / count, guess_mean: self.errors.guess_mean / count, ..self.errors };
        (self.errors.held_out > 0).then_some(means)
    }
}

/// Fills in the pairs of the job types that `observed` has and `table` does not, with each other and with those of `table`.
pub fn estimate(table: &ThroughputTable, observed: &ThroughputTable, options: &EstimateOptions) -> Result<Estimate, TraceError> {
    check_gpu_types(table, observed)?;
    let mut new_types: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for (job_type, gpus) in observed.gangs().into_iter().filter(|gang| !table.knows(gang.0, gang.1)) {
        new_types.entry(gpus).or_default().push(job_type.to_owned());
    }
    if new_types.is_empty() {
        let problem = Problem::Missing { wanted: "the speeds of a job type that the table does not know" };
        return Err(TraceError::whole_file(&observed.source, problem));
    }
    let mut filled = table.clone();
    merge(&mut filled, observed);
    filled.source = format!("{} with pairs estimated from {}", table.source, observed.source);
    let mut estimate =
        Estimate { references: BTreeMap::new(), types: Vec::new(), errors: None, pairs: Vec::new(), table: filled };
    let mut sum = ErrorSum::default();
    for (gpus, names) in new_types {
        let references = References::new(table, gpus, chosen_references(table, gpus, options)?)?;
        estimate.references.insert(gpus, references.names.clone());
        let matches = match_types(&estimate.table, &references, &names, options);
        let pairs = missing_pairs(&estimate.table, &references, &names, &matches);
        for name in &names {
            let errors = hold_out(&estimate.table, &references, name, options);
            let known = references.row_of(&estimate.table, name);
            let of_type = |pair: &&PairEstimate| pair.job_types.contains(name);
            let found = &matches[name.as_str()];
            estimate.types.push(TypeEstimate {
                job_type: name.clone(),
                gpus,
                reference: references.names[found.reference].clone(),
                distance: found.distance,
                measured: known.iter().flatten().count() as u32,
                estimated: pairs.iter().filter(of_type).count() as u32,
                errors: errors.finish(),
            });
            sum.absorb(&errors);
        }
        for pair in &pairs {
            let [first, second] = [&pair.job_types[0], &pair.job_types[1]].map(|name| (name.as_str(), gpus));
            estimate.table.insert_pair(first, second, &pair.gpu_type, pair.steps_per_second.into());
        }
        estimate.pairs.extend(pairs);
    }
    estimate.errors = sum.finish();
    Ok(estimate)
}

/// Treats each job type of a table in turn as if it were new and most of its pairs unknown: how far the estimates can be trusted.
pub fn cross_validate(table: &ThroughputTable, options: &EstimateOptions) -> Result<Estimate, TraceError> {
    let sizes = table.pairs().into_iter().filter(|(first, second)| first.1 == second.1).map(|(first, _)| first.1);
    let mut estimate =
        Estimate { references: BTreeMap::new(), types: Vec::new(), errors: None, pairs: Vec::new(), table: table.clone() };
    let mut sum = ErrorSum::default();
    for gpus in sizes.collect::<BTreeSet<_>>() {
        let drawn = chosen_references(table, gpus, options)?;
        // All of them must be whole, also those that are left out in turn.
        References::new(table, gpus, drawn.clone())?;
        for name in types_with_pairs(table, gpus) {
            let others = drawn.iter().filter(|other| **other != name).cloned().collect::<Vec<_>>();
            if others.is_empty() {
                continue;
            }
            let references = References::new(table, gpus, others)?;
            let errors = hold_out(table, &references, &name, options);
            let (known, hidden) = split(&references.row_of(table, &name), &name, gpus, options);
            let found = references.match_row(&known, &mut stream(options, "factors", &name, gpus));
            estimate.types.push(TypeEstimate {
                job_type: name,
                gpus,
                reference: references.names[found.reference].clone(),
                distance: found.distance,
                measured: known.iter().flatten().count() as u32,
                estimated: hidden.len() as u32,
                errors: errors.finish(),
            });
            sum.absorb(&errors);
        }
        estimate.references.insert(gpus, drawn);
    }
    if estimate.types.is_empty() {
        return Err(TraceError::whole_file(&table.source, NO_PAIRS));
    }
    estimate.errors = sum.finish();
    Ok(estimate)
}

const NO_PAIRS: Problem =
    Problem::Missing { wanted: "pairs of at least two job types of one gang size, for estimates to be made from" };

fn stream(options: &EstimateOptions, purpose: &str, job_type: &str, gpus: u32) -> RandomStream {
    RandomStream::new(options.seed, &format!("{purpose} of {job_type} with {gpus}"))
}

/// The observed GPU types must be among those that the references were measured on.
fn check_gpu_types(table: &ThroughputTable, observed: &ThroughputTable) -> Result<(), TraceError> {
    let known = table.gpu_types();
    match observed.gpu_types().into_iter().find(|gpu_type| !known.contains(gpu_type)) {
        None => Ok(()),
        Some(gpu_type) => Err(TraceError::whole_file(
            &observed.source,
            Problem::UnknownGpuType {
                given: gpu_type.to_owned(),
                owner: format!("{}, which has {}", table.source, known.into_iter().collect::<Vec<_>>().join(", ")),
            },
        )),
    }
}

/// Job types with a pair of two equal gangs of this size.
fn types_with_pairs(table: &ThroughputTable, gpus: u32) -> BTreeSet<String> {
    let pairs = table.pairs();
    let of_size = pairs.iter().filter(|(first, second)| first.1 == gpus && second.1 == gpus);
    of_size.flat_map(|(first, second)| [first.0.to_owned(), second.0.to_owned()]).collect()
}

/// The reference models: all job types with pairs, or as many of them as asked for, drawn without putting back.
fn chosen_references(table: &ThroughputTable, gpus: u32, options: &EstimateOptions) -> Result<Vec<String>, TraceError> {
    let mut names = types_with_pairs(table, gpus).into_iter().collect::<Vec<_>>();
    if names.len() < 2 {
        return Err(TraceError::whole_file(&table.source, NO_PAIRS));
    }
    let Some(wanted) = options.references.map(|wanted| wanted as usize).filter(|wanted| *wanted < names.len()) else {
        return Ok(names);
    };
    let mut stream = RandomStream::new(options.seed, &format!("references with {gpus}"));
    for position in 0..wanted {
        let drawn = stream.between(position as u64, names.len() as u64 - 1) as usize;
        names.swap(position, drawn);
    }
    names.truncate(wanted);
    names.sort_unstable();
    Ok(names)
}

/// Puts everything that is measured into a table.
fn merge(into: &mut ThroughputTable, from: &ThroughputTable) {
    for gpu_type in from.gpu_types() {
        for (job_type, gpus) in from.gangs() {
            if let Some(speed) = from.get(job_type, gpus, gpu_type) {
                into.insert(job_type, gpus, gpu_type, speed);
            }
            if let Some(speed) = from.get_spread(job_type, gpus, gpu_type) {
                into.insert_spread(job_type, gpus, gpu_type, speed);
            }
        }
        for (first, second) in from.pairs() {
            if let Some(speeds) = from.get_pair(first, second, gpu_type) {
                into.insert_pair(first, second, gpu_type, speeds);
            }
        }
    }
}

/// Which reference stands in for each job type: for a reference it is itself, for all others the nearest.
fn match_types(
    table: &ThroughputTable,
    references: &References,
    new_types: &[String],
    options: &EstimateOptions,
) -> BTreeMap<String, Match> {
    let others = types_with_pairs(table, references.gpus);
    let names = others.iter().chain(new_types).collect::<BTreeSet<_>>();
    let found = names.into_iter().map(|name| {
        let mut stream = stream(options, "factors", name, references.gpus);
        let mut found = references.match_row(&references.row_of(table, name), &mut stream);
        if let Ok(itself) = references.names.binary_search(name) {
            (found.reference, found.distance) = (itself, 0.0);
        }
        (name.clone(), found)
    });
    found.collect()
}

/// Estimates every pair with a new type that was not measured, on the GPU types where both can run alone.
fn missing_pairs(
    table: &ThroughputTable,
    references: &References,
    new_types: &[String],
    matches: &BTreeMap<String, Match>,
) -> Vec<PairEstimate> {
    let gpus = references.gpus;
    let mut pairs = Vec::new();
    for (first, found) in matches.iter().filter(|(name, _)| new_types.contains(name)) {
        for (second, other) in matches {
            // Two new types meet twice; once is enough.
            if new_types.contains(second) && second < first {
                continue;
            }
            for (position, gpu_type) in references.gpu_types.iter().enumerate() {
                let alone = (table.get(first, gpus, gpu_type), table.get(second, gpus, gpu_type));
                let (Some(alone), Some(other_alone)) = alone else { continue };
                if table.get_pair((first, gpus), (second, gpus), gpu_type).is_some() {
                    continue;
                }
                let normalised = if alone > 0.0 && other_alone > 0.0 {
                    let speed = |one: &Match, beside: &Match| references.normalised(one.reference, beside.reference, position);
                    (speed(found, other), speed(other, found))
                } else {
                    (0.0, 0.0)
                };
                let speeds = [alone * normalised.0, other_alone * normalised.1];
                // A job beside its like is as fast as the other.
                let speeds = if first == second { [f64::midpoint(speeds[0], speeds[1]); 2] } else { speeds };
                pairs.push(PairEstimate {
                    job_types: [first.clone(), second.clone()],
                    gpus,
                    gpu_type: gpu_type.clone(),
                    steps_per_second: speeds,
                });
            }
        }
    }
    pairs
}

/// Hides some of the known entries of a row; gives the rest and the positions hidden. At least one entry stays known.
fn split(row: &[Option<f64>], job_type: &str, gpus: u32, options: &EstimateOptions) -> (Vec<Option<f64>>, Vec<usize>) {
    let mut order = (0..row.len()).filter(|&position| row[position].is_some()).collect::<Vec<_>>();
    let wanted = (options.holdout * order.len() as f64).round() as usize;
    let count = wanted.max(usize::from(options.holdout > 0.0)).min(order.len().saturating_sub(1));
    let mut stream = stream(options, "held out", job_type, gpus);
    for position in 0..count {
        let drawn = stream.between(position as u64, order.len() as u64 - 1) as usize;
        order.swap(position, drawn);
    }
    order.truncate(count);
    let mut known = row.to_vec();
    for &position in &order {
        known[position] = None;
    }
    (known, order)
}

/// Hides some pairs of a job type, estimates them from the rest, and compares both speeds of each with the truth.
fn hold_out(table: &ThroughputTable, references: &References, job_type: &str, options: &EstimateOptions) -> ErrorSum {
    let gpus = references.gpus;
    let row = references.row_of(table, job_type);
    let (known, hidden) = split(&row, job_type, gpus, options);
    let found = references.match_row(&known, &mut stream(options, "factors", job_type, gpus));
    let guess = references.mean(&known);
    let mut sum = ErrorSum::default();
    for position in hidden {
        let (gpu_type, other) = references.place(position);
        let (kind, reference) = (position / references.names.len(), position % references.names.len());
        if let Some(truth) = row[position] {
            sum.add(references.normalised(found.reference, reference, kind), guess, truth);
        }
        if let Some(truth) = normalised(table, (other, gpus), (job_type, gpus), gpu_type) {
            sum.add(references.normalised(reference, found.reference, kind), guess, truth);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_throughputs;

    /// How much a type of this greed slows another one of that greed: of rank 2, different for every pair.
    fn slowed(own: f64, other: f64, gpu_type: usize) -> f64 {
        0.9 - 0.5 * other * (0.4 + 0.6 * own) - 0.1 * gpu_type as f64 * other
    }

    /// References `r00` … of growing greed on two GPU types, all pairs known.
    fn planted(count: u32) -> ThroughputTable {
        let mut table = ThroughputTable::new("planted");
        let greed = |number: u32| f64::from(number) / f64::from(count);
        for (kind, gpu_type) in ["x", "y"].into_iter().enumerate() {
            for first in 0..count {
                table.insert(&format!("r{first:02}"), 1, gpu_type, 1.0 + f64::from(first));
                for second in first..count {
                    let speed = |one: u32, other: u32| (1.0 + f64::from(one)) * slowed(greed(one), greed(other), kind);
                    let names = (format!("r{first:02}"), format!("r{second:02}"));
                    table.insert_pair((&names.0, 1), (&names.1, 1), gpu_type, (speed(first, second), speed(second, first)));
                }
            }
        }
        table
    }

    const OPTIONS: EstimateOptions = EstimateOptions { seed: 1, references: None, holdout: 0.5 };

    /// A new type as greedy as `r05` of 10, measured beside a few references on x.
    fn observed() -> ThroughputTable {
        let mut observed = ThroughputTable::new("observed");
        observed.insert("new", 1, "x", 8.0);
        observed.insert("new", 1, "y", 4.0);
        for other in [0_u32, 3, 6, 9] {
            let greed = f64::from(other) / 10.0;
            let speeds = (8.0 * slowed(0.5, greed, 0), (1.0 + f64::from(other)) * slowed(greed, 0.5, 0));
            observed.insert_pair(("new", 1), (&format!("r{other:02}"), 1), "x", speeds);
        }
        observed
    }

    #[test]
    fn a_planted_type_is_recognised_and_its_pairs_are_filled() {
        let found = estimate(&planted(10), &observed(), &OPTIONS).unwrap();
        let [new] = found.types.as_slice() else { panic!("{:?}", found.types) };
        assert_eq!((new.measured, new.estimated), (4, 6 + 10 + 2));
        assert_eq!(found.pairs.len(), 18);
        assert_eq!(found.table.get_pair(("new", 1), ("r03", 1), "x"), observed().get_pair(("new", 1), ("r03", 1), "x"));
        let beside = |other: u32| slowed(0.5, f64::from(other) / 10.0, 1);
        for other in 0..10 {
            let (new, reference) = found.table.get_pair(("new", 1), (&format!("r{other:02}"), 1), "y").unwrap();
            assert!((new / 4.0 - beside(other)).abs() < 0.08, "{other}: {new}");
            let truth = slowed(f64::from(other) / 10.0, 0.5, 1);
            assert!((reference / (1.0 + f64::from(other)) - truth).abs() < 0.15, "{other}: {reference}");
        }
        let own = found.table.get_pair(("new", 1), ("new", 1), "x").unwrap();
        assert!((own.0 - own.1).abs() < 1e-12);
        assert!(found.errors.unwrap().held_out == 4);
        let again = estimate(&planted(10), &observed(), &OPTIONS).unwrap();
        assert_eq!((again.types, again.pairs), (found.types, found.pairs));
    }

    #[test]
    fn cross_validation_tells_how_far_to_trust() {
        let found = cross_validate(&planted(12), &OPTIONS).unwrap();
        let errors = found.errors.unwrap();
        assert_eq!((found.types.len(), found.references[&1].len()), (12, 12));
        assert!(errors.mean < 0.05 && errors.mean < errors.guess_mean / 2.0, "{errors:?}");
        let few = cross_validate(&planted(12), &EstimateOptions { references: Some(5), ..OPTIONS }).unwrap();
        assert_eq!((few.types.len(), few.references[&1].len()), (12, 5));
        assert!(few.errors.unwrap().mean < few.errors.unwrap().guess_mean, "{:?}", few.errors);
        let none = cross_validate(&planted(4), &EstimateOptions { holdout: 0.0, ..OPTIONS }).unwrap();
        assert_eq!((none.errors, none.types[0].measured), (None, 6));
    }

    #[test]
    fn a_type_without_pairs_or_speeds_is_still_placed() {
        let mut observed = ThroughputTable::new("observed");
        observed.insert("new", 1, "x", 8.0);
        let found = estimate(&planted(5), &observed, &OPTIONS).unwrap();
        assert_eq!((found.types[0].measured, found.types[0].estimated, found.types[0].errors), (0, 6, None));
        assert!(found.pairs.iter().all(|pair| pair.gpu_type == "x"), "its speed on y is not known");
        observed.insert("new", 1, "y", 0.0);
        let found = estimate(&planted(5), &observed, &OPTIONS).unwrap();
        assert_eq!(found.table.get_pair(("new", 1), ("r01", 1), "y"), Some((0.0, 0.0)), "it cannot run there at all");
    }

    #[test]
    fn what_cannot_be_estimated_is_said() {
        let message = |table: &ThroughputTable, observed: &ThroughputTable| {
            estimate(table, observed, &OPTIONS).err().map(|error| error.to_string()).unwrap_or_default()
        };
        let parse = |text: &str| parse_throughputs("t", text.as_bytes()).unwrap();
        let other = parse("job_type,gpus,z\nnew,1,2\n");
        assert_eq!(message(&planted(3), &other), "t: `z` is not a GPU type of planted, which has x, y");
        let known = parse("job_type,gpus,x\nr01,1,2\n");
        assert!(message(&planted(3), &known).starts_with("t: is missing: give the speeds of a job type that the table"));
        let gang = parse("job_type,gpus,x\nnew,4,2\n");
        assert!(message(&planted(3), &gang).starts_with("planted: is missing: give pairs of at least two job types"));
        let alone = parse("job_type,gpus,x\na,1,2\nb,1,2\n");
        assert!(cross_validate(&alone, &OPTIONS).err().unwrap().to_string().contains("pairs of at least two"));
        let mut holed = planted(3);
        holed.insert("r03", 1, "x", 1.0);
        holed.insert_pair(("r03", 1), ("r00", 1), "x", (1.0, 1.0));
        let found = message(&holed, &parse("job_type,gpus,x\nnew,1,2\n"));
        assert!(found.starts_with("planted: y: `r00` beside `r03` with 1 GPUs each: is missing"), "{found}");
    }
}
