//! The seam between the queue and the machine it runs on: clock, messages and executor. A test puts a virtual one in its place.

use crate::api;
use crate::api::text::Text;
use crate::lease::token::LeaseHolder;
use crate::machine::run_requests::{RunRequests, run_of};
use crate::store::record::JobRecord;
use crate::watchmen::clients::{Asker, Registration};
use rota_core::Time;
use rota_exec::{Adoption, DeviceLook, Executor, ExecutorEvent, ExitRecord, LostCause, RunEnd, StartError, Started, Stop};
use std::fmt;
use std::sync::Arc;
use tokio::sync::oneshot;

/// The user who makes a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The user's id.
    pub uid: u32,
    /// The id of the user's group.
    pub gid: u32,
    /// The user's name.
    pub user: String,
    /// May touch everybody's jobs.
    pub is_admin: bool,
    /// May change anything at all.
    pub may_write: bool,
}

/// Why something is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The kind of refusal.
    pub kind: RefusalKind,
    /// The reason, in words for the user.
    pub message: String,
}

/// Kinds of refusal, which decide exit codes and HTTP states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// The request cannot be meant.
    BadInput,
    /// There is no such thing.
    NotFound,
    /// The job or the setting belongs to another user.
    Forbidden,
    /// Not now: it ended already, say.
    Conflict,
    /// Too much is asked for.
    TooMany,
    /// The machine cannot take it now.
    Unavailable,
}

impl Refusal {
    /// A refusal of a kind.
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

/// Where an answer goes.
pub type Reply<T> = oneshot::Sender<Result<T, Refusal>>;

/// What may be done to jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// End the job.
    Cancel,
    /// Do not start the job.
    Hold,
    /// Start the job after all.
    Release,
    /// Run the job again.
    Retry,
}

/// How an attempt ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Its supervisor wrote it down.
    Ended(Box<ExitRecord>),
    /// Nobody can say.
    Lost(String),
    /// Nobody can say, because its node is gone. A job that saves its work through its lease goes on elsewhere: the old run can save
    /// nothing any more.
    NodeGone(String),
    /// Nobody can say, because whoever gave its node has taken it away. No process of it is left.
    NodeEnded(String),
    /// Nobody can say, because the machine was restarted.
    Rebooted,
    /// It never ran: the daemon died before its supervisor came. It waits again.
    NeverStarted,
    /// It never ran: this machine could not make a process for it now.
    NotLaunched(String),
    /// The process a claim was tied to is gone, or gave it back.
    HolderGone,
    /// A claim without a process was given back, or nothing was heard of it for too long.
    LetGo(String),
}

impl From<RunEnd> for Outcome {
    fn from(end: RunEnd) -> Self {
        match end {
            RunEnd::Ended(record) => Self::Ended(record),
            RunEnd::Lost(cause @ LostCause::NodeGone(_)) => Self::NodeGone(cause.to_string()),
            RunEnd::Lost(cause @ LostCause::NodeEnded(_)) => Self::NodeEnded(cause.to_string()),
            RunEnd::Lost(cause) => Self::Lost(cause.to_string()),
            RunEnd::Rebooted => Self::Rebooted,
            RunEnd::NeverStarted => Self::NeverStarted,
            RunEnd::NotLaunched(why) => Self::NotLaunched(why),
        }
    }
}

/// What one look at a GPU showed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Look {
    /// The reading; `None` if the device does not answer.
    pub reading: Option<rota_gpu::Reading>,
    /// Its processes with their owners.
    pub processes: Vec<api::GpuProcess>,
    /// The driver says that the device is gone.
    pub is_lost: bool,
}

impl From<DeviceLook> for Look {
    fn from(look: DeviceLook) -> Self {
        let process = |owner: rota_exec::ProcessOwner| api::GpuProcess {
            pid: owner.pid,
            user: owner.user,
            name: owner.name,
            memory_mib: owner.memory_mib,
            job: owner.job,
        };
        Self { reading: look.reading, processes: look.owners.into_iter().map(process).collect(), is_lost: look.is_lost }
    }
}

/// What reaches the queue.
pub enum Message {
    /// A copy of the queue is asked for, to be run forward.
    Fork(crate::forecast::fork::ForkSender),
    /// A user asks what would become of a job, without submitting it.
    DryRun(Box<api::Submit>, Caller, Reply<Box<crate::forecast::changes::Candidate>>),
    /// A user submits jobs.
    Submit(Box<api::Submit>, Caller, Reply<api::Submitted>),
    /// A process claims GPUs for itself.
    Claim(api::GpuClaim, Caller, Reply<u64>),
    /// A client of watchmen wants GPUs.
    Register(Box<Registration>, Caller, Reply<u64>),
    /// A client of watchmen asked after its GPUs, and by which process.
    Pinged(u64, Option<Asker>),
    /// A client of watchmen gives its GPUs back.
    LetGo(u64, Caller, Reply<()>),
    /// Something is to be done to jobs.
    Act(Verb, Vec<u64>, Caller, Reply<Vec<u64>>),
    /// One thing is to be done to many jobs.
    ActOnMany(api::JobsAction, Caller, Reply<api::JobsActed>),
    /// Another priority for a job that waits.
    Prioritise(u64, i32, Caller, Reply<()>),
    /// An attempt ended.
    Ended {
        /// The job of the attempt.
        job: u64,
        /// The attempt, counted from 1.
        attempt: u32,
        /// How the attempt ended.
        outcome: Outcome,
    },
    /// The executor tells something else than an end.
    Executor(ExecutorEvent),
    /// GPUs were looked at: some or all, each with its UUID.
    Looked(Vec<(String, Look)>),
    /// Nodes will be gone soon, for this reason.
    NodesLeaving {
        /// The names of the nodes that will be gone.
        nodes: Vec<String>,
        /// The reason, in words for users.
        reason: String,
    },
    /// Why does it wait?
    Explain(u64, Caller, Reply<api::Explanation>),
    /// A node is gone for good.
    ForgetNode(String, Caller, Reply<()>),
    /// Start nothing more, on these GPUs or at all.
    Drain(api::Drain, Caller, Reply<()>),
    /// Start jobs again.
    Resume(Vec<u32>, Caller, Reply<()>),
    /// What is known of the memory of programs?
    Profiles(Caller, Reply<Vec<api::Profile>>),
    /// Forget what is known of a class of programs.
    Forget(String, Caller, Reply<()>),
    /// Tokens are made, revoked or used.
    Tokens(crate::access::tokens::TokenChange, Reply<u64>),
    /// Write down what was measured and waits to be written with more.
    Flush(Reply<()>),
    /// An administrator sets another policy.
    Policy(String, Caller, Reply<()>),
    /// A job asks for GPUs beyond its own, or gives some back.
    Extra(ExtraRequest, Reply<()>),
    /// A job asks for its lease, or has saved its work.
    Lease(LeaseRequest, Reply<()>),
    /// Give back memory that is kept for speed only.
    Rest,
    /// End; jobs run on.
    Shutdown,
}

/// What a job asks of its lease that must be written down before it is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseRequest {
    /// The run hears of a stop through its lease from now on.
    Take(LeaseHolder),
    /// The job saved its work.
    Commit {
        /// The run that saved it.
        holder: LeaseHolder,
        /// Steps that are saved, since the job's first start.
        step: u64,
        /// Where they are saved, below the job's folder for checkpoints.
        checkpoint: Option<Box<str>>,
    },
}

/// What a job says of GPUs beyond its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExtraRequest {
    /// The run wants to hear of offers.
    Listen(LeaseHolder),
    /// The run uses so many extra GPUs and no more.
    Keep {
        /// The run that says so.
        holder: LeaseHolder,
        /// How many it still uses.
        kept: u32,
    },
}

/// A job to be started.
pub struct Run<'a> {
    /// The job, with its attempt and its GPUs.
    pub record: &'a JobRecord,
    /// Its environment as submitted.
    pub env: Arc<Vec<(Text, Text)>>,
}

/// Clock, messages, and the executor that runs jobs. What is done to jobs is written once for every platform, below.
pub trait Platform {
    /// The queue's time.
    fn now(&self) -> Time;
    /// Nanoseconds since 1970.
    fn wall_ns(&self) -> i64;
    /// Waits for messages, at the latest until a moment; an empty list means that the moment came. `None`: nothing will ever come.
    fn wait(&mut self, until: Option<Time>) -> Option<Vec<Message>>;
    /// The executor of this queue's jobs. Its events come as messages, see [`message_of`].
    fn executor(&self) -> &dyn Executor;
    /// The executor of this queue's jobs.
    fn executor_mut(&mut self) -> &mut dyn Executor;
    /// What makes requests of records.
    fn requests(&mut self) -> &mut RunRequests;
    /// Watches the process a claim is tied to; says so if it is gone already.
    fn watch_holder(&mut self, record: &JobRecord) -> Option<Outcome>;

    /// Makes the place where a job is about to run, before its start is written down.
    fn prepare(&mut self, record: &JobRecord) -> Result<String, String> {
        let run = run_of(record);
        let identity = self.executor_mut().prepare(run).map_err(|error| with_causes(&error))?;
        let text = identity.as_str().to_owned();
        self.requests().keep(run, identity);
        Ok(text)
    }

    /// Starts a job, or says what became of the attempt.
    fn launch(&mut self, run: Run<'_>) -> Result<Started, Outcome> {
        let record = run.record;
        let request = self.requests().request(&run).map_err(Outcome::NotLaunched)?;
        match self.executor_mut().start(request) {
            Ok(started) => Ok(started),
            // The run is there: who started it is for its directory to say.
            Err(StartError::Duplicate { .. }) => match self.adopt(record) {
                Adoption::Running => Ok(Started::Running),
                Adoption::Unknown => Ok(Started::Taken),
                Adoption::Ended(end) => Err(end.into()),
            },
            Err(error) => Err(Outcome::NotLaunched(with_causes(&error))),
        }
    }

    /// Whether jobs can be run under MPS here, or why not.
    fn check_mps(&self) -> Result<(), String> {
        self.executor().check_mps()
    }

    /// The end of a job's log. A log that cannot be read tells nothing.
    fn log_end(&self, record: &JobRecord, bytes: u64) -> Vec<u8> {
        self.executor().log_end(run_of(record), bytes).unwrap_or_default()
    }

    /// Asks a job to stop, or ends it at once.
    fn stop(&mut self, record: &JobRecord, at_once: bool) {
        let how = if at_once { Stop::AtOnce } else { Stop::Gentle };
        // A run that is not there has ended, which is told by a message.
        _ = self.executor_mut().stop(run_of(record), how);
    }

    /// Asks a job to make room for others, in the way that it knows.
    fn make_leave(&mut self, record: &JobRecord) {
        let how = if record.progress.is_leased {
            Stop::Told
        } else if record.spec.ask.preempt.is_some() {
            Stop::Notice
        } else {
            Stop::Gentle
        };
        // A run that is not there has ended, which is told by a message.
        _ = self.executor_mut().stop(run_of(record), how);
    }

    /// Finds a job that was under way when the daemon ended.
    fn adopt(&mut self, record: &JobRecord) -> Adoption {
        let known = self.requests().known(record);
        self.executor_mut().adopt(&known)
    }
}

/// The message that tells the queue of an executor's event.
pub fn message_of(event: ExecutorEvent) -> Message {
    match event {
        ExecutorEvent::Ended { run, end } => Message::Ended { job: run.job, attempt: run.attempt, outcome: end.into() },
        ExecutorEvent::HolderGone { run } => Message::Ended { job: run.job, attempt: run.attempt, outcome: Outcome::HolderGone },
        ExecutorEvent::Looked(looks) => Message::Looked(looks.into_iter().map(|look| (look.uuid.clone(), look.into())).collect()),
        other => Message::Executor(other),
    }
}

/// An error with its causes, in one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
