//! Rounds: when shares are computed anew, which jobs run in the next round, and on which workers.
//!
//! Rows (jobs and pairs) are kept in the order in which Gavel creates them, which breaks ties: a job comes after all earlier
//! jobs and their pairs, and is followed by its own pairs with them.

use crate::policies::{GavelPolicy, JobView, PairView, Shares, View};
use crate::setting::Setting;
use rota_core::mersenne::Mersenne;
use std::cmp::Ordering;
use std::collections::HashMap;

/// Priority per unit of share of a job that has not run at all.
const NEVER_RAN_FACTOR: f64 = 1e9;

/// Jobs that run together: one job, or two with the smaller id first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Party {
    pub first: u32,
    pub second: Option<u32>,
}

impl Party {
    pub fn members(self) -> impl Iterator<Item = u32> {
        std::iter::once(self.first).chain(self.second)
    }

    pub fn is_pair(self) -> bool {
        self.second.is_some()
    }

    /// Jobs come before pairs, then ids count.
    pub fn id_order(self) -> (bool, u32, u32) {
        (self.is_pair(), self.first, self.second.unwrap_or_default())
    }

    /// By the younger member, which alone comes before its pairs.
    fn creation_order(self) -> (u32, Option<u32>) {
        self.second.map_or((self.first, None), |second| (second, Some(self.first)))
    }
}

/// A row on one type.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    /// Steps per second of the members.
    speeds: [f64; 2],
    /// Seconds received since shares were last computed, and half a round.
    received_seconds: f64,
    deficit_seconds: f64,
    share: f64,
    priority: f64,
}

#[derive(Clone, Debug)]
struct Row {
    party: Party,
    gpus: u32,
    /// Whether it was there when shares were last computed.
    has_share: bool,
    cells: Box<[Cell]>,
}

impl Row {
    /// Whether all members make progress on a type.
    fn can_run(&self, kind: usize) -> bool {
        let [first, second] = self.cells[kind].speeds;
        first > 0.0 && (!self.party.is_pair() || second > 0.0)
    }
}

/// A party that was given workers for the next round.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Assignment {
    pub party: Party,
    pub kind: usize,
    /// Numbers of the workers within their type.
    pub workers: Vec<u32>,
    /// Steps per second of the members.
    pub speeds: [f64; 2],
}

/// What the name of the policy decides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub packs: bool,
    pub shuffles_types: bool,
    pub runs_shares_only: bool,
}

/// Progress of the jobs, as the policy is told it.
pub(crate) struct RoundState<'a> {
    pub now_seconds: f64,
    pub steps_left: &'a dyn Fn(u32) -> f64,
    pub prices: Option<&'a [f64]>,
    pub reference_type: Option<usize>,
}

/// The round mechanism.
pub(crate) struct Rounds<'a> {
    setting: &'a Setting,
    rules: Rules,
    half_round_seconds: f64,
    counts: Vec<f64>,
    /// In the order of their creation.
    rows: Vec<Row>,
    /// Seconds of all micro-tasks on each type since shares were last computed.
    given_seconds: Vec<f64>,
    /// Whether something happened that shares should answer to.
    pub stale: bool,
    /// When shares were last computed; 0 also stands for never.
    pub last_reset_seconds: f64,
    shuffler: Mersenne,
    previous: HashMap<Party, (usize, Vec<u32>)>,
}

impl<'a> Rounds<'a> {
    pub fn new(setting: &'a Setting, rules: Rules, round_seconds: f64, seed: u64) -> Self {
        Self {
            setting,
            rules,
            half_round_seconds: round_seconds / 2.0,
            counts: setting.types.iter().map(|kind| kind.gpus.len() as f64).collect(),
            rows: Vec::new(),
            given_seconds: vec![0.0; setting.types.len()],
            stale: true,
            last_reset_seconds: 0.0,
            shuffler: Mersenne::new(u128::from(seed) + 5),
            previous: HashMap::new(),
        }
    }

    /// Adds a job and, for policies that pack, its pairs with the active ones.
    pub fn add(&mut self, job: u32) {
        let gpus = self.setting.jobs[job as usize].gpus;
        let partners = self.rows.iter().filter(|row| self.rules.packs && !row.party.is_pair() && row.gpus == gpus);
        let partners = partners.map(|row| row.party.first).collect::<Vec<_>>();
        let alone = &self.setting.jobs[job as usize].speeds;
        let received_seconds = self.half_round_seconds;
        let cells = alone.iter().map(|&speed| Cell { speeds: [speed, 0.0], received_seconds, ..Cell::default() }).collect();
        self.rows.push(Row { party: Party { first: job, second: None }, gpus, has_share: false, cells });
        for partner in partners {
            let speeds = self.setting.pair_speeds(partner, job);
            let cells = speeds.iter().map(|&speeds| Cell { speeds, ..Cell::default() }).collect();
            self.rows.push(Row { party: Party { first: partner, second: Some(job) }, gpus, has_share: false, cells });
        }
        self.stale = true;
    }

    /// Removes a job and its pairs.
    pub fn remove(&mut self, job: u32) {
        self.rows.retain(|row| row.party.members().all(|member| member != job));
        self.stale = true;
    }

    /// Notes a micro-task that went well.
    pub fn note_time(&mut self, party: Party, kind: usize, seconds: f64) {
        self.given_seconds[kind] += seconds;
        if let Ok(row) = self.rows.binary_search_by(|row| row.party.creation_order().cmp(&party.creation_order())) {
            self.rows[row].cells[kind].received_seconds += seconds;
        }
    }

    /// Whether shares are to be computed now.
    pub fn must_reset(&self, now_seconds: f64, reset_seconds: f64) -> bool {
        let is_first = self.last_reset_seconds == 0.0;
        self.stale && (is_first || now_seconds - self.last_reset_seconds >= reset_seconds)
    }

    /// Settles accounts of the time since shares were last computed, and computes them.
    pub fn reset(&mut self, policy: &mut dyn GavelPolicy, state: &RoundState<'_>) -> Result<(), crate::GavelError> {
        let elapsed_seconds = state.now_seconds - self.last_reset_seconds;
        self.given_seconds.fill(0.0);
        for row in &mut self.rows {
            for (cell, given) in row.cells.iter_mut().zip(&mut self.given_seconds) {
                let received = cell.received_seconds - self.half_round_seconds;
                let deserved = if row.has_share { cell.share * elapsed_seconds } else { 0.0 };
                cell.deficit_seconds += deserved - received;
                cell.received_seconds = self.half_round_seconds;
                *given += self.half_round_seconds;
            }
        }
        self.last_reset_seconds = state.now_seconds;
        self.stale = false;
        let mut order = (0..self.rows.len()).collect::<Vec<_>>();
        order.sort_by_key(|&row| self.rows[row].party.id_order());
        let shares = self.shares(&order, policy, state)?;
        let types = self.counts.len();
        for (position, row) in order.into_iter().enumerate() {
            let row = &mut self.rows[row];
            row.has_share = true;
            for (kind, cell) in row.cells.iter_mut().enumerate() {
                cell.share = shares[position * types + kind];
            }
        }
        Ok(())
    }

    fn shares(&self, order: &[usize], policy: &mut dyn GavelPolicy, state: &RoundState<'_>) -> Result<Shares, crate::GavelError> {
        let mut jobs = Vec::new();
        let mut pairs = Vec::new();
        for &row in order {
            let party = self.rows[row].party;
            let Some(second) = party.second else {
                let job = &self.setting.jobs[party.first as usize];
                jobs.push(JobView {
                    id: party.first,
                    gpus: job.gpus,
                    weight: job.weight,
                    steps_left: (state.steps_left)(party.first),
                    age_seconds: state.now_seconds - job.arrival_seconds,
                    deadline_seconds: job.deadline_seconds,
                    speeds: &job.speeds,
                });
                continue;
            };
            let position = |id: u32| jobs.binary_search_by_key(&id, |job: &JobView<'_>| job.id).unwrap_or_default();
            let members = [position(party.first), position(second)];
            pairs.push(PairView { members, speeds: self.setting.pair_speeds(party.first, second) });
        }
        let &RoundState { now_seconds, prices, reference_type, .. } = state;
        let view = View { now_seconds, counts: &self.counts, reference_type, prices, jobs, pairs };
        let is_empty = view.jobs.is_empty();
        let shares = policy.allocate(&view)?;
        Ok(if is_empty { Vec::new() } else { shares })
    }

    /// The shares of every row on every type, for the mode without rounds.
    pub fn each_share(&self) -> impl Iterator<Item = (Party, usize, f64, [f64; 2])> {
        let rows = self.rows.iter().filter(|row| row.has_share);
        rows.flat_map(|row| row.cells.iter().enumerate().map(|(kind, cell)| (row.party, kind, cell.share, cell.speeds)))
    }

    /// Chooses the jobs of the next round, and their workers.
    pub fn choose(&mut self) -> Vec<Assignment> {
        let mut order = self.setting.fill_order.clone();
        if self.rules.shuffles_types {
            self.shuffler.shuffle(&mut order);
        }
        self.set_priorities();
        let selected = self.select(&order);
        let mut assignments = Vec::new();
        for (kind, rows) in order.into_iter().zip(selected) {
            self.assign(kind, rows, &mut assignments);
        }
        self.previous =
            assignments.iter().map(|assignment| (assignment.party, (assignment.kind, assignment.workers.clone()))).collect();
        assignments
    }

    fn set_priorities(&mut self) {
        for row in &mut self.rows {
            for kind in 0..row.cells.len() {
                let can_run = row.can_run(kind);
                let cell = &mut row.cells[kind];
                let given = self.given_seconds[kind];
                let fraction = if given == 0.0 { 0.0 } else { cell.received_seconds / given };
                cell.priority = if !row.has_share || cell.share == 0.0 || !can_run {
                    0.0
                } else if fraction > 0.0 {
                    cell.share / fraction
                } else {
                    cell.share * NEVER_RAN_FACTOR
                };
            }
        }
    }

    /// The rows that run, by type in the order given.
    fn select(&self, order: &[usize]) -> Vec<Vec<usize>> {
        let mut taken = vec![false; self.setting.jobs.len()];
        let mut selected = Vec::new();
        for &kind in order {
            let mut free = self.setting.types[kind].gpus.len() as u32;
            let mut rows = Vec::new();
            // Rows without priority are many and rarely get a turn: they are sorted only if GPUs are left for them.
            for with_priority in [true, false] {
                if free == 0 || (!with_priority && self.rules.runs_shares_only) {
                    continue;
                }
                let is_candidate = |&row: &usize| {
                    let row = &self.rows[row];
                    (row.cells[kind].priority > 0.0) == with_priority
                        && row.gpus <= free
                        && row.can_run(kind)
                        && row.party.members().all(|member| !taken[member as usize])
                };
                let mut candidates = (0..self.rows.len()).filter(is_candidate).collect::<Vec<_>>();
                candidates.sort_by(|&one, &other| higher_first(&self.rows[one].cells[kind], &self.rows[other].cells[kind]));
                for index in candidates {
                    let row = &self.rows[index];
                    if row.gpus <= free && row.party.members().all(|member| !taken[member as usize]) {
                        row.party.members().for_each(|member| taken[member as usize] = true);
                        free -= row.gpus;
                        rows.push(index);
                    }
                }
            }
            selected.push(rows);
        }
        selected
    }

    /// Gives workers of a type to the selected rows: larger gangs first, and among equals those first that were on this type in
    /// the round before. As Gavel does, GPUs selected for a row that has no share yet stay idle.
    fn assign(&self, kind: usize, mut rows: Vec<usize>, assignments: &mut Vec<Assignment>) {
        rows.retain(|&row| self.rows[row].has_share);
        rows.sort_by_key(|&row| std::cmp::Reverse(self.rows[row].gpus));
        let mut taken = vec![false; self.setting.types[kind].gpus.len()];
        let mut next_free = 0;
        for gang in rows.chunk_by(|&one, &other| self.rows[one].gpus == self.rows[other].gpus) {
            let mut moved = Vec::new();
            for &row in gang {
                let kept = self
                    .previous
                    .get(&self.rows[row].party)
                    .filter(|(before, workers)| *before == kind && workers.iter().all(|&worker| !taken[worker as usize]));
                if let Some((_, workers)) = kept {
                    for &worker in workers {
                        taken[worker as usize] = true;
                    }
                    assignments.push(self.assignment(row, kind, workers.clone()));
                } else {
                    moved.push(row);
                }
            }
            for row in moved {
                let mut workers = Vec::new();
                while workers.len() < self.rows[row].gpus as usize && next_free < taken.len() {
                    if !taken[next_free] {
                        taken[next_free] = true;
                        workers.push(next_free as u32);
                    }
                    next_free += 1;
                }
                assignments.push(self.assignment(row, kind, workers));
            }
        }
    }

    fn assignment(&self, row: usize, kind: usize, workers: Vec<u32>) -> Assignment {
        let row = &self.rows[row];
        Assignment { party: row.party, kind, workers, speeds: row.cells[kind].speeds }
    }
}

fn higher_first(one: &Cell, other: &Cell) -> Ordering {
    let descending = |one: f64, other: f64| other.partial_cmp(&one).unwrap_or(Ordering::Equal);
    descending(one.priority, other.priority)
        .then(descending(one.deficit_seconds, other.deficit_seconds))
        .then(descending(one.share, other.share))
}
