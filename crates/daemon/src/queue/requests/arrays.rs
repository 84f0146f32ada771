//! Arrays and sweeps: one submit that makes many jobs.
//!
//! A large one is written down whole when it is accepted, and its jobs are made a part at a time, with the messages of others in between:
//! no user waits for another's ten thousand jobs. A daemon that dies meanwhile goes on with it at its next start, so that an array is
//! accepted whole or not at all.

use crate::api::text::Text;
use crate::api::{Submit, Submitted};
use crate::machine::platform::{Caller, Platform, Refusal, RefusalKind, Reply};
use crate::memory::profiles::program_of;
use crate::queue::commit::Durability;
use crate::queue::intake::{Accepted, Origin};
use crate::queue::world::LiveWorld;
use crate::store::groups::GroupWish;
use crate::store::record::Spec;
use rota_core::{Event, mark};
use rota_engine::State;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// An array of no more jobs than this is made at once.
const SMALL: usize = 200;
/// Jobs of a larger array that are made at once. A caller beside them waits for no more than these: a few milliseconds, also on a busy
/// machine.
const PART: usize = 50;

/// An array as it is written down until all of its jobs are there.
#[derive(Serialize, Deserialize)]
struct WrittenArray {
    first: u64,
    ask: Submit,
    uid: u32,
    gid: u32,
    user: String,
}

/// An array whose jobs are being made.
pub struct PendingArray {
    /// The number of its first job; the others follow.
    first: u64,
    specs: Vec<Spec>,
    /// How many of them are made.
    made: usize,
    caller: Caller,
    env: Arc<Vec<(Text, Text)>>,
    /// Whether a job that they wait for has ended badly.
    unmet: bool,
    key: Option<String>,
    /// Callers that wait for the numbers, and whether they are told that the jobs were there already.
    replies: Vec<(Reply<Submitted>, bool)>,
}

impl PendingArray {
    fn ids(&self) -> Vec<u64> {
        (self.first..).take(self.specs.len()).collect()
    }

    fn answer(&mut self) {
        let ids = self.ids();
        for (reply, existing) in self.replies.drain(..) {
            // A caller that has gone away does not want the answer any more.
            let group = self.specs.first().and_then(|spec| spec.membership).map(|membership| membership.group);
            _ = reply.send(Ok(Submitted { ids: ids.clone(), existing, group }));
        }
    }

    /// Jobs that are still to be made.
    pub fn left(&self) -> usize {
        self.specs.len() - self.made
    }
}

/// How many jobs a submit makes.
pub fn jobs_of(ask: &Submit) -> usize {
    ask.params.iter().fold(ask.array.len().max(1), |count, param| count.saturating_mul(param.values.len().max(1)))
}

impl<P: Platform> LiveWorld<P> {
    /// Whether the jobs of a submit are made a part at a time. Those whose memory is predicted depend on each other.
    pub(crate) fn is_large(ask: &Submit) -> bool {
        !ask.memory_auto && jobs_of(ask) > SMALL
    }

    /// The array with a key that is being made, if there is one. Its numbers are told when it is there.
    pub(crate) fn join_array(&mut self, uid: u32, key: &str, reply: Reply<Submitted>) -> Option<Reply<Submitted>> {
        let is_it = |array: &&mut PendingArray| array.caller.uid == uid && array.key.as_deref() == Some(key);
        match self.backlog.arrays.iter_mut().find(is_it) {
            Some(array) => {
                array.replies.push((reply, true));
                None
            }
            None => Some(reply),
        }
    }

    /// Accepts a large array: it is on the disk when this returns, and its jobs are made from now on.
    pub(crate) fn begin_array(&mut self, ask: Submit, caller: &Caller, state: &State, reply: Reply<Submitted>) {
        match self.accept_array(ask, caller, state) {
            Ok(mut array) => {
                array.replies.push((reply, false));
                self.backlog.arrays.push_back(array);
            }
            Err(refusal) => _ = reply.send(Err(refusal)),
        }
    }

    fn accept_array(&mut self, ask: Submit, caller: &Caller, state: &State) -> Result<PendingArray, Refusal> {
        let first = self.next_id;
        let (unmet, key) = (self.check_submit(&ask, caller)?, ask.key.clone());
        let (uid, gid, user) = (caller.uid, caller.gid, caller.user.clone());
        let written = WrittenArray { first, ask, uid, gid, user };
        let content = serde_json::to_string(&written).map_err(|error| Refusal::new(RefusalKind::BadInput, error.to_string()))?;
        let env = Arc::clone(&written.ask.env);
        let group = self.group_wish(&written.ask, caller)?;
        let mut specs = expand(written.ask, caller, self.config.limits.array_max)?;
        number(&mut specs, group, first);
        self.check_specs(&specs, &env, caller)?;
        // They differ in their commands only: where the first one fits, all do.
        if let Some(spec) = specs.first() {
            self.request_of(first, spec, caller, state)?;
        }
        let outcome = self.journal.store.transaction(|writer| writer.put_array(first, &content));
        self.note_store(&outcome);
        outcome.map_err(|error| Refusal::new(RefusalKind::Unavailable, format!("the jobs were not accepted: {error}")))?;
        self.next_id += specs.len() as u64;
        Ok(PendingArray { first, specs, made: 0, caller: caller.clone(), env, unmet, key, replies: Vec::new() })
    }

    /// Takes up the arrays that an earlier daemon has accepted and not made to the last job.
    pub(crate) fn take_up_arrays(&mut self) -> Result<(), crate::store::StoreError> {
        for content in self.journal.store.arrays()? {
            // Only this program writes them; one that cannot be read is of another version, and stays.
            let Ok(WrittenArray { first, ask, uid, gid, user }) = serde_json::from_str(&content) else { continue };
            let caller = Caller { uid, gid, user, is_admin: false, may_write: true };
            let (env, key, unmet) = (Arc::clone(&ask.env), ask.key.clone(), self.check_after(&ask.after).unwrap_or(false));
            // A group that is gone by now takes no members.
            let group = self.group_wish(&ask, &caller).unwrap_or(Some(GroupWish::New));
            let Ok(mut specs) = expand(ask, &caller, usize::MAX) else { continue };
            number(&mut specs, group, first);
            let last = first + specs.len() as u64 - 1;
            let there: Option<u64> = self.journal.store.read(|connection| {
                connection.query_row("SELECT max(id) FROM jobs WHERE id BETWEEN ?1 AND ?2", [first, last], |row| row.get(0))
            })?;
            let made = there.map_or(0, |id| (id - first + 1) as usize);
            self.next_id = self.next_id.max(last + 1);
            self.backlog.arrays.push_back(PendingArray { first, specs, made, caller, env, unmet, key, replies: Vec::new() });
        }
        Ok(())
    }

    /// Makes the next jobs of one array. Arrays of several users take turns.
    pub(crate) fn make_some(&mut self, state: &State, events: &mut Vec<Event>) {
        if self.journal.retry_at.is_some() {
            return;
        }
        let Some(mut array) = self.backlog.arrays.pop_front() else { return };
        let mut accepted = Accepted::default();
        let end = (array.made + PART).min(array.specs.len());
        let origin = Origin { caller: &array.caller, env: &array.env, unmet: array.unmet };
        for (spec, id) in array.specs[array.made..end].iter().zip(array.first + array.made as u64..) {
            // A job that does not fit any more, because the machine has changed, is left out.
            _ = self.take_in(id, spec, &origin, &mut accepted, state);
        }
        // The array is on the disk: if the power fails, its jobs are made again. The last of them take the others to the disk.
        let durability = if end == array.specs.len() { Durability::Now } else { Durability::WithNext };
        if self.commit_by(durability, accepted.entries, events).is_err() {
            // The array is on the disk: it is accepted, and the rest of its jobs are made when there is room.
            array.answer();
            self.backlog.arrays.push_front(array);
            return;
        }
        array.made = end;
        if array.left() > 0 {
            self.backlog.arrays.push_back(array);
            return;
        }
        // If the store refuses, the next start finds that all of its jobs are there.
        _ = self.journal.store.transaction_unsynced(|writer| writer.forget_array(array.first));
        array.answer();
    }
}

/// Gives each job its place in the group.
fn number(specs: &mut [Spec], mut group: Option<GroupWish>, first: u64) {
    for (spec, id) in specs.iter_mut().zip(first..) {
        spec.membership = group.as_mut().map(|wish| wish.place(id));
    }
}

/// One job for each index and each combination of values. They share the command, in which each puts its own when it is run.
pub fn expand(ask: Submit, caller: &Caller, most: usize) -> Result<Vec<Spec>, Refusal> {
    let bad = |message: String| Err(Refusal::new(RefusalKind::BadInput, message));
    for param in &ask.params {
        if param.values.is_empty() || param.name.is_empty() {
            return bad(format!("--param {}: write NAME=VALUE,VALUE,…", param.name));
        }
    }
    let count = jobs_of(&ask);
    if count > most {
        return bad(format!("{count} jobs in one submit are more than the {most} that one may make (limits.array_max)"));
    }
    let mut combinations: Vec<Vec<(String, String)>> = vec![Vec::new()];
    for param in &ask.params {
        combinations = combinations
            .iter()
            .flat_map(|before| {
                param.values.iter().map(|value| {
                    let mut combination = before.clone();
                    combination.push((param.name.clone(), value.clone()));
                    combination
                })
            })
            .collect();
    }
    // What is learned of a program's memory goes by its whole command.
    let is_template = !ask.memory_auto && (!ask.array.is_empty() || !ask.params.is_empty());
    let indices = if ask.array.is_empty() { vec![None] } else { ask.array.iter().copied().map(Some).collect::<Vec<_>>() };
    let preemptible = ask.preemptible || ask.saves_progress || ask.preempt.is_some() || ask.gavel.is_some();
    let saves_progress = ask.saves_progress || ask.preempt.is_some();
    let (array, params) = (Vec::new(), Vec::new());
    let plain = Arc::new(Submit { array, params, group: None, env: Arc::default(), preemptible, saves_progress, ..ask });
    let program = Some(mark(&program_of(&plain))).filter(|mark| *mark > 0);
    let mut specs = Vec::with_capacity(count);
    for index in indices {
        for values in &combinations {
            let mut spec = Spec {
                ask: Arc::clone(&plain),
                gid: caller.gid,
                array_index: index,
                is_template: true,
                values: values.clone(),
                membership: None,
                holder: None,
                program,
                profile: None,
                is_profile_run: false,
                client: None,
            };
            if !is_template {
                Arc::make_mut(&mut spec.ask).command = Arc::new(spec.command());
                spec.is_template = false;
            }
            specs.push(spec);
        }
    }
    Ok(specs)
}
