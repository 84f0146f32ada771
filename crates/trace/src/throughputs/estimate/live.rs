//! Pairs of a live queue: what is expected of job types that were never measured beside each other.
//!
//! The reference models are those of the site's table whose pairs with each other are all known. Every other job type with a speed alone
//! is matched with one of them by the pairs that were measured of it, and its other pairs are those of its reference.

use super::references::{Match, References};
use super::{EstimateOptions, missing_pairs, stream, types_with_pairs};
use rota_core::{PairEstimator, ThroughputTable};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

const OPTIONS: EstimateOptions = EstimateOptions { seed: 0, references: None, holdout: 0.0 };

/// The row that a job type was matched by, and its match.
type Matched = (Vec<Option<f64>>, Match);

/// Fills pairs from the reference models of one table.
pub struct PairFiller {
    references: Vec<References>,
    /// By job type and gang size, what was matched last: completing a matrix takes milliseconds.
    matches: Mutex<HashMap<(String, u32), Matched>>,
}

impl PairFiller {
    /// With the reference models of a table, by gang size.
    pub fn new(table: &ThroughputTable) -> Self {
        let sizes = table.pairs().into_iter().filter(|(first, second)| first.1 == second.1).map(|(first, _)| first.1);
        let references = sizes.collect::<BTreeSet<_>>().into_iter().filter_map(|gpus| whole_references(table, gpus));
        Self { references: references.collect(), matches: Mutex::default() }
    }

    fn match_type(&self, references: &References, table: &ThroughputTable, job_type: &str) -> Match {
        if let Ok(reference) = references.names.binary_search_by(|name| name.as_str().cmp(job_type)) {
            return Match { reference, distance: 0.0 };
        }
        let row = references.row_of(table, job_type);
        let mut known = self.matches.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (job_type.to_owned(), references.gpus);
        if let Some((_, matched)) = known.get(&key).filter(|(before, _)| *before == row) {
            return *matched;
        }
        let matched = references.match_row(&row, &mut stream(&OPTIONS, "factors", job_type, references.gpus));
        known.insert(key, (row, matched));
        matched
    }
}

impl PairEstimator for PairFiller {
    fn fill(&self, table: &mut ThroughputTable) {
        for references in &self.references {
            let gpus = references.gpus;
            let of_size = table.gangs().into_iter().filter(|gang| gang.1 == gpus && table.knows(gang.0, gpus));
            let names = of_size.map(|gang| gang.0.to_owned()).collect::<Vec<_>>();
            let matches = names.iter().map(|name| (name.clone(), self.match_type(references, table, name)));
            let matches = matches.collect::<BTreeMap<_, _>>();
            let new_types = names.into_iter().filter(|name| !references.names.contains(name)).collect::<Vec<_>>();
            for pair in missing_pairs(table, references, &new_types, &matches) {
                let [first, second] = [&pair.job_types[0], &pair.job_types[1]].map(|name| (name.as_str(), gpus));
                table.insert_pair(first, second, &pair.gpu_type, pair.steps_per_second.into());
            }
        }
    }
}

/// The job types whose pairs with each other are all known on the GPU types with pairs of this gang size; none if that is one type alone.
/// The type with the most holes is left out until there is none.
fn whole_references(table: &ThroughputTable, gpus: u32) -> Option<References> {
    let pairs = table.pairs();
    let has_pairs = |gpu_type: &&str| {
        let of_size = pairs.iter().filter(|(first, second)| first.1 == gpus && second.1 == gpus);
        of_size.into_iter().any(|(first, second)| table.get_pair(*first, *second, gpu_type).is_some())
    };
    let gpu_types = table.gpu_types().into_iter().filter(has_pairs).map(str::to_owned).collect::<Vec<_>>();
    let mut names = types_with_pairs(table, gpus).into_iter().collect::<Vec<_>>();
    while names.len() > 1 {
        let candidate = References::unchecked(gpus, names.clone(), gpu_types.clone());
        let holes = |name: &String| candidate.row_of(table, name).iter().filter(|entry| entry.is_none()).count();
        let worst = names.iter().enumerate().map(|(place, name)| (holes(name), place)).max();
        match worst {
            Some((count, place)) if count > 0 => _ = names.remove(place),
            _ => return candidate.filled(table).ok(),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// References `a` and `b` in each other's way on x, `c` of which one pair is missing.
    fn site() -> ThroughputTable {
        let mut table = ThroughputTable::new("site");
        for name in ["a", "b", "c"] {
            table.insert(name, 1, "x", 10.0);
            table.insert(name, 1, "y", 10.0);
        }
        table.insert_pair(("a", 1), ("a", 1), "x", (9.0, 9.0));
        table.insert_pair(("a", 1), ("b", 1), "x", (8.0, 6.0));
        table.insert_pair(("b", 1), ("b", 1), "x", (3.0, 3.0));
        table.insert_pair(("a", 1), ("c", 1), "x", (1.0, 1.0));
        table
    }

    #[test]
    fn a_type_is_like_the_reference_that_its_measured_pairs_speak_for() {
        let filler = PairFiller::new(&site());
        assert_eq!(filler.references.iter().map(|known| known.names.join(" ")).collect::<Vec<_>>(), ["a b"]);
        let mut known = site();
        known.insert("new", 1, "x", 100.0);
        known.insert("new", 1, "z", 100.0);
        // Beside `a` and beside `b` it keeps what `b` keeps.
        known.insert_pair(("new", 1), ("a", 1), "x", (60.0, 8.0));
        known.insert_pair(("new", 1), ("b", 1), "x", (30.0, 3.0));
        let mut again = known.clone();
        filler.fill(&mut known);
        assert_eq!(known.get_pair(("new", 1), ("a", 1), "x"), Some((60.0, 8.0)), "what was measured stays");
        let own = known.get_pair(("new", 1), ("new", 1), "x").unwrap();
        assert!((own.0 - 30.0).abs() < 1e-9 && (own.1 - 30.0).abs() < 1e-9, "as `b` beside `b`: {own:?}");
        assert!(known.get_pair(("b", 1), ("c", 1), "x").is_some(), "and the hole of the site's table");
        assert_eq!(known.get_pair(("new", 1), ("a", 1), "z"), None, "of `z` nothing is known");
        filler.fill(&mut again);
        assert_eq!(again.get_pair(("new", 1), ("c", 1), "x"), known.get_pair(("new", 1), ("c", 1), "x"));
    }

    #[test]
    fn without_two_references_nothing_is_expected() {
        let mut table = ThroughputTable::new("site");
        table.insert("a", 1, "x", 10.0);
        table.insert_pair(("a", 1), ("a", 1), "x", (9.0, 9.0));
        let filler = PairFiller::new(&table);
        table.insert("new", 1, "x", 1.0);
        filler.fill(&mut table);
        assert_eq!(table.get_pair(("new", 1), ("a", 1), "x"), None);
    }
}
