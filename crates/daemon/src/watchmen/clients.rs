//! Clients of watchmen: processes that register, ask again and again, and use GPUs when they are told to. Each is a claim in the queue.
//!
//! A client that is known to be a process keeps its place and its GPUs for as long as that process lives, and not a moment longer. One that
//! is not is let go when nothing was heard of it for too long, unless its user is at work on its GPUs. Nothing is granted here: the
//! scheduler does that, as for every job.

use crate::api::{self, ClaimMode, JobState, Submit};
use crate::machine::platform::{Caller, Look, Outcome, Platform, Refusal, RefusalKind};
use crate::queue::world::LiveWorld;
use crate::store::record::{Holder, JobRecord, Spec};
use crate::store::{Stamp, Store, StoreError};
use rota_core::{Event, Time};
use rota_engine::State;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The longest id a client may have, in bytes.
const ID_BYTES_MAX: usize = 1024;
/// The longest name that is shown for it, in characters.
const NAME_MAX: usize = 120;

/// What a client asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wish {
    /// The name that the client gives itself.
    pub id: String,
    /// All of its GPUs, or some of them.
    pub mode: ClaimMode,
    /// The GPUs, in its own order.
    pub gpus: Vec<u32>,
    /// The number of GPUs wanted, where not all of them.
    pub req_gpu_num: u32,
}

impl Wish {
    /// Says what cannot be meant on a machine with these GPUs.
    pub fn understand(id: String, mode: Option<&str>, gpus: &[i64], req_gpu_num: i64, known: &[u32]) -> Result<Self, String> {
        if id.is_empty() || id.len() > ID_BYTES_MAX {
            return Err(format!("an id has 1 to {ID_BYTES_MAX} bytes"));
        }
        let mode = match mode {
            None | Some("queue") => ClaimMode::Queue,
            Some("schedule") => ClaimMode::Schedule,
            Some(other) => return Err(format!("mode `{other}` is not one of queue, schedule")),
        };
        if gpus.is_empty() {
            return Err("gpus must not be empty".to_owned());
        }
        let mut named: Vec<u32> = Vec::new();
        for gpu in gpus {
            let found = u32::try_from(*gpu).ok().filter(|gpu| known.contains(gpu));
            let Some(found) = found else {
                let known = known.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
                return Err(format!("there is no GPU {gpu}; this machine has {known}"));
            };
            if !named.contains(&found) {
                named.push(found);
            }
        }
        let asked = u32::try_from(req_gpu_num).unwrap_or(0);
        if mode == ClaimMode::Schedule && (asked == 0 || asked as usize > named.len()) {
            return Err(format!("req_gpu_num is {req_gpu_num}; write 1 to {}, as many as are named", named.len()));
        }
        Ok(Self { id, mode, gpus: named, req_gpu_num: asked })
    }

    fn count(&self) -> u32 {
        match self.mode {
            ClaimMode::Queue => self.gpus.len() as u32,
            ClaimMode::Schedule => self.req_gpu_num,
        }
    }

    /// The id as it can be shown in a line of text.
    fn name(&self) -> String {
        let plain = |letter: char| if letter.is_control() { char::REPLACEMENT_CHARACTER } else { letter };
        let name = self.id.chars().take(NAME_MAX).map(plain).collect::<String>();
        // A name may not be longer than this, however many bytes its letters have.
        let end = name.floor_char_boundary(256);
        name[..end].to_owned()
    }
}

/// A wish as it reaches the queue.
#[derive(Clone, Debug)]
pub struct Registration {
    /// The GPUs that the client asks for.
    pub wish: Wish,
    /// The process it said it is.
    pub holder: Option<Holder>,
}

/// A process that asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asker {
    /// The process that asked.
    pub holder: Holder,
    /// Whether it asks for the process that started it, and ends when it has the answer.
    pub is_helper: bool,
    /// The process that started it.
    pub parent: Option<Holder>,
}

/// The process a client's place and GPUs are tied to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tie {
    /// The process whose life counts.
    pub holder: Holder,
    /// The process that has the GPUs afterwards, if this one was only started to ask for them.
    #[serde(default)]
    pub heir: Option<Holder>,
    /// A shell may live for weeks: its GPUs are let go when neither they nor anything it started show signs of life.
    #[serde(default)]
    pub is_lenient: bool,
}

impl Tie {
    fn to(holder: Holder) -> Self {
        Self { holder, heir: None, is_lenient: false }
    }

    fn of(asker: Asker) -> Option<Self> {
        match (asker.is_helper, asker.parent) {
            (false, _) => Some(Self::to(asker.holder)),
            (true, Some(parent)) => Some(Self { holder: asker.holder, heir: Some(parent), is_lenient: false }),
            (true, None) => None,
        }
    }
}

/// What the store keeps of a client beside its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientRow {
    /// The job that stands for the client in the queue.
    pub job: u64,
    /// The moment the client last asked, in nanoseconds since 1970.
    pub requested_ns: i64,
    /// The process it is tied to.
    pub tie: Option<Tie>,
}

/// The state of a client, in watchmen's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientStatus {
    /// The client waits for its GPUs.
    Waiting,
    /// The client has its GPUs.
    Ready,
    /// The client has had its GPUs and gave them back.
    Ok,
    /// The client went away, or fell silent, before it had its GPUs.
    Timeout,
    /// A user took the client out of the queue.
    Cancelled,
}

/// A client with all that became of it.
#[derive(Clone, Debug)]
pub struct Client {
    /// The claim that stands for the client in the queue.
    pub record: Arc<JobRecord>,
    /// The moment the client last asked, in nanoseconds since 1970.
    pub requested_ns: i64,
    /// The process it is tied to.
    pub tie: Option<Tie>,
    /// The moment the client last asked, in the queue's time.
    heard_at: Time,
    /// The process that asked last.
    asker: Option<Asker>,
}

impl Client {
    /// The client's state.
    pub fn status(&self) -> ClientStatus {
        match self.record.state {
            JobState::Waiting | JobState::Held => ClientStatus::Waiting,
            JobState::Starting | JobState::Running | JobState::Stopping => ClientStatus::Ready,
            JobState::Done => ClientStatus::Ok,
            JobState::Cancelled if self.record.cancel => ClientStatus::Cancelled,
            JobState::Cancelled | JobState::Failed | JobState::Lost => ClientStatus::Timeout,
        }
    }

    /// Whether the client neither waits nor has GPUs.
    pub fn is_over(&self) -> bool {
        self.record.state.is_over()
    }

    /// The GPUs that the client asked for.
    pub fn wish(&self) -> Option<&Wish> {
        self.record.spec.client.as_ref()
    }

    /// The client's GPUs in the order in which it named them.
    pub fn available(&self) -> Vec<u32> {
        let granted = &self.record.gpu_indices;
        self.wish().map_or_else(Vec::new, |wish| wish.gpus.iter().copied().filter(|gpu| granted.contains(gpu)).collect())
    }
}

/// All clients that are listed.
#[derive(Clone, Debug, Default)]
pub struct Clients {
    by_job: BTreeMap<u64, Client>,
    /// The last one of each user and id: users do not have each other's ids.
    by_id: HashMap<(u32, String), u64>,
}

impl Clients {
    /// The last client of a user with an id.
    pub fn get(&self, uid: u32, id: &str) -> Option<&Client> {
        self.by_id.get(&(uid, id.to_owned())).and_then(|job| self.by_job.get(job))
    }

    /// The last client of any user with an id.
    pub fn of_anybody(&self, id: &str) -> Option<&Client> {
        self.by_job.values().rev().find(|client| client.wish().is_some_and(|wish| wish.id == id))
    }

    /// The client of a job.
    pub fn of_job(&self, job: u64) -> Option<&Client> {
        self.by_job.get(&job)
    }

    /// Those that wait or have GPUs, in the order in which they registered.
    pub fn working(&self) -> impl Iterator<Item = &Client> {
        self.by_job.values().filter(|client| !client.is_over())
    }

    /// The others, in the order in which they registered.
    pub fn finished(&self) -> impl Iterator<Item = &Client> {
        self.by_job.values().filter(|client| client.is_over())
    }

    /// Takes in what became of a client's job.
    pub fn note(&mut self, record: &Arc<JobRecord>, stamp: Stamp) {
        let Some(wish) = &record.spec.client else { return };
        if let Some(client) = self.by_job.get_mut(&record.id) {
            client.record = Arc::clone(record);
            return;
        }
        self.by_id.insert((record.uid, wish.id.clone()), record.id);
        let tie = record.spec.holder.clone().map(Tie::to);
        let client =
            Client { record: Arc::clone(record), requested_ns: stamp.wall_ns, tie, heard_at: Time(stamp.at), asker: None };
        self.by_job.insert(record.id, client);
    }

    /// What is to be written of a client.
    pub fn row(&self, record: &JobRecord, wall_ns: i64) -> ClientRow {
        self.of_job(record.id).map_or_else(
            || ClientRow { job: record.id, requested_ns: wall_ns, tie: record.spec.holder.clone().map(Tie::to) },
            |client| ClientRow { job: record.id, requested_ns: client.requested_ns, tie: client.tie.clone() },
        )
    }

    fn forget(&mut self, job: u64) {
        if let Some(client) = self.by_job.remove(&job)
            && let Some(wish) = client.wish()
            && self.by_id.get(&(client.record.uid, wish.id.clone())) == Some(&job)
        {
            self.by_id.remove(&(client.record.uid, wish.id.clone()));
        }
    }
}

/// The clients of the store. No client could reach the daemon while it was down, so their silence is counted from now.
pub fn restored(store: &Store, jobs: &mut BTreeMap<u64, Arc<JobRecord>>, now: Time) -> Result<Clients, StoreError> {
    let mut clients = Clients::default();
    for row in store.clients()? {
        let record = match jobs.get(&row.job) {
            Some(record) => tied(record, row.tie.as_ref()),
            None => match store.job(row.job)? {
                Some(record) => record,
                None => continue,
            },
        };
        let Some(wish) = &record.spec.client else { continue };
        clients.by_id.insert((record.uid, wish.id.clone()), row.job);
        let record = Arc::new(record);
        if !record.state.is_over() {
            jobs.insert(row.job, Arc::clone(&record));
        }
        let client = Client { record, requested_ns: row.requested_ns, tie: row.tie, heard_at: now, asker: None };
        clients.by_job.insert(row.job, client);
    }
    Ok(clients)
}

/// A job as it is when its client is tied to a process.
fn tied(record: &JobRecord, tie: Option<&Tie>) -> JobRecord {
    let holder = tie.map(|tie| tie.holder.clone());
    JobRecord { spec: Arc::new(Spec { holder, ..(*record.spec).clone() }), ..record.clone() }
}

impl<P: Platform> LiveWorld<P> {
    pub(crate) fn register(
        &mut self,
        registration: &Registration,
        caller: &Caller,
        state: &State,
        events: &mut Vec<Event>,
    ) -> Result<u64, Refusal> {
        let wish = &registration.wish;
        if self.board.read().clients.get(caller.uid, &wish.id).is_some_and(|client| !client.is_over()) {
            let message = format!("client `{}` is registered already, and not done", wish.id);
            return Err(Refusal::new(RefusalKind::Conflict, message));
        }
        let ask = Submit { gpus: wish.count(), gpu_ids: wish.gpus.clone(), name: Some(wish.name()), ..api::plain_submit() };
        let spec = Spec {
            ask: Arc::new(ask),
            gid: caller.gid,
            array_index: None,
            is_template: false,
            values: Vec::new(),
            membership: None,
            holder: registration.holder.clone(),
            program: None,
            profile: None,
            is_profile_run: false,
            client: Some(wish.clone()),
        };
        self.accept_claim(&spec, caller, state, events)
    }

    /// A client asked again. A process that asks twice is the client itself; one that asks once may be a helper of another process.
    pub(crate) fn pinged(&mut self, job: u64, asker: Option<Asker>) {
        let (now, wall_ns) = (self.platform.now(), self.platform.wall_ns());
        let tie = {
            let mut view = self.board.write();
            let Some(client) = view.clients.by_job.get_mut(&job).filter(|client| !client.is_over()) else { return };
            client.requested_ns = wall_ns;
            client.heard_at = now;
            let Some(asker) = asker else { return };
            let is_again = client.tie.is_none() && client.asker.as_ref() == Some(&asker);
            client.asker = Some(asker.clone());
            if is_again { Tie::of(asker) } else { None }
        };
        if let Some(tie) = tie {
            self.tie(job, tie);
        }
    }

    fn tie(&mut self, job: u64, tie: Tie) {
        let Some(record) = self.records.jobs.get(&job) else { return };
        let record = Arc::new(tied(record, Some(&tie)));
        let row = {
            let mut view = self.board.write();
            let Some(client) = view.clients.by_job.get_mut(&job) else { return };
            client.record = Arc::clone(&record);
            client.tie = Some(tie.clone());
            client.heard_at = self.platform.now();
            let row = ClientRow { job, requested_ns: client.requested_ns, tie: Some(tie) };
            view.jobs.insert(job, Arc::clone(&record));
            row
        };
        self.records.put(Arc::clone(&record));
        // If the store refuses, a daemon that comes back knows the client, and not its process.
        let outcome = self.journal.store.transaction(|writer| writer.put_client(&row));
        self.note_store(&outcome);
        if let Some(outcome) = self.platform.watch_holder(&record) {
            self.queue_end(&record, outcome);
        }
    }

    /// Whether the GPUs of a process that ended pass to the process that sent it to ask for them.
    pub(crate) fn hand_on(&mut self, record: &JobRecord) -> bool {
        let heir = {
            let view = self.board.read();
            view.clients.of_job(record.id).and_then(|client| client.tie.as_ref()).and_then(|tie| tie.heir.clone())
        };
        let Some(heir) = heir.filter(|_| record.state.has_gpus()) else { return false };
        self.tie(record.id, Tie { holder: heir, heir: None, is_lenient: true });
        true
    }

    pub(crate) fn let_go(&mut self, job: u64, caller: &Caller, state: &State, events: &mut Vec<Event>) -> Result<(), Refusal> {
        let record = self.touch(job, caller)?;
        if record.spec.client.is_none() {
            return Err(Refusal::new(RefusalKind::BadInput, format!("job {job} is not a client's")));
        }
        self.take_ends(vec![(job, record.attempts, Outcome::LetGo("it was given back".to_owned()))], state, events);
        Ok(())
    }

    /// A client may have no known process. A process of the same user on the client's GPUs then counts as the client's.
    pub(crate) fn bring_home(&self, uuid: &String, look: &mut Look) {
        if look.processes.iter().all(|process| process.job.is_some()) {
            return;
        }
        let is_unheld = |record: &&Arc<JobRecord>| record.spec.client.is_some() && record.spec.holder.is_none();
        let unheld = self.running().filter(is_unheld).collect::<Vec<_>>();
        for process in look.processes.iter_mut().filter(|process| process.job.is_none()) {
            let is_home = |record: &&&Arc<JobRecord>| {
                record.gpu_uuids.contains(uuid) && process.user.as_deref() == Some(record.user.as_str())
            };
            process.job = unheld.iter().find(is_home).map(|record| record.id);
        }
    }

    /// Lets go of clients that nothing was heard of for too long, and lists none that is done for longer than it is to be listed.
    pub(crate) fn tend_clients(&mut self) {
        let (now, wall_ns) = (self.platform.now(), self.platform.wall_ns());
        let patience_ns = (self.config.watchmen.queue_timeout_seconds * 1e9) as u64;
        let keep_ns = self.config.watchmen.keep_hours * 3600e9;
        let mut silent = Vec::new();
        let mut old = Vec::new();
        {
            let mut view = self.board.write();
            let clients = &mut view.clients.by_job;
            for process in self.devices.telemetry.looks.iter().flat_map(|look| &look.processes) {
                if let Some(client) = process.job.and_then(|job| clients.get_mut(&job)) {
                    client.heard_at = now;
                }
            }
            for (job, client) in clients {
                if client.is_over() {
                    let since = client.record.finished_ns.unwrap_or(0).max(client.requested_ns);
                    if keep_ns >= 0.0 && (wall_ns - since) as f64 > keep_ns {
                        old.push(*job);
                    }
                    continue;
                }
                let is_bound = client.tie.as_ref().is_some_and(|tie| !tie.is_lenient);
                if is_bound || now.since(client.heard_at).0 <= patience_ns {
                    continue;
                }
                if client.tie.as_ref().is_some_and(|tie| has_children(tie.holder.pid)) {
                    client.heard_at = now;
                } else {
                    silent.push(Arc::clone(&client.record));
                }
            }
        }
        for record in silent {
            let why = format!("nothing was heard of it for {} s", self.config.watchmen.queue_timeout_seconds);
            self.queue_end(&record, Outcome::LetGo(why));
        }
        if !old.is_empty() {
            let outcome = self.journal.store.transaction(|writer| old.iter().try_for_each(|job| writer.forget_client(*job)));
            self.note_store(&outcome);
            let mut view = self.board.write();
            for job in old {
                view.clients.forget(job);
            }
        }
    }
}

/// Whether a process has started others that live. Where the system does not say, it may have.
fn has_children(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).map_or(true, |children| !children.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn understand(id: &str, mode: Option<&str>, gpus: &[i64], count: i64) -> Result<Wish, String> {
        Wish::understand(id.to_owned(), mode, gpus, count, &[0, 1, 2, 3])
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_a_reason() {
        for (id, mode, gpus, count, part) in [
            ("", None, &[0][..], 0, "an id has"),
            ("a", Some("both"), &[0], 0, "mode `both`"),
            ("a", None, &[], 0, "must not be empty"),
            ("a", None, &[4], 0, "no GPU 4; this machine has 0, 1, 2, 3"),
            ("a", None, &[-1], 0, "no GPU -1"),
            ("a", None, &[i64::MAX], 0, "no GPU"),
            ("a", Some("schedule"), &[0, 1], 0, "req_gpu_num is 0; write 1 to 2"),
            ("a", Some("schedule"), &[0, 1], 3, "req_gpu_num is 3"),
            ("a", Some("schedule"), &[0, 1], -1, "req_gpu_num is -1"),
            ("a", Some("schedule"), &[1, 1], 2, "req_gpu_num is 2; write 1 to 1"),
        ] {
            let problem = understand(id, mode, gpus, count).unwrap_err();
            assert!(problem.contains(part), "{problem}");
        }
        assert!(understand(&"x".repeat(ID_BYTES_MAX + 1), None, &[0], 0).is_err());
    }

    #[test]
    fn the_two_modes_ask_for_all_or_for_some() {
        assert_eq!(understand("a", None, &[2, 0, 2], 7).unwrap().count(), 2);
        let some = understand("a", Some("schedule"), &[3, 1, 2], 2).unwrap();
        assert_eq!((some.count(), some.gpus), (2, vec![3, 1, 2]));
    }

    #[test]
    fn any_id_has_a_name_that_can_be_shown() {
        for id in ["ann@run-1", "<script>alert(1)</script>", "a\u{1b}[31m\n\0", &"\u{202e}𝄞".repeat(100)] {
            let name = understand(id, None, &[0], 0).unwrap().name();
            assert!(!name.is_empty() && name.len() <= 256 && !name.chars().any(char::is_control), "{name:?}");
        }
    }
}
