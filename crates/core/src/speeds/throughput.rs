//! Throughput table: how many steps per second a job type makes, by gang size and GPU type: alone, beside another
//! job on the same GPUs, and with its gang spread over nodes.
//!
//! A speed is of the whole job, not of one of its GPUs. Any of them may be missing, and 0 means "cannot run so".
//! Look-ups do not allocate: names become small numbers once, when a speed is put in.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The number of a job type or GPU type within one table.
type NameId = u32;

/// Names and their numbers.
#[derive(Clone, Debug, Default)]
struct Interned(BTreeMap<String, NameId>);

impl Interned {
    fn find(&self, name: &str) -> Option<NameId> {
        self.0.get(name).copied()
    }

    fn intern(&mut self, name: &str) -> NameId {
        let next = self.0.len() as NameId;
        self.find(name).unwrap_or_else(|| *self.0.entry(name.to_owned()).or_insert(next))
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The names, each at its number.
    fn by_number(&self) -> Vec<&str> {
        let mut names = vec![""; self.0.len()];
        for (name, &number) in &self.0 {
            names[number as usize] = name;
        }
        names
    }
}

/// A job type and a gang size, by name.
pub type NamedGang<'t> = (&'t str, u32);

/// A job type with a gang size. Ordered, so that a pair has one spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Gang {
    job_type: NameId,
    gpus: u32,
}

/// Steps per second of whole jobs. GPU types and job types are names; any of them may be missing.
#[derive(Clone, Debug, Default)]
pub struct ThroughputTable {
    /// What it is, for the assumptions printed with a result.
    pub source: String,
    job_types: Interned,
    gpu_types: Interned,
    alone: HashMap<(Gang, NameId), f64>,
    spread: HashMap<(Gang, NameId), f64>,
    /// The smaller gang comes first, in the key as in the value.
    pairs: HashMap<(Gang, Gang, NameId), (f64, f64)>,
    /// The gangs with a speed alone on some GPU type.
    gangs: BTreeSet<Gang>,
}

impl ThroughputTable {
    /// An empty table with a name.
    pub fn new(source: impl Into<String>) -> Self {
        Self { source: source.into(), ..Self::default() }
    }

    /// Sets the speed of a job type with a gang of `gpus` on a GPU type, alone there and its gang close together.
    pub fn insert(&mut self, job_type: &str, gpus: u32, gpu_type: &str, steps_per_second: f64) {
        let gang = self.intern_gang(job_type, gpus);
        let gpu_type = self.gpu_types.intern(gpu_type);
        self.gangs.insert(gang);
        self.alone.insert((gang, gpu_type), steps_per_second);
    }

    /// Sets the speed of a job type whose gang is spread over nodes.
    pub fn insert_spread(&mut self, job_type: &str, gpus: u32, gpu_type: &str, steps_per_second: f64) {
        let gang = self.intern_gang(job_type, gpus);
        let gpu_type = self.gpu_types.intern(gpu_type);
        self.spread.insert((gang, gpu_type), steps_per_second);
    }

    /// Sets the speeds of two jobs that share the same GPUs: that of the first, that of the second. Each is given as
    /// its job type and gang size; which one is named first makes no difference to what the table knows.
    pub fn insert_pair(&mut self, first: (&str, u32), second: (&str, u32), gpu_type: &str, steps_per_second: (f64, f64)) {
        let first = self.intern_gang(first.0, first.1);
        let second = self.intern_gang(second.0, second.1);
        let gpu_type = self.gpu_types.intern(gpu_type);
        if first <= second {
            self.pairs.insert((first, second, gpu_type), steps_per_second);
        } else {
            self.pairs.insert((second, first, gpu_type), (steps_per_second.1, steps_per_second.0));
        }
    }

    /// The speed alone, if the table knows it; 0 means that the job cannot run there.
    pub fn get(&self, job_type: &str, gpus: u32, gpu_type: &str) -> Option<f64> {
        self.alone.get(&(self.gang(job_type, gpus)?, self.gpu_types.find(gpu_type)?)).copied()
    }

    /// The speed with the gang spread over nodes, if the table knows it; 0 means that the job cannot run so.
    pub fn get_spread(&self, job_type: &str, gpus: u32, gpu_type: &str) -> Option<f64> {
        self.spread.get(&(self.gang(job_type, gpus)?, self.gpu_types.find(gpu_type)?)).copied()
    }

    /// The speeds of two jobs that share the same GPUs, in the order asked for, if the table knows them; 0 means that
    /// the job cannot run beside the other.
    pub fn get_pair(&self, first: (&str, u32), second: (&str, u32), gpu_type: &str) -> Option<(f64, f64)> {
        let first = self.gang(first.0, first.1)?;
        let second = self.gang(second.0, second.1)?;
        let gpu_type = self.gpu_types.find(gpu_type)?;
        if first <= second {
            self.pairs.get(&(first, second, gpu_type)).copied()
        } else {
            self.pairs.get(&(second, first, gpu_type)).map(|&(smaller, larger)| (larger, smaller))
        }
    }

    /// Whether a job type is known alone with this gang size.
    pub fn knows(&self, job_type: &str, gpus: u32) -> bool {
        self.gang(job_type, gpus).is_some_and(|gang| self.gangs.contains(&gang))
    }

    /// Whether any pair of jobs is known: without pairs, nothing can be said of jobs sharing GPUs.
    pub fn knows_pairs(&self) -> bool {
        !self.pairs.is_empty()
    }

    /// Whether a job type with this gang size is known beside any other.
    pub fn knows_pairs_of(&self, job_type: &str, gpus: u32) -> bool {
        let is_in = |gang: Gang| self.pairs.keys().any(|&(first, second, _)| first == gang || second == gang);
        self.gang(job_type, gpus).is_some_and(is_in)
    }

    /// The gang sizes known for a job type alone.
    pub fn gang_sizes(&self, job_type: &str) -> BTreeSet<u32> {
        let gangs = self.job_types.find(job_type).map(|job_type| {
            self.gangs.range(Gang { job_type, gpus: 0 }..=Gang { job_type, gpus: u32::MAX }).map(|gang| gang.gpus)
        });
        gangs.into_iter().flatten().collect()
    }

    /// All job types, sorted.
    pub fn job_types(&self) -> BTreeSet<&str> {
        self.job_types.names().collect()
    }

    /// All GPU types, sorted.
    pub fn gpu_types(&self) -> BTreeSet<&str> {
        self.gpu_types.names().collect()
    }

    /// Every job type with a gang size that the table says anything about, sorted.
    pub fn gangs(&self) -> BTreeSet<NamedGang<'_>> {
        let names = self.job_types.by_number();
        let alone = self.alone.keys().chain(self.spread.keys()).map(|&(gang, _)| gang);
        let paired = self.pairs.keys().flat_map(|&(first, second, _)| [first, second]);
        alone.chain(paired).map(|gang| (names[gang.job_type as usize], gang.gpus)).collect()
    }

    /// The pairs of jobs known together on some GPU type, each once with the smaller one first, sorted.
    pub fn pairs(&self) -> BTreeSet<(NamedGang<'_>, NamedGang<'_>)> {
        let names = self.job_types.by_number();
        let spelled = |gang: Gang| (names[gang.job_type as usize], gang.gpus);
        let ordered = |&(first, second, _): &(Gang, Gang, NameId)| {
            let (first, second) = (spelled(first), spelled(second));
            if first <= second { (first, second) } else { (second, first) }
        };
        self.pairs.keys().map(ordered).collect()
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.alone.is_empty() && self.spread.is_empty() && self.pairs.is_empty()
    }

    fn gang(&self, job_type: &str, gpus: u32) -> Option<Gang> {
        self.job_types.find(job_type).map(|job_type| Gang { job_type, gpus })
    }

    fn intern_gang(&mut self, job_type: &str, gpus: u32) -> Gang {
        Gang { job_type: self.job_types.intern(job_type), gpus }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_alone_and_spread_are_kept_apart() {
        let mut table = ThroughputTable::new("test");
        assert!(table.is_empty());
        table.insert("net", 2, "fast", 10.0);
        table.insert("net", 1, "slow", 2.0);
        table.insert("net", 1, "slow", 3.0);
        table.insert_spread("net", 4, "fast", 7.0);
        table.insert_spread("net", 2, "fast", 0.0);
        assert_eq!((table.get("net", 2, "fast"), table.get("net", 2, "slow")), (Some(10.0), None));
        assert_eq!(table.get("net", 1, "slow"), Some(3.0));
        assert_eq!((table.get_spread("net", 2, "fast"), table.get_spread("net", 1, "slow")), (Some(0.0), None));
        assert_eq!((table.get("net", 4, "fast"), table.get_spread("net", 4, "fast")), (None, Some(7.0)));
        assert!(table.knows("net", 1) && !table.knows("net", 4) && !table.knows("other", 1) && !table.is_empty());
    }

    #[test]
    fn a_pair_is_known_from_both_sides() {
        let mut table = ThroughputTable::new("test");
        assert!(!table.knows_pairs());
        table.insert_pair(("net", 1), ("lm", 1), "fast", (5.0, 3.0));
        table.insert_pair(("lm", 1), ("net", 2), "fast", (1.0, 2.0));
        table.insert_pair(("net", 1), ("net", 1), "fast", (4.0, 4.0));
        assert_eq!(table.get_pair(("net", 1), ("lm", 1), "fast"), Some((5.0, 3.0)));
        assert_eq!(table.get_pair(("lm", 1), ("net", 1), "fast"), Some((3.0, 5.0)));
        assert_eq!(table.get_pair(("net", 2), ("lm", 1), "fast"), Some((2.0, 1.0)));
        assert_eq!(table.get_pair(("net", 1), ("net", 1), "fast"), Some((4.0, 4.0)));
        assert_eq!(table.get_pair(("net", 1), ("lm", 1), "slow"), None);
        table.insert_pair(("lm", 1), ("net", 1), "fast", (9.0, 8.0));
        assert_eq!(table.get_pair(("net", 1), ("lm", 1), "fast"), Some((8.0, 9.0)), "the later word counts");
        assert!(table.knows_pairs() && !table.is_empty() && !table.knows("net", 1), "a pair is not a speed alone");
    }

    #[test]
    fn names_and_sizes_are_listed_in_order() {
        let mut table = ThroughputTable::new("test");
        for (job_type, gpus, gpu_type) in [("b", 8, "y"), ("a", 1, "x"), ("b", 2, "x"), ("b", 1, "y")] {
            table.insert(job_type, gpus, gpu_type, 1.0);
        }
        assert_eq!(table.job_types().into_iter().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(table.gpu_types().into_iter().collect::<Vec<_>>(), ["x", "y"]);
        assert_eq!(table.gang_sizes("b").into_iter().collect::<Vec<_>>(), [1, 2, 8]);
        assert!(table.gang_sizes("c").is_empty());
        table.insert_pair(("b", 2), ("a", 1), "x", (1.0, 2.0));
        table.insert_spread("a", 4, "x", 1.0);
        assert_eq!(table.gangs().into_iter().collect::<Vec<_>>(), [("a", 1), ("a", 4), ("b", 1), ("b", 2), ("b", 8)]);
        assert_eq!(table.pairs().into_iter().collect::<Vec<_>>(), [(("a", 1), ("b", 2))]);
    }
}
