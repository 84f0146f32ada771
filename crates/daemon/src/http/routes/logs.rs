//! Logs: the output of jobs, as it grows.

use crate::api;
use crate::http::auth::Visit;
use crate::http::{Problem, Site};
use crate::store::record::JobRecord;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The most of a log that is sent at once.
const LOG_CHUNK: u64 = 64 << 10;
/// Time between two looks at a log that is followed.
const LOOK_EVERY: Duration = Duration::from_millis(150);

pub(crate) fn routes() -> OpenApiRouter<Arc<Site>> {
    OpenApiRouter::new().routes(routes!(logs))
}

/// Which part of a log.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct LogQuery {
    /// Only so many of the last lines.
    tail: Option<usize>,
    /// Go on until the job is over.
    #[serde(default)]
    follow: bool,
    /// The attempt, counted from 1; the last if not given.
    attempt: Option<u32>,
}

/// The output of a job.
#[utoipa::path(get, path = "/api/v1/jobs/{id}/logs", params(("id" = u64, Path, description = "Its number."), LogQuery), responses((status = 200, content_type = "application/octet-stream", body = Vec<u8>), (status = "4XX", body = api::Problem)))]
async fn logs(
    State(site): State<Arc<Site>>,
    visit: Visit,
    Path(id): Path<u64>,
    Query(query): Query<LogQuery>,
) -> Result<Response, Problem> {
    let record = {
        let known = site.board.read().jobs.get(&id).cloned();
        match known {
            Some(record) => record,
            None => site.aside(move |site| site.record(id)).await?,
        }
    };
    if !visit.caller.is_admin && visit.caller.uid != record.uid {
        let title = format!("job {id} belongs to {}; only its owner or an administrator may read its log", record.user);
        return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", title));
    }
    let place = site.streams.take(&visit.caller)?;
    // One piece is sent while the next is read: a client that takes none of it holds no more than these.
    let (sender, receiver) = tokio::sync::mpsc::channel::<Result<Vec<u8>, std::io::Error>>(1);
    let mut events = site.board.listen();
    let mut tokens = site.board.tokens.changes();
    tokio::spawn(async move {
        let _place = place;
        let mut place = LogPlace { tail: query.tail, ..LogPlace::default() };
        loop {
            let looked = site.aside(move |site| Ok(place.look(site, id, query.attempt))).await;
            let Ok((chunk, over, after)) = looked else { return };
            place = after;
            if !chunk.is_empty() {
                if sender.send(Ok(chunk)).await.is_err() {
                    return;
                }
                continue;
            }
            if !query.follow || over {
                return;
            }
            tokio::select! {
                // The log grows without an event; a look every so often shows it.
                _ = tokio::time::timeout(LOOK_EVERY, events.recv()) => {}
                _ = tokens.changed() => {}
            }
            if sender.is_closed() || !site.is_good(&visit.pass) {
                return;
            }
        }
    });
    let body = Body::from_stream(tokio_stream::wrappers::ReceiverStream::new(receiver));
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], body).into_response())
}

impl Site {
    /// A job with all that became of it; to be called inside of [`Self::aside`].
    fn record(&self, id: u64) -> Result<Arc<JobRecord>, Problem> {
        let live = self.board.read().jobs.get(&id).cloned();
        match live {
            Some(record) => Ok(record),
            None => Ok(Arc::new(self.past(|archive| archive.job(id))?.ok_or_else(|| crate::queue::world::no_such_job(id))?)),
        }
    }
}

/// How far a log was read, across the turns it takes.
#[derive(Default)]
struct LogPlace {
    /// The file that is read, which may have another name by now.
    file: Option<std::fs::File>,
    path: PathBuf,
    /// Only so many of the last lines, until they were looked for.
    tail: Option<usize>,
}

impl LogPlace {
    /// The next piece of a job's log, and whether there is no more to come after an empty one.
    fn look(mut self, site: &Site, id: u64, attempt: Option<u32>) -> (Vec<u8>, bool, Self) {
        // Asked before reading: what was written before the end is read after it.
        let Ok(record) = site.record(id) else { return (Vec::new(), true, self) };
        let attempts = attempt.unwrap_or(record.attempts);
        let path = JobRecord { attempts, ..(*record).clone() }.log_path(&site.settings.state_dir);
        let chunk = path.map_or_else(Vec::new, |path| {
            if let Some(lines) = self.tail.take() {
                self.seek_tail(&path, lines);
            }
            self.read(&path)
        });
        (chunk, record.state.is_over(), self)
    }

    fn seek_tail(&mut self, path: &std::path::Path, lines: usize) {
        let Ok(mut file) = std::fs::File::open(path) else { return };
        let length = file.metadata().map_or(0, |meta| meta.len());
        let mut from = length;
        let mut seen = 0;
        while from > 0 {
            let step = from.min(64 << 10);
            let mut chunk = vec![0; step as usize];
            if file.seek(SeekFrom::Start(from - step)).is_err() || file.read_exact(&mut chunk).is_err() {
                break;
            }
            for (position, byte) in chunk.iter().enumerate().rev() {
                // The newline that ends the last line begins no other.
                let at = from - step + position as u64;
                if *byte == b'\n' && at + 1 < length {
                    seen += 1;
                    if seen == lines {
                        return self.begin(file, path, at + 1);
                    }
                }
            }
            from -= step;
        }
        self.begin(file, path, if lines == 0 { length } else { 0 });
    }

    fn begin(&mut self, mut file: std::fs::File, path: &std::path::Path, offset: u64) {
        if file.seek(SeekFrom::Start(offset)).is_ok() {
            path.clone_into(&mut self.path);
            self.file = Some(file);
        }
    }

    /// The next piece. A log that was turned over is read to its end, then the one that came after it.
    fn read(&mut self, path: &std::path::Path) -> Vec<u8> {
        if self.path != path || self.file.is_none() {
            let Ok(file) = std::fs::File::open(path) else { return Vec::new() };
            self.begin(file, path, 0);
        }
        loop {
            let Some(file) = &mut self.file else { return Vec::new() };
            // Asked before reading: what was written before it was turned over is read after that.
            let next = successor(file, path);
            let mut chunk = Vec::new();
            if file.take(LOG_CHUNK).read_to_end(&mut chunk).is_err() || !chunk.is_empty() {
                return chunk;
            }
            let Some(next) = next else { return chunk };
            self.begin(next, path, 0);
        }
    }
}

/// The log that came after one that was turned over: `log.1` is older than `log`, `log.2` is older than that.
fn successor(file: &std::fs::File, path: &std::path::Path) -> Option<std::fs::File> {
    let own = inode(file);
    let mut newer = std::fs::File::open(path).ok()?;
    if inode(&newer) == own {
        return None;
    }
    for age in 1.. {
        let name = PathBuf::from(format!("{}.{age}", path.display()));
        // One that is not there any more was dropped: what is left begins with the oldest.
        let Ok(older) = std::fs::File::open(name) else { break };
        if inode(&older) == own {
            break;
        }
        newer = older;
    }
    Some(newer)
}

fn inode(file: &std::fs::File) -> u64 {
    use std::os::unix::fs::MetadataExt;
    file.metadata().map_or(0, |meta| meta.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_tail_is_the_last_lines_whatever_ends_them() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        for (text, lines, expected) in
            [("a\nb\nc\n", 2, "b\nc\n"), ("a\nb\nc", 2, "b\nc"), ("a\nb\n", 5, "a\nb\n"), ("a\nb\n", 0, ""), ("", 3, "")]
        {
            std::fs::write(&path, text).unwrap();
            let mut place = LogPlace::default();
            place.seek_tail(&path, lines);
            assert_eq!(String::from_utf8(place.read(&path)).unwrap(), expected, "{text:?} {lines}");
        }
    }

    #[test]
    fn no_line_is_lost_when_a_log_is_turned_over_however_often() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let turn_over = || {
            for age in (1..4).rev() {
                _ = std::fs::rename(dir.path().join(format!("log.{age}")), dir.path().join(format!("log.{}", age + 1)));
            }
            std::fs::rename(&path, dir.path().join("log.1")).unwrap();
        };
        let mut place = LogPlace::default();
        let mut read = Vec::new();
        std::fs::write(&path, "1\n").unwrap();
        read.extend(place.read(&path));
        for (turns, first) in [(0, 2), (1, 3), (3, 5), (2, 9)] {
            std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(format!("{first}\n").as_bytes()).unwrap();
            for number in 1..=turns {
                turn_over();
                std::fs::write(&path, format!("{}\n", first + number)).unwrap();
            }
            loop {
                let chunk = place.read(&path);
                if chunk.is_empty() {
                    break;
                }
                read.extend(chunk);
            }
        }
        let read = String::from_utf8(read).unwrap();
        assert_eq!(read, "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n");
    }
}
