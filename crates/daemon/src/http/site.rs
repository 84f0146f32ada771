//! The site: what all routes share, and how they ask the queue and read the past.

use super::privacy::Viewer;
use super::problem::Problem;
use super::routes::lists::Lists;
use super::routes::watchmen::WatchmenRoutes;
use super::{Rates, Sessions, Streams};
use crate::api;
use crate::forecast::fork::QueueFork;
use crate::machine::platform::{Message, Reply};
use crate::simulate::simulations::Simulations;
use crate::store::archives::Archives;
use crate::store::record::JobRecord;
use crate::store::{Archive, StoreError};
use crate::view::board::Board;
use axum::http::StatusCode;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// What all routes share.
pub struct Site {
    pub(crate) settings: SiteSettings,
    pub(crate) board: Arc<Board>,
    pub(crate) inbox: Sender<Message>,
    pub(crate) archives: Archives,
    pub(crate) users: crate::access::users::Directory,
    pub(crate) sessions: Sessions,
    pub(crate) rates: Rates,
    pub(crate) streams: Streams,
    pub(crate) lists: Lists,
    pub(crate) relay: crate::view::relay::Relay,
    pub(crate) estimates: crate::queue::estimates::Estimates,
    pub(crate) simulations: Simulations,
    /// What earlier jobs taught about lengths.
    pub(crate) learned: crate::forecast::learned::SharedLearned,
    pub(crate) watchmen: WatchmenRoutes,
    pub(crate) notify: Sender<crate::notify::NotifierMessage>,
}

/// What does not change while the daemon runs.
pub struct SiteSettings {
    pub(crate) state_dir: PathBuf,
    pub(crate) daemon_uid: u32,
    /// Users who may act on everybody's jobs, beside root and the daemon's user.
    pub(crate) admins: Vec<u32>,
    /// Whether users see no details of each other's jobs.
    pub(crate) is_private: bool,
    /// The limits of resources that jobs have if they ask for no others.
    pub(crate) job_limits: rota_exec::ResourceLimits,
    /// The most bytes of a request.
    pub(crate) body_bytes_max: usize,
    pub(crate) has_tls: bool,
    /// Whether `/metrics` needs no token.
    pub(crate) metrics_open: bool,
    pub(crate) socket: String,
    pub(crate) http: Option<String>,
    pub(crate) started_at: String,
    pub(crate) driver: String,
    /// The settings of the scheduler. The policy is that of the start; it may have been changed since.
    pub(crate) scheduler: crate::api::SchedulerSettings,
}

impl Site {
    /// Asks the queue, and waits for its answer.
    pub(crate) async fn ask<T>(&self, message: impl FnOnce(Reply<T>) -> Message) -> Result<T, Problem> {
        let gone =
            || Problem::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", "the daemon is stopping; try again when it is back");
        let (reply, answer) = tokio::sync::oneshot::channel();
        self.inbox.send(message(reply)).map_err(|_| gone())?;
        Ok(answer.await.map_err(|_| gone())??)
    }

    /// Runs work that may wait for the disk on a thread of its own, so that other requests do not wait.
    pub(crate) async fn aside<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let site = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || work(&site)).await;
        done.map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string()))?
    }

    /// A copy of the queue, to be run forward; nothing if the queue has something else to do. To be called inside of [`Self::aside`].
    pub(crate) fn fork(&self) -> Option<QueueFork> {
        let (asker, answer) = std::sync::mpsc::channel();
        self.inbox.send(Message::Fork(asker)).ok()?;
        answer.recv().ok()
    }

    /// Reads the store; to be called inside of [`Self::aside`].
    pub(crate) fn past<T>(&self, query: impl FnOnce(&Archive) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.archives.read(query)
    }

    /// A job as the viewer sees it.
    pub(crate) async fn find(self: &Arc<Self>, id: u64, viewer: &Viewer) -> Result<api::Job, Problem> {
        if let Some(job) = self.remembered(id, viewer) {
            return Ok(job);
        }
        let viewer = viewer.clone();
        self.aside(move |site| site.job(id, &viewer)).await
    }

    /// The same as [`Self::find`], to be called inside of [`Self::aside`].
    pub(crate) fn job(&self, id: u64, viewer: &Viewer) -> Result<api::Job, Problem> {
        if let Some(job) = self.remembered(id, viewer) {
            return Ok(job);
        }
        let record = self.past(|archive| archive.job(id))?;
        let record = record.ok_or_else(|| Problem::from(crate::queue::world::no_such_job(id)))?;
        Ok(viewer.job(&record, whole(record.view(&self.settings.state_dir, None, None), &record)))
    }

    /// A job as the viewer sees it, if it is in memory: it is not over, or has just ended.
    fn remembered(&self, id: u64, viewer: &Viewer) -> Option<api::Job> {
        let (view, folder) = (self.board.read(), &self.settings.state_dir);
        if let Some(record) = view.jobs.get(&id) {
            return Some(viewer.job(record, whole(view.job(record, folder), record)));
        }
        let record = view.recent_ends.get(id)?;
        Some(viewer.job(record, whole(record.view(folder, None, None), record)))
    }
}

/// A job that is looked at by itself, with all of its command.
fn whole(job: api::Job, record: &JobRecord) -> api::Job {
    api::Job { command: record.command(), ..job }
}
