//! Lists of jobs, a page at a time, as text. Requests for the same page share one copy of it as long as nothing changes: a list of
//! thousands costs more to make than to send.

use crate::api;
use crate::http::privacy::Viewer;
use crate::http::{Problem, Site};
use crate::store::Past;
use crate::store::record::JobRecord;
use axum::body::Bytes;
use std::collections::HashMap;
use std::io::Write as _;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;

/// Reasons to wait and what is measured change without an event; a list with such jobs is never older than this.
const AGE_MAX: Duration = Duration::from_millis(200);
/// Pages that are kept.
const KEPT_MAX: usize = 64;
/// Bytes of pages from which on all of them are forgotten.
const KEPT_BYTES_MAX: usize = 32 << 20;

/// Which jobs, in words that were understood.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Wanted {
    /// Whether jobs that are over are listed, too.
    pub all: bool,
    /// Only in this state.
    pub state: Option<api::JobState>,
    /// Only of this user.
    pub user: Option<String>,
    /// Only of this project.
    pub project: Option<String>,
    /// Only those that ended at or after this moment.
    pub since_ns: Option<i64>,
    /// Only those that ended before this moment.
    pub until_ns: Option<i64>,
    /// Only those with this in their name or their command, whatever its case.
    pub text: Option<String>,
    /// Only of this group.
    pub group: Option<u64>,
    /// Only those that are called so, or whose group is; `*` stands for any letters.
    pub name: Option<String>,
    /// The most jobs on a page.
    pub limit: usize,
    /// The last of the page before.
    pub cursor: Option<u64>,
    /// The jobs whose details may be on the page.
    pub viewer: Viewer,
}

impl Wanted {
    /// Whether jobs that are over are wanted: such lists are read from the newest to the oldest.
    pub fn is_past(&self) -> bool {
        let over = self.state.map(api::JobState::is_over);
        (self.all && over.is_none()) || over == Some(true) || self.since_ns.is_some() || self.until_ns.is_some()
    }

    /// Whether jobs that are not over are wanted.
    fn is_present(&self) -> bool {
        self.since_ns.is_none() && self.until_ns.is_none() && !self.state.is_some_and(api::JobState::is_over)
    }

    fn is(&self, record: &JobRecord) -> bool {
        self.state.is_none_or(|state| record.state == state)
            && self.user.as_ref().is_none_or(|user| record.user == *user)
            && (self.project.is_none() || record.spec.ask.project == self.project)
            && self.cursor.is_none_or(|cursor| if self.is_past() { record.id < cursor } else { record.id > cursor })
            && self.group.is_none_or(|group| record.spec.membership.is_some_and(|membership| membership.group == group))
            && self.name.as_ref().is_none_or(|name| self.viewer.sees(record.uid) && record.spec.is_named(name))
            && self.text.as_ref().is_none_or(|text| self.viewer.sees(record.uid) && says(record, text))
    }
}

/// Whether a job's name or the beginning of its command has a text in it, which is in lower case.
pub fn says(record: &JobRecord, text: &str) -> bool {
    let ask = &record.spec.ask;
    let words = || record.command_in_short().iter().map(crate::api::text::Text::lossy).collect::<Vec<_>>().join(" ");
    ask.name.as_ref().is_some_and(|name| name.to_lowercase().contains(text)) || words().to_lowercase().contains(text)
}

/// A page of a list.
#[derive(Default)]
pub struct Page {
    /// The jobs, as JSON.
    pub json: Bytes,
    /// From where the next page goes on, if there is one.
    pub next: Option<u64>,
    packed: OnceLock<Bytes>,
    /// Whether something on it can change without an event: a reason to wait, or what is measured.
    moves: bool,
}

impl Page {
    /// The jobs as packed JSON: a twentieth of it.
    pub fn packed(&self) -> Bytes {
        let pack = || {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            // Memory takes everything.
            _ = encoder.write_all(&self.json);
            encoder.finish().unwrap_or_default().into()
        };
        self.packed.get_or_init(pack).clone()
    }
}

/// A page that is being made, or was.
type Shared = Arc<OnceCell<Arc<Page>>>;

struct Kept {
    told: u64,
    at: Instant,
    page: Shared,
}

/// The pages that were asked for a moment ago.
#[derive(Default)]
pub struct Lists(Mutex<HashMap<Wanted, Kept>>);

impl Lists {
    /// The page that others ask for, too, or a new one. `told` is what had happened when it was asked for.
    fn share(&self, wanted: &Wanted, told: u64, now: Instant) -> Shared {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = |kept: &Kept| {
            let stands = || kept.page.get().is_some_and(|page| !page.moves);
            kept.told == told && (now.saturating_duration_since(kept.at) < AGE_MAX || stands())
        };
        if let Some(known) = kept.get(wanted).filter(|known| is_new(known)) {
            return Arc::clone(&known.page);
        }
        kept.retain(|_, known| is_new(known));
        let bytes: usize = kept.values().filter_map(|known| known.page.get()).map(|page| page.json.len()).sum();
        if kept.len() >= KEPT_MAX || bytes > KEPT_BYTES_MAX {
            kept.clear();
        }
        let page = Shared::default();
        kept.insert(wanted.clone(), Kept { told, at: now, page: Arc::clone(&page) });
        page
    }

    /// Forgets pages that were made more than a moment ago.
    pub fn rest(&self, now: Instant) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, known| now.saturating_duration_since(known.at) < AGE_MAX);
    }
}

impl Site {
    /// One page of a list.
    pub async fn page(self: &Arc<Self>, wanted: Wanted) -> Result<Arc<Page>, Problem> {
        let shared = self.lists.share(&wanted, self.board.told(), Instant::now());
        let page = shared.get_or_try_init(|| self.aside(move |site| site.make_page(&wanted).map(Arc::new))).await?;
        Ok(Arc::clone(page))
    }

    /// Jobs that are not over, in order of arrival: those at the end that a page of the past may need, those at the beginning otherwise,
    /// and one more.
    fn present(&self, wanted: &Wanted) -> Vec<Arc<JobRecord>> {
        let view = self.board.read();
        if wanted.text.is_some() {
            // Words are looked for when the queue can go on.
            let mut all = view.jobs.values().cloned().collect::<Vec<_>>();
            drop(view);
            all.retain(|record| wanted.is(record));
            return all;
        }
        let most = wanted.limit.saturating_add(1);
        let mut chosen = if wanted.is_past() {
            view.jobs.values().rev().filter(|record| wanted.is(record)).take(most).cloned().collect::<Vec<_>>()
        } else {
            let from = wanted.cursor.unwrap_or(0);
            view.jobs.range(from..).map(|(_, record)| record).filter(|record| wanted.is(record)).take(most).cloned().collect()
        };
        if wanted.is_past() {
            chosen.reverse();
        }
        chosen
    }

    fn make_page(&self, wanted: &Wanted) -> Result<Page, Problem> {
        // First what is not over, then what is: a job that ends in between is seen twice, and not missed.
        let mut present = if wanted.is_present() { self.present(wanted) } else { Vec::new() };
        let mut past = Vec::new();
        let next;
        if wanted.is_past() {
            // One more than is wanted shows whether there is a next page.
            let query = Past {
                before: wanted.cursor,
                state: wanted.state,
                user: wanted.user.clone(),
                project: wanted.project.clone(),
                since_ns: wanted.since_ns,
                until_ns: wanted.until_ns,
                text: wanted.text.clone(),
                text_of: match &wanted.viewer {
                    Viewer::All => None,
                    Viewer::Own { uid, .. } => Some(*uid),
                },
                group: wanted.group,
                name: wanted.name.clone(),
                limit: wanted.limit + 1,
            };
            past = self.past(|archive| archive.past(&query))?;
            present.retain(|record| past.binary_search_by(|over| record.id.cmp(&over.id)).is_err());
            next = keep_newest(wanted.limit, &mut past, &mut present);
        } else {
            let more = present.len() > wanted.limit;
            present.truncate(wanted.limit);
            next = present.last().map(|record| record.id).filter(|_| more);
        }
        let moves = present.iter().any(|record| record.state != api::JobState::Held);
        let mut json = Vec::with_capacity(1024 * (past.len() + present.len()) + 2);
        json.push(b'[');
        let mut put = |job: &api::Job| {
            if json.len() > 1 {
                json.push(b',');
            }
            // Memory takes everything, and jobs can be written.
            _ = serde_json::to_writer(&mut json, job);
        };
        let mut past = past.iter().rev().peekable();
        for record in &present {
            while let Some(over) = past.next_if(|over| over.id < record.id) {
                put(&wanted.viewer.job(over, over.view(&self.settings.state_dir, None, None)));
            }
            let job = self.board.read().job(record, &self.settings.state_dir);
            put(&wanted.viewer.job(record, job));
        }
        past.for_each(|over| put(&wanted.viewer.job(over, over.view(&self.settings.state_dir, None, None))));
        json.push(b']');
        Ok(Page { json: json.into(), next, packed: OnceLock::new(), moves })
    }
}

/// Leaves the jobs with the highest numbers: of `past`, which is sorted downwards, and `present`, upwards. Says from where the next
/// page goes on.
fn keep_newest(limit: usize, past: &mut Vec<JobRecord>, present: &mut Vec<Arc<JobRecord>>) -> Option<u64> {
    let mut ids = past.iter().map(|record| record.id).chain(present.iter().map(|record| record.id)).collect::<Vec<_>>();
    ids.sort_unstable_by(|one, other| other.cmp(one));
    let more = ids.len() > limit;
    let last = *ids.get(limit.min(ids.len()).checked_sub(1)?)?;
    past.retain(|record| record.id >= last);
    present.retain(|record| record.id >= last);
    Some(last).filter(|_| more)
}
