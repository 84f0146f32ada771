//! Groups: the jobs of one array, sweep or batch. A group's number is the number of its first job.
//!
//! Every member has a place in its group. A member that is run again as a new job keeps its place, and the newest job of a place is the
//! one that counts.

use crate::api::{GroupCounts, JobState};
use crate::store::StoreError;
use crate::store::archive::Archive;
use crate::store::database::COLUMNS;
use crate::store::record::{JobRecord, Spec};
use crate::store::shared_texts::JobReader;
use serde::{Deserialize, Serialize};

/// A job's place in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// The group's number.
    pub group: u64,
    /// The job's place in the group.
    pub place: u64,
}

/// The group that new jobs go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupWish {
    /// A group of their own, which has the number of the first of them.
    New,
    /// A group that is there already.
    Join(u64),
}

impl GroupWish {
    /// The place of the job with this number. The first job makes a new group.
    pub fn place(&mut self, id: u64) -> Membership {
        let group = match self {
            Self::New => id,
            Self::Join(group) => *group,
        };
        *self = Self::Join(group);
        Membership { group, place: id.saturating_sub(group) }
    }
}

/// What became of one group, as the store knows it.
pub struct GroupTally {
    /// The group's first job.
    pub first: JobRecord,
    /// The states of its members.
    pub counts: GroupCounts,
    /// The end of the last member, in nanoseconds since 1970, if one has ended.
    pub finished_ns: Option<i64>,
}

/// Programs whose first argument says more than they do.
const INTERPRETERS: [&str; 12] =
    ["python", "python3", "bash", "sh", "torchrun", "accelerate", "deepspeed", "julia", "Rscript", "node", "uv", "srun"];

impl Spec {
    /// The name of the job's group: as it was given, or the script that the jobs run.
    pub fn group_name(&self) -> String {
        let given = self.ask.group_name.as_ref().or(self.ask.name.as_ref());
        given.cloned().unwrap_or_else(|| self.program_name())
    }

    /// The last part of the program's path; of the script's, where an interpreter runs one.
    fn program_name(&self) -> String {
        let last = |text: &str| text.rsplit('/').next().unwrap_or(text).to_owned();
        let mut words = self.ask.command.iter().map(crate::api::text::Text::lossy);
        let program = words.next().map(|word| last(&word)).unwrap_or_default();
        if !INTERPRETERS.contains(&program.as_str()) {
            return program;
        }
        match words.find(|word| word != "-m" && word != "-u" && word != "run") {
            Some(word) if !word.starts_with('-') => last(&word),
            _ => program,
        }
    }

    /// What the job is called: `bert[lr=0.1,seed=2]` in a sweep, `bert[3]` in an array, otherwise the name it was given.
    pub fn label(&self) -> Option<String> {
        if self.membership.is_none() || (self.array_index.is_none() && self.values.is_empty()) {
            return self.ask.name.clone();
        }
        let index =
            self.array_index.map(|index| if self.values.is_empty() { index.to_string() } else { format!("index={index}") });
        let values = self.values.iter().map(|(name, value)| format!("{name}={value}"));
        Some(format!("{}[{}]", self.group_name(), index.into_iter().chain(values).collect::<Vec<_>>().join(",")))
    }

    /// Whether the job, or its group, is called so. `*` stands for any letters. A job without a name is called by its program.
    pub fn is_named(&self, pattern: &str) -> bool {
        [self.label(), self.ask.name.clone(), Some(self.group_name())].iter().flatten().any(|name| matches(pattern, name))
    }
}

/// Whether a name is as a pattern says, in which `*` stands for any letters.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(first) else { return false };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return left.ends_with(part);
        }
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    true
}

impl Archive {
    /// Groups, the newest first: those with these numbers, or those below a number.
    pub fn groups(&self, wanted: &[u64], before: Option<u64>, limit: usize) -> Result<Vec<GroupTally>, StoreError> {
        let numbers = serde_json::to_string(wanted).unwrap_or_default();
        let before = before.map_or(i64::MAX, |id| i64::try_from(id).unwrap_or(i64::MAX));
        let chosen = if wanted.is_empty() {
            "SELECT DISTINCT group_id FROM jobs WHERE group_id IS NOT NULL AND group_id < ?2 AND ?1 = '[]' ORDER BY group_id DESC LIMIT ?3"
        } else {
            "SELECT value FROM json_each(?1) WHERE value < ?2 ORDER BY value DESC LIMIT ?3"
        };
        let sql = format!(
            "SELECT group_id, state, count(*), max(finished_ns) FROM (
               SELECT group_id, group_place, state, finished_ns, max(id) FROM jobs WHERE group_id IN ({chosen}) GROUP BY group_id, group_place)
             GROUP BY group_id, state ORDER BY group_id DESC"
        );
        let rows: Vec<(u64, String, u64, Option<i64>)> = self.read(|connection| {
            let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
            connection.prepare_cached(&sql)?.query_map(rusqlite::params![numbers, before, limit as u64], row)?.collect()
        })?;
        let mut tallies: Vec<GroupTally> = Vec::new();
        for (group, word, count, finished_ns) in rows {
            if tallies.last().is_none_or(|tally| tally.first.id != group) {
                let Some(first) = self.job(group)? else { continue };
                tallies.push(GroupTally { first, counts: GroupCounts::default(), finished_ns: None });
            }
            if let (Some(tally), Some(state)) = (tallies.last_mut(), JobState::from_word(&word)) {
                tally.counts.add(state, count);
                tally.finished_ns = tally.finished_ns.max(finished_ns);
            }
        }
        Ok(tallies)
    }

    /// Every job of a group, also those that were run again, in the order of their numbers.
    pub fn jobs_of_group(&self, group: u64) -> Result<Vec<JobRecord>, StoreError> {
        let group = i64::try_from(group).unwrap_or(i64::MAX);
        self.read(|connection| {
            let reader = JobReader::new(connection);
            let sql = format!("SELECT {COLUMNS} FROM jobs WHERE group_id = ?1 ORDER BY id");
            connection.prepare_cached(&sql)?.query_map([group], |row| reader.read(row))?.collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Submit;
    use crate::api::text::Text;
    use std::sync::Arc;

    fn spec(name: Option<&str>, command: &[&str], index: Option<u64>, values: &[(&str, &str)]) -> Spec {
        let command = Arc::new(command.iter().map(|word| Text::from(*word)).collect());
        Spec {
            ask: Arc::new(Submit { command, name: name.map(str::to_owned), ..Submit::default() }),
            array_index: index,
            values: values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            membership: Some(Membership { group: 7, place: 1 }),
            ..Spec::default()
        }
    }

    #[test]
    fn members_are_called_by_what_tells_them_apart() {
        let label = |spec: &Spec| spec.label().unwrap();
        assert_eq!(label(&spec(Some("bert"), &["x"], None, &[("lr", "0.1"), ("seed", "2")])), "bert[lr=0.1,seed=2]");
        assert_eq!(label(&spec(None, &["/usr/bin/python3", "-u", "src/train.py"], Some(3), &[])), "train.py[3]");
        assert_eq!(label(&spec(None, &["./fit", "--fold"], Some(3), &[("lr", "1")])), "fit[index=3,lr=1]");
        assert_eq!(label(&spec(None, &["bash", "-c", "run me"], Some(0), &[])), "bash[0]");
        assert_eq!(spec(Some("row 3"), &["x"], None, &[]).label().as_deref(), Some("row 3"));
    }

    #[test]
    fn a_name_is_that_of_the_job_or_of_its_group() {
        let job = spec(Some("bert"), &["x"], Some(12), &[]);
        for pattern in ["bert", "bert[12]", "b*", "*", "*12*", "be*[*]"] {
            assert!(job.is_named(pattern), "{pattern}");
        }
        for pattern in ["ber", "bert[1]", "*13*", "bert[12]x", "x*"] {
            assert!(!job.is_named(pattern), "{pattern}");
        }
    }

    #[test]
    fn a_job_without_a_name_is_found_by_its_program() {
        let job = Spec { membership: None, ..spec(None, &["python", "src/train.py"], None, &[]) };
        assert!(job.is_named("train.py") && job.is_named("*") && !job.is_named("python"));
    }
}
