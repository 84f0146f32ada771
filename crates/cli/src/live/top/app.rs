//! What the dashboard knows: folded from the daemon's answers and from keys, and drawn by [`super::draw`]. No clock, no terminal, no
//! network in here.

use super::arrange::{Arrangement, Fold};
use super::history::History;
use super::pages;
use super::tail::Tail;
use jiff::Timestamp;
use rota_daemon::api::{Explanation, Group, Job, Status};
use std::collections::BTreeMap;

/// How long the outcome of an action is shown.
const NOTICE_SECONDS: i64 = 6;

/// What can be done to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Cancel the job.
    Cancel,
    /// Do not start it.
    Hold,
    /// Start it after all.
    Release,
}

impl Verb {
    /// As the API calls it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Hold => "hold",
            Self::Release => "release",
        }
    }

    /// The verb in the past tense, for messages.
    pub fn past(self) -> &'static str {
        match self {
            Self::Cancel => "is asked to end",
            Self::Hold => "is held",
            Self::Release => "is released",
        }
    }
}

/// The daemon's answers at one moment.
#[derive(Clone, Debug)]
pub struct DaemonView {
    /// The daemon's status, with its GPUs.
    pub status: Status,
    /// The jobs that wait and run, in order of arrival; a long queue is cut.
    pub jobs: Vec<Job>,
    /// The jobs that ended lately, oldest first.
    pub over: Vec<Job>,
    /// The groups that are not over.
    pub groups: Vec<Group>,
}

/// News from the daemon.
#[derive(Debug)]
pub enum News {
    /// The daemon answered with the state of the queue.
    Seen(Box<DaemonView>),
    /// Why a job waits.
    Explained(u64, Result<Explanation, String>),
    /// A job's log is read from here on.
    LogBegins(u64),
    /// A job wrote something.
    LogGrew(u64, Vec<u8>),
    /// A job's log cannot be read.
    LogRefused(u64, String),
    /// Something was done to a job, or refused.
    Acted(Verb, u64, Result<(), String>),
    /// Something was done to a group: to so many jobs, or refused.
    GroupActed(Verb, u64, Result<usize, String>),
    /// A job was given another priority, or not.
    Prioritised(u64, i32, Result<(), String>),
    /// The daemon does not answer.
    Gone(String),
}

/// What the daemon is asked about beside the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Focus {
    /// The job whose log is followed.
    pub job: Option<u64>,
    /// Whether to ask why it waits.
    pub explain: bool,
}

/// The page that fills the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Page {
    /// GPUs, queue and the end of a log.
    #[default]
    Overview,
    /// One job, and why it waits.
    Job,
    /// One job's log.
    Log,
    /// The GPUs with all jobs and processes on them.
    Gpus,
    /// The list of keys.
    Help,
}

/// Whether the daemon answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// The daemon answers.
    Up,
    /// The daemon has not answered since this moment, for this reason.
    Gone(Timestamp, String),
}

/// A question that a key raised; only `y` does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The change that the question is about.
    pub verb: Verb,
    /// To which job: the one that was selected when the key was hit, whatever moves since.
    pub job: u64,
    /// The group that the selected row stood for.
    pub group: Option<Fold>,
}

/// The outcome of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The notice in words.
    pub text: String,
    /// Whether the change was refused.
    pub is_refusal: bool,
    until: i64,
}

/// The log that is followed.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// The job whose log is shown.
    pub job: Option<u64>,
    /// The last lines of the log.
    pub tail: Tail,
    /// Why the log cannot be read.
    pub refusal: Option<String>,
}

/// Everything that is drawn.
#[derive(Clone, Debug)]
pub struct App {
    /// The moment of the last change.
    pub now: Timestamp,
    /// Columns and rows of the screen.
    pub size: (u16, u16),
    /// Whether colours are left out.
    pub is_plain: bool,
    /// Time between two looks.
    pub interval_seconds: f64,
    /// Whether the daemon answers.
    pub link: Link,
    /// The daemon's status, with its GPUs.
    pub status: Status,
    /// The queue as it is listed: what runs, what waits, what is held, what is over.
    pub jobs: Vec<Job>,
    /// The recent use of each GPU, by its UUID.
    pub history: BTreeMap<String, History>,
    /// Rows that stand for a whole group, by the job they are of.
    pub folds: BTreeMap<u64, Fold>,
    /// What the user asked to see of the queue.
    pub arrangement: Arrangement,
    /// Everything that was seen, before it was arranged.
    seen: Vec<Job>,
    groups: Vec<Group>,
    /// Whether the first row is selected whatever it is, because the user has chosen no other.
    follows_top: bool,
    /// The job that keys speak of.
    pub selected: Option<u64>,
    /// The page that fills the screen.
    pub page: Page,
    /// Rows scrolled on the page: from its beginning, of a log from its end.
    pub scroll: usize,
    /// A question that waits for `y` or `n`.
    pub question: Option<Question>,
    /// The log that is followed.
    pub log: Log,
    /// Why the selected job waits.
    pub explanation: Option<(u64, Result<Explanation, String>)>,
    notice: Option<Notice>,
}

impl App {
    /// After the first look.
    pub fn new(sight: DaemonView, now: Timestamp, interval_seconds: f64) -> Self {
        let mut app = Self {
            now,
            size: (80, 24),
            is_plain: false,
            interval_seconds,
            link: Link::Up,
            status: sight.status.clone(),
            jobs: Vec::new(),
            history: BTreeMap::new(),
            folds: BTreeMap::new(),
            arrangement: Arrangement::default(),
            seen: Vec::new(),
            groups: Vec::new(),
            follows_top: true,
            selected: None,
            page: Page::Overview,
            scroll: 0,
            question: None,
            log: Log::default(),
            explanation: None,
            notice: None,
        };
        app.see(sight);
        app
    }

    /// Takes what the daemon said.
    pub fn take(&mut self, news: News) {
        match news {
            News::Seen(sight) => self.see(*sight),
            News::Explained(job, why) => self.explanation = Some((job, why)),
            News::LogBegins(job) => self.log = Log { job: Some(job), ..Log::default() },
            News::LogGrew(job, bytes) if self.log.job == Some(job) => self.log_grew(&bytes),
            News::LogRefused(job, why) => self.log = Log { job: Some(job), refusal: Some(why), ..Log::default() },
            News::LogGrew(..) => {}
            News::Acted(verb, job, Ok(())) => self.say(format!("job {job} {}", verb.past()), false),
            News::Acted(verb, job, Err(why)) => self.say(format!("{} job {job}: {why}", verb.word()), true),
            News::GroupActed(verb, group, Ok(jobs)) => self.say(format!("group:{group}: {} of {jobs} jobs", verb.word()), false),
            News::GroupActed(verb, group, Err(why)) => self.say(format!("{} group:{group}: {why}", verb.word()), true),
            News::Prioritised(job, priority, Ok(())) => self.say(format!("job {job} has priority {priority}"), false),
            News::Prioritised(job, _, Err(why)) => self.say(format!("priority of job {job}: {why}"), true),
            News::Gone(why) => {
                let since = if let Link::Gone(since, _) = self.link { since } else { self.now };
                self.link = Link::Gone(since, why);
            }
        }
    }

    fn see(&mut self, sight: DaemonView) {
        self.link = Link::Up;
        let second = self.now.as_second();
        for gpu in &sight.status.gpus {
            if let Some(busy) = gpu.utilisation_percent {
                self.history.entry(gpu.uuid.clone()).or_default().push(second, busy);
            }
        }
        self.history.retain(|uuid, _| sight.status.gpus.iter().any(|gpu| gpu.uuid == *uuid));
        self.status = sight.status;
        self.seen = sight.jobs;
        // What ended last is looked for first. A job that ended between two answers is in both.
        let known = self.seen.iter().map(|job| job.id).collect::<std::collections::HashSet<_>>();
        self.seen.extend(sight.over.into_iter().rev().filter(|job| !known.contains(&job.id)));
        self.groups = sight.groups;
        self.arrange();
    }

    /// Makes the rows anew, and keeps the selection where the user would look for it.
    pub fn arrange(&mut self) {
        let place = self.selected_place();
        let was_active = self.selected_job().is_some_and(|job| !job.state.is_over());
        (self.jobs, self.folds) = self.arrangement.rows(&self.seen, &self.groups);
        if was_active && self.page == Page::Overview && self.selected_job().is_some_and(|job| job.state.is_over()) {
            // The list goes on at its top, and not at its end with the job that is over.
            self.follows_top = true;
        }
        if self.follows_top && self.page == Page::Overview {
            self.selected = self.jobs.first().map(|job| job.id);
        } else if self.selected_place().is_none() {
            // The neighbour takes the place of a job that is gone.
            let place = place.unwrap_or(0).min(self.jobs.len().saturating_sub(1));
            self.selected = self.jobs.get(place).map(|job| job.id);
        }
    }

    /// The group that the selected row stands for, if it does.
    pub fn selected_fold(&self) -> Option<Fold> {
        self.selected.and_then(|job| self.folds.get(&job)).copied()
    }

    fn log_grew(&mut self, bytes: &[u8]) {
        let before = (self.page == Page::Log && self.scroll > 0).then(|| pages::rows(self).len());
        self.log.tail.push(bytes);
        // A user who has scrolled up keeps seeing the same lines.
        if let Some(before) = before {
            let scroll = self.scroll + pages::rows(self).len().saturating_sub(before);
            self.scroll = scroll.min(pages::scroll_max(self));
        }
    }

    fn say(&mut self, text: String, is_refusal: bool) {
        self.notice = Some(Notice { text, is_refusal, until: self.now.as_second() + NOTICE_SECONDS });
    }

    /// Says that a key means nothing now.
    pub fn refuse(&mut self, text: String) {
        self.say(text, true);
    }

    /// What came of the last action, for as long as it is news.
    pub fn notice(&self) -> Option<&Notice> {
        self.notice.as_ref().filter(|notice| self.now.as_second() < notice.until)
    }

    /// Where in the list the selected job is.
    pub fn selected_place(&self) -> Option<usize> {
        self.jobs.iter().position(|job| Some(job.id) == self.selected)
    }

    /// The selected job.
    pub fn selected_job(&self) -> Option<&Job> {
        self.selected_place().and_then(|place| self.jobs.get(place))
    }

    /// Moves the selection by so many jobs, as far as there are any.
    pub fn select(&mut self, by: isize) {
        let place = self.selected_place().unwrap_or(0).saturating_add_signed(by).min(self.jobs.len().saturating_sub(1));
        self.selected = self.jobs.get(place).map(|job| job.id);
        self.follows_top = place == 0;
    }

    /// Opens a page at its beginning.
    pub fn open(&mut self, page: Page) {
        self.page = page;
        self.scroll = 0;
    }

    /// What the daemon should be asked.
    pub fn focus(&self) -> Focus {
        Focus { job: self.selected, explain: self.page == Page::Job }
    }

    /// Jobs that are in the queue and not in the list.
    pub fn left_out(&self) -> u64 {
        let listed = self.seen.iter().filter(|job| !job.state.is_over()).count() as u64;
        (self.status.running + self.status.waiting + self.status.held).saturating_sub(listed)
    }
}
