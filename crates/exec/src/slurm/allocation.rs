//! The allocations of a queue: what was asked of Slurm, what became of it, and how both are put together again after a crash.
//!
//! The intent to submit is on the disk before `sbatch` is called. An allocation is found again in Slurm by its comment.
//! What must always hold: each Slurm job with a comment of this queue either belongs to an allocation of the book or is cancelled.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::jobs::{OwnJob, SlurmState};
use super::script::{Script, number_of};

/// How long an allocation that Slurm does not list is waited for after it was asked for: `sbatch` may have been killed after the
/// controller had taken the request.
const UNLISTED_SECONDS_MAX: u64 = 30;

/// Nodes and GPUs of one allocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// The GPU type; `None` where Slurm knows no types.
    pub kind: Option<String>,
    /// How many nodes.
    pub nodes: u32,
    /// GPUs on each node.
    pub gpus_per_node: u32,
}

impl Shape {
    /// All GPUs of the allocation.
    pub fn gpus(&self) -> u32 {
        self.nodes * self.gpus_per_node
    }

    /// What `--gres` says for each node.
    pub fn gres(&self) -> String {
        let kind = self.kind.as_ref().map_or_else(String::new, |kind| format!(":{kind}"));
        format!("gpu{kind}:{}", self.gpus_per_node)
    }
}

/// What is known of an allocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AllocationStage {
    /// To be submitted, or submitted and not yet known to be.
    Intended,
    /// Waits in Slurm's queue.
    Waiting {
        /// The number of the job that Slurm gave to the allocation.
        job: String,
    },
    /// Has its nodes.
    Running {
        /// The number of the job that Slurm gave to the allocation.
        job: String,
        /// The nodes of the allocation.
        nodes: Vec<String>,
        /// When its time limit ends, in seconds since 1970; `None` if it has none.
        ends: Option<u64>,
    },
    /// Over, or on its way there. Its processes are gone when Slurm's kill time has passed.
    Ended {
        /// Slurm's job, if it had one.
        job: Option<String>,
        /// The nodes that it had.
        nodes: Vec<String>,
        /// Since when, in seconds since 1970.
        since: u64,
        /// Whether Slurm still lists it as one that has processes.
        is_listed: bool,
    },
}

/// An allocation that was asked of Slurm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    /// Its number, never given twice.
    pub number: u64,
    /// What was asked for.
    pub shape: Shape,
    /// When it was asked for, in seconds since 1970.
    pub asked: u64,
    /// What is known of it.
    pub stage: AllocationStage,
    /// Why it waits or has ended, in Slurm's word.
    #[serde(default)]
    pub reason: String,
    /// When it is expected to start, in seconds since 1970.
    #[serde(default)]
    pub expected: Option<u64>,
    /// Whether it was given back by the queue itself.
    #[serde(default)]
    pub is_given_back: bool,
}

impl Allocation {
    /// Slurm's job, if it is known.
    pub fn job(&self) -> Option<&str> {
        match &self.stage {
            AllocationStage::Waiting { job } | AllocationStage::Running { job, .. } => Some(job),
            AllocationStage::Ended { job, .. } => job.as_deref(),
            AllocationStage::Intended => None,
        }
    }

    /// Whether a worker of this name is one of its own, also where Slurm has never said which nodes it has.
    pub fn owns(&self, worker: &str) -> bool {
        worker.ends_with(&Script::worker_name("", self.number))
    }

    /// The names of its workers, as far as Slurm has said which nodes it has.
    pub fn workers(&self) -> Vec<String> {
        match &self.stage {
            AllocationStage::Running { nodes, .. } | AllocationStage::Ended { nodes, .. } => {
                nodes.iter().map(|node| Script::worker_name(node, self.number)).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Why the book cannot be kept.
#[derive(Debug, Error)]
pub enum BookError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file that cannot be used.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file is not a book.
    #[error("{}: {problem}; remove it to begin anew, after `squeue` shows no job named `rota-…` of this queue", path.display())]
    Content {
        /// The file with the wrong content.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Content {
    /// What tells this queue from others in Slurm's comments.
    state: String,
    next: u64,
    allocations: Vec<Allocation>,
}

/// The allocations of a queue, as they are on the disk.
#[derive(Debug)]
pub struct AllocationBook {
    folder: PathBuf,
    content: Content,
}

/// What a look at Slurm's queue has shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Slurm jobs to cancel: they are ours and belong to no allocation.
    pub strays: Vec<String>,
    /// Allocations that have just got their nodes.
    pub started: Vec<u64>,
    /// Allocations that have just ended.
    pub ended: Vec<u64>,
    /// Allocations that Slurm took or never kept, and that are not in the book any more.
    pub vanished: Vec<u64>,
}

impl AllocationBook {
    /// Opens the book in a folder, which is made if need be. `state` names the queue if the book is new.
    pub fn open(folder: &Path, state: &str) -> Result<Self, BookError> {
        let path = folder.join("allocations.json");
        let failed = |source| BookError::File { path: path.clone(), source };
        std::fs::create_dir_all(folder).map_err(failed)?;
        let content = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|problem| BookError::Content { path: path.clone(), problem: problem.to_string() })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Content { state: state.to_owned(), next: 1, allocations: Vec::new() }
            }
            Err(error) => return Err(failed(error)),
        };
        let book = Self { folder: folder.to_owned(), content };
        book.save()?;
        Ok(book)
    }

    /// What tells this queue from others in Slurm's comments.
    pub fn state(&self) -> &str {
        &self.content.state
    }

    /// The folder of the book and the scripts.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The allocations that are not over, and those whose processes may still be there.
    pub fn allocations(&self) -> &[Allocation] {
        &self.content.allocations
    }

    /// Writes down that an allocation is to be submitted, and gives its number. It is on the disk when this returns.
    pub fn intend(&mut self, shape: Shape, now: u64) -> Result<u64, BookError> {
        let number = self.content.next;
        self.content.next += 1;
        self.content.allocations.push(Allocation {
            number,
            shape,
            asked: now,
            stage: AllocationStage::Intended,
            reason: String::new(),
            expected: None,
            is_given_back: false,
        });
        self.save()?;
        Ok(number)
    }

    /// Writes down Slurm's number of an allocation.
    pub fn submitted(&mut self, number: u64, job: &str) -> Result<(), BookError> {
        if let Some(allocation) = self.find(number) {
            allocation.stage = AllocationStage::Waiting { job: job.to_owned() };
        }
        self.save()
    }

    /// Takes out an allocation that Slurm refused.
    pub fn refused(&mut self, number: u64) -> Result<(), BookError> {
        self.content.allocations.retain(|allocation| allocation.number != number);
        self.save()
    }

    /// Writes down that the queue gives an allocation back.
    pub fn give_back(&mut self, number: u64) -> Result<(), BookError> {
        if let Some(allocation) = self.find(number) {
            allocation.is_given_back = true;
        }
        self.save()
    }

    /// Takes out an allocation that is over, when nothing of it is left.
    pub fn forget(&mut self, number: u64) -> Result<(), BookError> {
        self.content.allocations.retain(|allocation| allocation.number != number);
        for path in [Script::notice_path(&self.folder, number), self.folder.join(format!("a{number}.sh"))] {
            // Whatever remains of a script is in nobody's way.
            _ = std::fs::remove_file(path);
        }
        self.save()
    }

    fn find(&mut self, number: u64) -> Option<&mut Allocation> {
        self.content.allocations.iter_mut().find(|allocation| allocation.number == number)
    }

    /// Puts the book and what Slurm lists together. Call it with a list that was asked for after every `sbatch` had ended.
    pub fn reconcile(&mut self, listed: &[OwnJob], now: u64) -> Result<Findings, BookError> {
        let mut findings = Findings::default();
        let mut known: HashSet<&str> = HashSet::new();
        let (state, folder) = (self.content.state.clone(), self.folder.clone());
        let before = self.content.allocations.clone();
        for allocation in &mut self.content.allocations {
            let mine = listed.iter().filter(|job| number_of(&job.comment, &state) == Some(allocation.number)).collect::<Vec<_>>();
            match chosen(&mine, allocation, &folder) {
                Some(job) => {
                    known.insert(&job.id);
                    follow(allocation, job, now, &mut findings);
                }
                None => unlisted(allocation, &folder, now, &mut findings),
            }
        }
        self.content.allocations.retain(|allocation| !findings.vanished.contains(&allocation.number));
        for job in listed {
            let is_ours = number_of(&job.comment, &state).is_some();
            if is_ours && !known.contains(job.id.as_str()) && !matches!(job.state, SlurmState::Over(_) | SlurmState::Ending) {
                findings.strays.push(job.id.clone());
            }
        }
        if before != self.content.allocations {
            self.save()?;
        }
        Ok(findings)
    }

    /// Writes the book so that it is whole on the disk when this returns.
    fn save(&self) -> Result<(), BookError> {
        let path = self.folder.join("allocations.json");
        let write = || -> io::Result<()> {
            let new = self.folder.join("allocations.new");
            let mut file = File::create(&new)?;
            file.write_all(&serde_json::to_vec(&self.content)?)?;
            file.sync_all()?;
            std::fs::rename(&new, &path)?;
            File::open(&self.folder)?.sync_all()
        };
        write().map_err(|source| BookError::File { path: path.clone(), source })
    }
}

/// Which of the Slurm jobs with one number is the allocation: that which took the number, or that which is known, or the first.
fn chosen<'j>(mine: &[&'j OwnJob], allocation: &Allocation, folder: &Path) -> Option<&'j OwnJob> {
    let taken = std::fs::read_to_string(Script::taken_path(folder, allocation.number)).ok();
    let by_id = |id: &str| mine.iter().find(|job| job.id == id).copied();
    taken.as_deref().and_then(|id| by_id(id.trim())).or_else(|| allocation.job().and_then(by_id)).or_else(|| {
        let is_over = |job: &OwnJob| matches!(job.state, SlurmState::Over(_));
        mine.iter().copied().min_by_key(|job| (is_over(job), job.id.parse::<u64>().unwrap_or(u64::MAX)))
    })
}

/// Takes over what Slurm says of an allocation's job.
fn follow(allocation: &mut Allocation, job: &OwnJob, now: u64, findings: &mut Findings) {
    allocation.reason.clone_from(&job.reason);
    match &job.state {
        SlurmState::Pending => {
            allocation.expected = job.start;
            // A job that was requeued by an administrator has lost its nodes.
            allocation.stage = AllocationStage::Waiting { job: job.id.clone() };
        }
        SlurmState::Running => {
            if !matches!(allocation.stage, AllocationStage::Running { .. }) {
                findings.started.push(allocation.number);
            }
            allocation.expected = None;
            allocation.stage =
                AllocationStage::Running { job: job.id.clone(), nodes: job.nodes.clone(), ends: job.limit.and(job.end) };
        }
        SlurmState::Ending => end(allocation, Some(job), true, "", now, findings),
        SlurmState::Over(word) => end(allocation, Some(job), false, word, now, findings),
    }
}

/// An allocation is over.
fn end(allocation: &mut Allocation, job: Option<&OwnJob>, is_listed: bool, word: &str, now: u64, findings: &mut Findings) {
    if !word.is_empty() {
        let reason = job.map(|job| job.reason.as_str()).filter(|reason| !reason.is_empty());
        allocation.reason = reason.map_or_else(|| word.to_owned(), |reason| format!("{word} ({reason})"));
    }
    match &mut allocation.stage {
        // The kill time counts from when Slurm has no process of it on its list.
        AllocationStage::Ended { since, is_listed: listed, .. } => {
            if *listed && !is_listed {
                *since = now;
            }
            *listed = is_listed;
        }
        stage => {
            let nodes = match stage {
                AllocationStage::Running { nodes, .. } => std::mem::take(nodes),
                _ => job.map(|job| job.nodes.clone()).unwrap_or_default(),
            };
            let id = job.map(|job| job.id.clone());
            *stage = AllocationStage::Ended { job: id, nodes, since: now, is_listed };
            findings.ended.push(allocation.number);
        }
    }
}

/// Slurm does not list an allocation: its request was lost, or it is over and forgotten.
fn unlisted(allocation: &mut Allocation, folder: &Path, now: u64, findings: &mut Findings) {
    match &allocation.stage {
        AllocationStage::Intended | AllocationStage::Waiting { .. } => {
            if now.saturating_sub(allocation.asked) < UNLISTED_SECONDS_MAX {
                return;
            }
            // Should it come up after all, its workers find the number taken and end.
            let path = Script::taken_path(folder, allocation.number);
            match OpenOptions::new().write(true).create_new(true).open(path) {
                Ok(mut file) => {
                    // Whatever is in it, it is not the number of a Slurm job.
                    _ = file.write_all(b"given up\n");
                    findings.vanished.push(allocation.number);
                }
                // Its workers were there, so it has had nodes: it is over now.
                Err(_) => end(allocation, None, false, "forgotten by Slurm", now, findings),
            }
        }
        AllocationStage::Running { .. } => end(allocation, None, false, "forgotten by Slurm", now, findings),
        AllocationStage::Ended { .. } => end(allocation, None, false, "", now, findings),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> Shape {
        Shape { kind: Some("v100".to_owned()), nodes: 1, gpus_per_node: 2 }
    }

    fn job(id: &str, state: SlurmState, comment: &str) -> OwnJob {
        let nodes = if state == SlurmState::Pending { Vec::new() } else { vec!["v1".to_owned()] };
        OwnJob {
            id: id.to_owned(),
            state,
            start: None,
            end: None,
            limit: None,
            nodes,
            reason: String::new(),
            comment: comment.to_owned(),
        }
    }

    fn book() -> (tempfile::TempDir, AllocationBook) {
        let folder = tempfile::tempdir().unwrap();
        let book = AllocationBook::open(folder.path(), "ab").unwrap();
        (folder, book)
    }

    #[test]
    fn an_intent_survives_a_crash_and_is_found_by_its_comment() {
        let (folder, mut book) = book();
        assert_eq!(book.intend(shape(), 100).unwrap(), 1);
        drop(book);
        let mut book = AllocationBook::open(folder.path(), "another").unwrap();
        assert_eq!(book.state(), "ab");
        let findings = book.reconcile(&[job("7", SlurmState::Pending, "rota:ab:1")], 101).unwrap();
        assert_eq!(findings, Findings::default());
        assert_eq!(book.allocations()[0].job(), Some("7"));
        assert_eq!(book.intend(shape(), 102).unwrap(), 2);
    }

    #[test]
    fn accepted_and_vanished_is_given_up_and_kept_from_coming_back() {
        let (folder, mut book) = book();
        let number = book.intend(shape(), 100).unwrap();
        book.submitted(number, "7").unwrap();
        assert_eq!(book.reconcile(&[], 110).unwrap(), Findings::default());
        assert_eq!(book.reconcile(&[], 131).unwrap().vanished, [1]);
        assert!(book.allocations().is_empty());
        // It comes up after all: it is cancelled, and its number is taken.
        assert_eq!(book.reconcile(&[job("7", SlurmState::Running, "rota:ab:1")], 140).unwrap().strays, ["7"]);
        assert!(Script::taken_path(folder.path(), 1).exists());
    }

    #[test]
    fn of_two_jobs_that_which_took_the_number_stays() {
        let (folder, mut book) = book();
        let number = book.intend(shape(), 100).unwrap();
        book.submitted(number, "7").unwrap();
        std::fs::write(Script::taken_path(folder.path(), 1), "8\n").unwrap();
        let both = [job("7", SlurmState::Running, "rota:ab:1"), job("8", SlurmState::Running, "rota:ab:1")];
        let findings = book.reconcile(&both, 101).unwrap();
        assert_eq!((findings.strays, findings.started), (vec!["7".to_owned()], vec![1]));
        assert_eq!(book.allocations()[0].job(), Some("8"));
        assert_eq!(book.allocations()[0].workers(), ["v1.a1"]);
    }

    #[test]
    fn an_end_is_told_once_and_counted_from_when_its_processes_are_gone() {
        let (_folder, mut book) = book();
        let number = book.intend(shape(), 100).unwrap();
        let mut look = |state, now| {
            let findings = book.reconcile(&[job("7", state, "rota:ab:1")], now).unwrap();
            (findings.ended, book.allocations()[0].clone())
        };
        look(SlurmState::Running, 101);
        let (ended, _) = look(SlurmState::Ending, 105);
        assert_eq!(ended, [number]);
        let (ended, allocation) = look(SlurmState::Over("PREEMPTED".to_owned()), 109);
        assert!(ended.is_empty());
        assert_eq!(allocation.reason, "PREEMPTED");
        assert!(matches!(allocation.stage, AllocationStage::Ended { since: 109, is_listed: false, .. }), "{allocation:?}");
        assert_eq!(allocation.workers(), ["v1.a1"]);
        assert!(book.reconcile(&[], 400).unwrap().ended.is_empty());
        book.forget(number).unwrap();
        assert!(book.allocations().is_empty());
    }

    #[test]
    fn an_allocation_that_started_and_was_forgotten_between_two_looks_owns_its_workers() {
        let (folder, mut book) = book();
        let number = book.intend(shape(), 100).unwrap();
        book.submitted(number, "7").unwrap();
        // Its script ran, and the controller has lost its memory.
        std::fs::write(Script::taken_path(folder.path(), number), "7\n").unwrap();
        let findings = book.reconcile(&[], 1000).unwrap();
        assert_eq!(findings.ended, [number]);
        let over = &book.allocations()[0];
        assert!(over.workers().is_empty(), "Slurm has never told its nodes");
        assert_eq!(["v1.a1", "v1.a11", "v1.a2"].map(|worker| over.owns(worker)), [true, false, false]);
    }

    #[test]
    fn jobs_of_others_are_left_alone() {
        let (_folder, mut book) = book();
        let others = [job("1", SlurmState::Running, "rota:zz:1"), job("2", SlurmState::Running, "(null)")];
        assert_eq!(book.reconcile(&others, 100).unwrap(), Findings::default());
        // Ours, and of no allocation that is known: cancelled, unless it is over.
        let strays = [job("3", SlurmState::Pending, "rota:ab:9"), job("4", SlurmState::Over("TIMEOUT".to_owned()), "rota:ab:8")];
        assert_eq!(book.reconcile(&strays, 100).unwrap().strays, ["3"]);
    }

    #[test]
    fn a_book_that_cannot_be_read_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("allocations.json"), "{").unwrap();
        let error = AllocationBook::open(folder.path(), "ab").unwrap_err();
        assert!(error.to_string().contains("allocations.json"), "{error}");
        assert_eq!(std::fs::read(folder.path().join("allocations.json")).unwrap(), b"{");
    }
}
