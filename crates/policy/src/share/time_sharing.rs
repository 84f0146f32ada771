//! Policies that divide time: an allocation says which share of the time each job should be on each GPU type, and credits make it so.
//!
//! A job earns its share as time passes and spends it by running; both are kept per GPU type, over any number of new allocations, so a
//! job that was passed over is owed, not forgotten. When a round ends, the assignment of jobs to types that pays back most is chosen;
//! between rounds, what falls free is given out at once. A little worth for speed alone keeps every GPU busy.

use super::claims::{claim, speed_part, update_claim};
use super::credit::{Account, PerType};
use super::entities::Entities;
use super::named_allocator::Named;
use super::pairing::{Candidate, choose, join_waiting};
use super::sharing::{Merit, Renewal, Sharing, Sight, Turns};
use super::ties::first_come_first_served;
use super::trials::Trials;
use crate::allocation::{self, Claim, Demand, PairShare, Solver};
use crate::params::{Param, Params, PolicyError};
use crate::watch::{Watch, size};
use crate::{Context, Policy};
use rota_core::snapshot::work_done;
use rota_core::{Bound, GpuTypeId, JobId, Preempt, Renumbering, Shape, Snapshot, Span, Target, Time, Wish};
use rota_solver::match_prices::{Matcher, Matching};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// What speed alone is worth, against a round of credit.
const SPEED_WORTH: f64 = 0.02;
/// Reason to stay where restarts are free: who runs is moved only for somebody who is owed a whole round more.
const STAY_ROUNDS_FREE: f64 = 1.0;
/// The same where jobs share GPUs: who holds on to its place there keeps two others from coming together.
const STAY_ROUNDS_FREE_SHARED: f64 = 0.5;
/// Jobs that are owed the same to so many seconds are owed the same, because a stop takes a little longer at one time than at another;
/// in short rounds, to this part of a round.
const TIE_SECONDS: f64 = 1.0;
const TIE_ROUNDS: f64 = 0.1;
/// What a trial on a GPU type of which nothing is known is worth: more than a job can be owed.
const TRIAL_ROUNDS: f64 = 50.0;
/// What two jobs must make together of what they make alone before one joins the other unasked: less would slow the one that runs
/// for too little.
const JOIN_PARTS_MIN: f64 = 1.2;

/// What is asked of a shape at every decision.
#[derive(Clone, Serialize, Deserialize)]
struct ShapeFacts {
    /// Whole GPUs it takes.
    size: f64,
    /// Its speed on each type against its best; 0 where it cannot be.
    speed_parts: PerType,
}

impl ShapeFacts {
    fn of(shape: &Shape, bound: &Bound) -> Self {
        let speeds = &bound.speeds[shape.speeds as usize];
        let speed = |index: usize| if shape.types.contains(GpuTypeId::from_index(index)) { speeds[index] } else { 0.0 };
        let best = (0..speeds.len()).map(speed).fold(f64::MIN_POSITIVE, f64::max);
        Self { size: size(shape), speed_parts: (0..speeds.len()).map(|index| speed(index) / best).collect() }
    }
}

/// What jobs are worth on each type, jobs × types, and the GPUs they take.
#[derive(Clone, Default)]
struct Worths {
    values: Vec<f64>,
    sizes: Vec<f64>,
}

/// Where credit is kept that may be spent on any type.
const ANYWHERE: GpuTypeId = GpuTypeId(0);

/// A policy made of an allocation.
#[derive(Clone, Serialize, Deserialize)]
pub struct Share {
    allocator: Named,
    sharing: Sharing,
    tick: Span,
    stay_rounds: f64,
    /// Whether the allocator has its seed.
    is_seeded: bool,
    entities: Entities,
    /// By shape, found when first needed.
    shapes: Vec<ShapeFacts>,
    watch: Watch,
    last: Time,
    next_tick: Time,
    is_stale: bool,
    /// Claims of the last allocation, by id, without jobs that are gone: most of a claim never changes.
    claims: Vec<Claim>,
    /// Accounts of jobs alone, by id; those of jobs that came since the last allocation are not there yet.
    singles: Vec<Account>,
    /// Accounts of pairs, the lower id first, by ids.
    pairs: Vec<Account>,
    /// Prices of the last allocation.
    prices: Vec<f64>,
    trials: Trials,
    /// Matches everybody: it begins with what a turn on each type was worth the last time.
    matcher: Matcher,
    /// Matches who waits to what is free.
    free_matcher: Matcher,
    /// Emptied before every use.
    #[serde(skip)]
    worths: Worths,
}

const SOLVER: Param = Param {
    name: "solver",
    default: "price",
    meaning: "price (quick, ends at a vertex) or interior (interior point, as Gavel solves it)",
};
const fn stay(default: &'static str) -> Param {
    Param {
        name: "stay",
        default,
        meaning: "rounds of credit a running job is worth more than one that must restart; at most one where restarts are free",
    }
}
const TICK: Param =
    Param { name: "tick", default: "360", meaning: "seconds after which all is weighed again; with rounds, their length" };

/// Parameters of policies whose shares depend on who is there.
pub const PARAMS: &[Param] = &[SOLVER, stay("2"), TICK];
const EVEN_STAY: Param = Param {
    meaning: "rounds of credit, times its share of the time, a running job is worth more than one that must restart; at most one where restarts are free",
    ..stay("2")
};
/// Parameters of those whose turns are even.
pub const EVEN_PARAMS: &[Param] = &[SOLVER, EVEN_STAY, TICK];
/// Parameters of the makespan policies, which gain nothing from restarts.
pub const MAKESPAN_PARAMS: &[Param] = &[SOLVER, stay("4"), TICK];
/// Parameters of policies whose shares follow from a formula.
pub const FORMULA_PARAMS: &[Param] = &[stay("2"), TICK];

/// The policy that carries out the allocation of this name.
pub fn build(name: &str, sharing: Sharing, params: &Params<'_>) -> Result<Box<dyn Policy>, PolicyError> {
    let solver = match params.word("solver") {
        "price" | "" => Solver::Price,
        "interior" => Solver::Interior,
        _ => return Err(params.bad_value("solver", "one of price, interior")),
    };
    let unknown =
        || PolicyError::UnknownPolicy { given: name.to_owned(), known: format!("known are {}", allocation::NAMES.join(", ")) };
    let allocator = allocation::allocator(name, solver).ok_or_else(unknown)?;
    let tick = Span::from_seconds(params.number("tick", 0.1, 1e8)?).unwrap_or_default();
    let allocator = Named { name: name.to_owned(), solver, allocator };
    Ok(Box::new(Share::new(allocator, sharing, tick, params.number("stay", 0.0, 100.0)?)))
}

impl Share {
    fn new(allocator: Named, sharing: Sharing, tick: Span, stay_rounds: f64) -> Self {
        Self {
            allocator,
            sharing,
            tick,
            stay_rounds,
            is_seeded: false,
            entities: Entities::default(),
            shapes: Vec::new(),
            watch: Watch::default(),
            last: Time::ZERO,
            next_tick: Time::ZERO,
            is_stale: true,
            claims: Vec::new(),
            singles: Vec::new(),
            pairs: Vec::new(),
            prices: Vec::new(),
            trials: Trials::default(),
            matcher: Matcher::default(),
            free_matcher: Matcher::default(),
            worths: Worths::default(),
        }
    }

    /// Books the time since the last decision: earned by share, spent by running.
    fn accrue(&mut self, snapshot: &Snapshot<'_>, round_seconds: f64) {
        let (from, seconds) = (self.last, snapshot.now.since(self.last).seconds());
        self.last = snapshot.now;
        if seconds == 0.0 {
            return;
        }
        let ran = |job: JobId| {
            let (gpu_type, since) = (snapshot.type_now(job)?, snapshot.states[job.index()].since);
            let gpu_type = if self.sharing.sight == Sight::Fastest { ANYWHERE } else { gpu_type };
            Some((gpu_type, if since <= from { seconds } else { snapshot.now.since(since).seconds() }))
        };
        for account in self.singles.iter_mut().chain(&mut self.pairs) {
            let here = ran(account.job).filter(|_| snapshot.states[account.job.index()].partner == account.partner);
            account.accrue(seconds, here, round_seconds);
        }
    }

    fn look_around(&mut self, snapshot: &Snapshot<'_>) {
        if self.watch.update(snapshot) {
            self.is_stale = true;
            let is_active = |job: JobId| snapshot.states[job.index()].phase.is_active();
            let has_new_speeds = self.watch.has_new_speeds;
            self.claims.retain(|claim| !has_new_speeds && is_active(claim.id));
            self.singles.retain(|account| is_active(account.job));
            self.pairs.retain(|pair| is_active(pair.job) && pair.partner.is_some_and(is_active));
        }
    }

    /// The price of each type now; those without one cost the same.
    fn look_at_prices(&mut self, snapshot: &Snapshot<'_>) {
        let types = &snapshot.bound.cluster.types;
        let price = |kind: &rota_core::GpuType| snapshot.bound.prices.price_at(&kind.name, snapshot.now).unwrap_or(1.0);
        let prices = types.iter().map(price).collect::<Vec<_>>();
        self.is_stale |= prices != self.prices;
        self.prices = prices;
    }

    fn allocate(&mut self, snapshot: &Snapshot<'_>, round_seconds: f64, context: &mut Context) {
        self.is_stale = false;
        let entities = &mut self.entities;
        let mut claims = std::mem::take(&mut self.claims);
        let (known, mut seen) = (claims.len(), 0);
        for &job in &self.watch.active {
            match claims[..known].get_mut(seen).filter(|claim| claim.id == job) {
                Some(claim) => {
                    update_claim(claim, snapshot);
                    seen += 1;
                }
                None => claims.push(Claim { entity: entities.of_job(job, snapshot.bound), ..claim(job, snapshot) }),
            }
        }
        // Who is new has the highest id, but for jobs that were held: nearly always this is in order already.
        claims.sort_by_key(|claim| claim.id);
        let demand = Demand {
            claims: &claims,
            gpus: &self.watch.capacities,
            prices: &self.prices,
            pairs: snapshot.bound,
            entities: &entities.list,
        };
        // A failed solve must not stop the queue: who had a share keeps it, and the others are ranked by speed alone.
        let allocation = match self.allocator.allocator.allocate(&demand) {
            Ok(found) => Some(found),
            Err(error) => {
                context.problems.push(format!("shares could not be computed, so the last ones stay: {error}"));
                None
            }
        };
        let types = self.watch.capacities.len();
        // What a job ran beside another one is not in its own account.
        let shares_gpus = !self.pairs.is_empty() || allocation.as_ref().is_some_and(|found| !found.pairs.is_empty());
        let can_reopen = self.sharing.turns == Turns::Even && !shares_gpus;
        let (known, mut seen) = (self.singles.len(), 0);
        for (position, claim) in claims.iter().enumerate() {
            let shares = match (&allocation, self.sharing.sight) {
                (None, _) => None,
                (Some(found), Sight::Blind) => {
                    Some(spread(&found.shares[position * types..][..types], claim, &self.watch.capacities))
                }
                (Some(found), Sight::Fastest) => Some(anywhere(&found.shares[position * types..][..types])),
                (Some(found), Sight::Types) => Some(PerType::from_slice(&found.shares[position * types..][..types])),
            };
            let is_there = claim.rates.iter().zip(&self.watch.capacities).any(|(rate, gpus)| *rate > 0.0 && *gpus > 0.0);
            match self.singles[..known].get_mut(seen).filter(|account| account.job == claim.id) {
                Some(account) => {
                    seen += 1;
                    if account.is_shut() && is_there {
                        *account = renewed(None, (claim.id, None), shares, types, round_seconds);
                    } else if let Some(shares) = shares {
                        if can_reopen && !account.is_shut() && account.is_early(round_seconds) {
                            account.reopen(shares, snapshot.bound.speeds(claim.id), round_seconds);
                        } else {
                            account.renew(shares);
                        }
                    }
                }
                None if is_there => self.singles.push(renewed(None, (claim.id, None), shares, types, round_seconds)),
                None => self.singles.push(Account::shut(claim.id, types)),
            }
        }
        self.singles.sort_by_key(|account| account.job);
        if let Some(found) = &allocation {
            self.renew_pairs(&claims, &found.pairs, round_seconds);
        }
        self.claims = claims;
    }

    fn renew_pairs(&mut self, claims: &[Claim], found: &[PairShare], round_seconds: f64) {
        if found.is_empty() {
            self.pairs.clear();
            return;
        }
        let types = self.watch.capacities.len();
        let mut shares_of: BTreeMap<(JobId, JobId), PerType> = BTreeMap::new();
        for pair in found {
            let (a, b) = (claims[pair.first].id, claims[pair.second].id);
            let shares = shares_of.entry((a.min(b), a.max(b))).or_insert_with(|| PerType::from_elem(0.0, types));
            shares[pair.gpu_type] += pair.share;
        }
        let old = std::mem::take(&mut self.pairs).into_iter().map(|account| ((account.job, account.partner), account));
        let mut old = old.collect::<HashMap<_, _>>();
        for ((a, b), shares) in shares_of {
            let ids = (a, Some(b));
            let shares = if self.sharing.sight == Sight::Fastest { anywhere(&shares) } else { shares };
            self.pairs.push(renewed(old.remove(&ids), ids, Some(shares), types, round_seconds));
        }
    }

    /// Who should run where when everybody may be moved.
    fn assign_all(&mut self, snapshot: &Snapshot<'_>, round_seconds: f64) -> Wish {
        if self.pairs.is_empty() {
            let mut matcher = std::mem::take(&mut self.matcher);
            let mut worths = std::mem::take(&mut self.worths);
            let capacities = &self.watch.capacities;
            let types =
                self.assign(self.singles.iter(), capacities, Merit::Credit, (&mut matcher, &mut worths), snapshot, round_seconds);
            (self.matcher, self.worths) = (matcher, worths);
            return Wish::Assignment { types, pairs: Vec::new(), preempt: Preempt::Always };
        }
        let mut candidates = Vec::new();
        for account in &self.singles {
            let mut worths = Vec::with_capacity(self.watch.capacities.len());
            self.value(account, snapshot, round_seconds, &mut worths);
            let gang = size(snapshot.bound.shape(account.job));
            candidates.push(Candidate { first: account.job, second: None, gang, worths });
        }
        for account in &self.pairs {
            let Some(b) = account.partner else { continue };
            let a = account.job;
            let gang = size(snapshot.bound.shape(a));
            let stay = self.stay(account, snapshot);
            let together_on = snapshot.type_now(a).filter(|_| snapshot.states[a.index()].partner == Some(b));
            let worth = |index: usize| {
                let gpu_type = GpuTypeId::from_index(index);
                let Some(part) = snapshot.bound.pair_part(a, b, gpu_type) else { return 0.0 };
                let here = if together_on == Some(gpu_type) { stay } else { 0.0 };
                let speed = part.0 * speed_part(a, index, snapshot) + part.1 * speed_part(b, index, snapshot);
                gang * (self.owed(account, index, here, round_seconds, speed) + SPEED_WORTH * (1.0 + here) * speed)
            };
            let worths = (0..self.watch.capacities.len()).map(worth).collect();
            candidates.push(Candidate { first: a, second: Some(b), gang, worths });
        }
        let jobs = self.singles.iter().map(|account| account.job).collect::<Vec<_>>();
        choose(candidates, &jobs, &self.watch.capacities, JOIN_PARTS_MIN, snapshot)
    }

    /// Whether a job waits that might fit into what is free, or beside another.
    fn somebody_could_start(&self, snapshot: &Snapshot<'_>) -> bool {
        let mut free = self.watch.capacities.clone();
        let mut smallest = f64::INFINITY;
        for &job in &self.watch.active {
            let gang = size(snapshot.bound.shape(job));
            match snapshot.type_now(job) {
                None => smallest = smallest.min(gang),
                Some(_) if snapshot.states[job.index()].partner.is_some_and(|partner| partner < job) => {}
                Some(gpu_type) => free[gpu_type.index()] -= gang,
            }
        }
        smallest.is_finite() && (!self.pairs.is_empty() || free.iter().any(|free| *free >= smallest - 1e-9))
    }

    /// Rounds of credit that a job or pair is worth more where it runs.
    fn stay(&self, account: &Account, snapshot: &Snapshot<'_>) -> f64 {
        let free = if self.pairs.is_empty() { STAY_ROUNDS_FREE } else { STAY_ROUNDS_FREE_SHARED };
        let stay_rounds =
            if snapshot.restart_cost_of(account.job) > Span::ZERO { self.stay_rounds } else { self.stay_rounds.min(free) };
        match self.sharing.turns {
            // A job with a third of the time earns a third of a round while it waits for one, so it waits three rounds for each
            // round of credit that another holds on for.
            Turns::Even if self.pairs.is_empty() => stay_rounds * account.share(),
            Turns::Even | Turns::Long => stay_rounds,
        }
    }

    /// Rounds that a turn on this type pays back.
    #[inline]
    fn owed(&self, account: &Account, gpu_type: usize, stay: f64, round_seconds: f64, speed: f64) -> f64 {
        match self.sharing.sight {
            Sight::Types | Sight::Blind => account.owed_rounds(gpu_type, stay, round_seconds),
            Sight::Fastest => account.owed_rounds(ANYWHERE.index(), stay, round_seconds) * speed,
        }
    }

    /// Adds the worth of a job alone on each type; 0 where it cannot be.
    fn value(&self, account: &Account, snapshot: &Snapshot<'_>, round_seconds: f64, values: &mut Vec<f64>) {
        let job = account.job;
        let facts = &self.shapes[snapshot.bound.shape_of[job.index()].index()];
        let here = snapshot.type_now(job).filter(|_| snapshot.states[job.index()].partner.is_none()).map(GpuTypeId::index);
        let trial = self.trials.of(job).map(GpuTypeId::index);
        let worth = |(index, &speed): (usize, &f64)| {
            let stay = if here == Some(index) { self.stay(account, snapshot) } else { 0.0 };
            let trial = if trial == Some(index) { TRIAL_ROUNDS } else { 0.0 };
            let owed = self.owed(account, index, stay, round_seconds, speed);
            let worth = facts.size * (owed + trial + SPEED_WORTH * (1.0 + stay) * speed);
            if speed > 0.0 { worth } else { 0.0 }
        };
        values.extend(facts.speed_parts.as_slice().iter().enumerate().map(worth));
    }

    /// Adds what a job is worth on each type for how soon it would be done there; 0 where it cannot be.
    fn shortness(&self, job: JobId, snapshot: &Snapshot<'_>, values: &mut Vec<f64>) {
        let (bound, facts) = (snapshot.bound, &self.shapes[snapshot.bound.shape_of[job.index()].index()]);
        let left = snapshot.believed_work(job).minus(work_done(&snapshot.states[job.index()], snapshot.now));
        let worth = |(part, &speed): (&f64, &f64)| {
            if *part > 0.0 { facts.size / (1.0 + left.at_speed(speed).seconds()) } else { 0.0 }
        };
        values.extend(facts.speed_parts.iter().zip(bound.speeds(job)).map(worth));
    }

    /// Matches jobs to what is free of each type.
    fn assign<'a>(
        &self,
        accounts: impl Iterator<Item = &'a Account> + Clone,
        free: &[f64],
        merit: Merit,
        (matcher, Worths { values, sizes }): (&mut Matcher, &mut Worths),
        snapshot: &Snapshot<'_>,
        round_seconds: f64,
    ) -> Vec<(JobId, Option<GpuTypeId>)> {
        values.clear();
        accounts.clone().for_each(|account| match merit {
            Merit::Credit => self.value(account, snapshot, round_seconds, values),
            Merit::Shortness => self.shortness(account.job, snapshot, values),
        });
        sizes.clear();
        sizes.extend(accounts.clone().map(|account| self.shapes[snapshot.bound.shape_of[account.job.index()].index()].size));
        let jobs = accounts.map(|account| account.job);
        // Values are finite and sizes positive by construction; should the engine refuse them all the same, everybody waits.
        let Ok(columns) = matcher.find(&Matching { values, sizes, capacities: free }) else {
            return jobs.map(|job| (job, None)).collect();
        };
        let tolerance = if merit == Merit::Credit { TIE_ROUNDS.min(TIE_SECONDS / round_seconds) } else { 0.0 };
        first_come_first_served(jobs.clone(), (values, sizes), columns, tolerance, snapshot);
        self.move_up(jobs.clone(), sizes, columns, free, snapshot, round_seconds);
        jobs.zip(columns.iter().map(|column| column.map(GpuTypeId::from_index))).collect()
    }

    /// Moves jobs to faster types that nobody else wants. A job that runs moves only for more than its restart costs in two rounds.
    fn move_up(
        &self,
        jobs: impl Iterator<Item = JobId>,
        sizes: &[f64],
        matched: &mut [Option<usize>],
        free: &[f64],
        snapshot: &Snapshot<'_>,
        round_seconds: f64,
    ) {
        if self.sharing.sight == Sight::Blind {
            return;
        }
        let mut left = free.to_vec();
        for (column, size) in matched.iter().zip(sizes) {
            if let Some(column) = column {
                left[*column] -= size;
            }
        }
        let smallest = sizes.iter().copied().fold(f64::INFINITY, f64::min);
        if left.iter().all(|left| *left < smallest - 1e-9) {
            return;
        }
        for ((job, column), &size) in jobs.zip(matched).zip(sizes) {
            let Some(from) = *column else { continue };
            let (shape, speeds) = (snapshot.bound.shape(job), snapshot.bound.speeds(job));
            let restart = if snapshot.type_now(job).is_some_and(|now| now.index() == from) {
                snapshot.restart_cost_of(job).seconds()
            } else {
                0.0
            };
            let pays = |to: usize| 2.0 * round_seconds * (1.0 - speeds[from] / speeds[to]) > restart;
            let open =
                shape.types.iter().map(GpuTypeId::index).filter(|&to| left[to] >= size - 1e-9 && speeds[to] > speeds[from]);
            let best = open.filter(|&to| pays(to)).max_by(|a, b| speeds[*a].total_cmp(&speeds[*b]));
            if let Some(to) = best {
                left[from] += size;
                left[to] -= size;
                *column = Some(to);
            }
        }
    }

    /// Who should run where when whoever runs, runs on.
    fn assign_free(&mut self, snapshot: &Snapshot<'_>, round_seconds: f64) -> Wish {
        let mut free = self.watch.capacities.clone();
        let mut types = Vec::new();
        let mut pairs = Vec::new();
        for &job in &self.watch.active {
            let Some(gpu_type) = snapshot.type_now(job) else { continue };
            types.push((job, Some(gpu_type)));
            match snapshot.states[job.index()].partner {
                Some(partner) if partner < job => pairs.push((partner, job)),
                _ => free[gpu_type.index()] = (free[gpu_type.index()] - size(snapshot.bound.shape(job))).max(0.0),
            }
        }
        let (mut matcher, mut worths) = (std::mem::take(&mut self.free_matcher), std::mem::take(&mut self.worths));
        // What was free before says nothing about what a turn is worth now.
        matcher.forget_prices();
        let waiting = self.singles.iter().filter(|account| snapshot.type_now(account.job).is_none());
        types.extend(self.assign(
            waiting,
            &free,
            self.sharing.merit_between,
            (&mut matcher, &mut worths),
            snapshot,
            round_seconds,
        ));
        (self.free_matcher, self.worths) = (matcher, worths);
        if !self.pairs.is_empty() {
            join_waiting(&mut types, &mut pairs, JOIN_PARTS_MIN, snapshot);
        }
        Wish::Assignment { types, pairs, preempt: Preempt::Always }
    }
}

/// An account with its new shares, opened if there was none; without new shares, as it was.
fn renewed(
    known: Option<Account>,
    (job, partner): (JobId, Option<JobId>),
    shares: Option<PerType>,
    types: usize,
    round_seconds: f64,
) -> Account {
    match (known, shares) {
        (Some(mut account), Some(shares)) => {
            account.renew(shares);
            account
        }
        (Some(account), None) => account,
        (None, shares) => Account::open(job, partner, shares.unwrap_or_else(|| PerType::from_elem(0.0, types)), round_seconds),
    }
}

/// The same time in all, on the types a job can use in proportion to their GPUs.
fn spread(shares: &[f64], claim: &Claim, capacities: &[f64]) -> PerType {
    let gpus = |index: usize| if claim.rates[index] > 0.0 { capacities[index] } else { 0.0 };
    let usable = (0..shares.len()).map(gpus).sum::<f64>().max(f64::MIN_POSITIVE);
    let time = shares.iter().sum::<f64>();
    (0..shares.len()).map(|index| time * gpus(index) / usable).collect()
}

/// The same time in all, wherever it is spent.
fn anywhere(shares: &[f64]) -> PerType {
    let mut together = PerType::from_elem(0.0, shares.len());
    together[ANYWHERE.index()] = shares.iter().sum();
    together
}

impl Policy for Share {
    fn decide(&mut self, snapshot: &Snapshot<'_>, context: &mut Context) -> Target {
        if !std::mem::replace(&mut self.is_seeded, true) {
            self.allocator.allocator.reseed(context.stream.below(u64::MAX));
        }
        if self.shapes.len() < snapshot.bound.shapes.len() {
            self.shapes = snapshot.bound.shapes.iter().map(|shape| ShapeFacts::of(shape, snapshot.bound)).collect();
        }
        let round = snapshot.round.unwrap_or(self.tick);
        let round_seconds = round.seconds();
        self.accrue(snapshot, round_seconds);
        self.look_around(snapshot);
        let is_tick = if snapshot.round.is_some() { snapshot.is_tick } else { snapshot.now >= self.next_tick };
        let wish = if is_tick {
            self.next_tick = snapshot.now + round;
            self.look_at_prices(snapshot);
            if self.is_stale || self.sharing.renewal == Renewal::EveryRound {
                self.allocate(snapshot, round_seconds, context);
            }
            if self.sharing.sight == Sight::Types {
                self.trials.choose(self.watch.active.iter().copied(), snapshot, &self.watch.capacities);
            }
            let wish = self.assign_all(snapshot, round_seconds);
            self.trials.end();
            wish
        } else if self.somebody_could_start(snapshot) {
            // Who is new has no share yet. That others left changes shares too, but who is owed most of what they leave behind is known
            // without, and the round ends soon.
            if self.singles.len() < self.watch.active.len() {
                self.look_at_prices(snapshot);
                self.allocate(snapshot, round_seconds, context);
            }
            self.assign_free(snapshot, round_seconds)
        } else {
            // Who left and who came is weighed when the round ends.
            Wish::Nothing
        };
        // While nobody runs or can run, time alone changes nothing.
        let somebody_runs = match &wish {
            Wish::Assignment { types, .. } => types.iter().any(|(_, gpu_type)| gpu_type.is_some()),
            _ => self.watch.active.iter().any(|&job| snapshot.type_now(job).is_some()),
        };
        let review_at = somebody_runs.then(|| if snapshot.round.is_some() { snapshot.now + round } else { self.next_tick });
        Target { wish, review_at }
    }
    fn renumber(&mut self, rows: &Renumbering) {
        self.watch.renumber(rows);
        self.allocator.allocator.renumber(rows);
        self.claims.retain_mut(|claim| rows.new_of(claim.id).inspect(|row| claim.id = *row).is_some());
        self.singles.retain_mut(|account| account.renumber(rows));
        self.pairs.retain_mut(|account| account.renumber(rows));
    }
}

#[cfg(test)]
mod tests;
