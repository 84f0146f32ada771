//! What jobs wrote, as it grows.

use super::{Problem, Site};
use crate::api;
use crate::platform::Caller;
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
const LOG_CHUNK: u64 = 256 << 10;

pub(super) fn routes() -> OpenApiRouter<Arc<Site>> {
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
    /// Of this attempt; the last if not given.
    attempt: Option<u32>,
}

/// What a job wrote.
#[utoipa::path(get, path = "/api/v1/jobs/{id}/logs", params(LogQuery), responses((status = 200, content_type = "application/octet-stream", body = Vec<u8>), (status = "4XX", body = api::Problem)))]
async fn logs(
    State(site): State<Arc<Site>>,
    caller: Caller,
    Path(id): Path<u64>,
    Query(query): Query<LogQuery>,
) -> Result<Response, Problem> {
    let record = {
        let known = site.board.read().jobs.get(&id).cloned();
        match known {
            Some(record) => record,
            None => Arc::new(site.past(|archive| archive.job(id))?.ok_or_else(|| Problem::from(crate::world::no_such_job(id)))?),
        }
    };
    if !caller.is_admin && caller.uid != record.uid {
        let title = format!("job {id} belongs to {}; only its owner or an administrator may read its log", record.user);
        return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", title));
    }
    let path_now = move |site: &Site| {
        let live = site.board.read().jobs.get(&id).cloned();
        let job = live.or_else(|| site.past(|archive| archive.job(id)).ok().flatten().map(Arc::new))?;
        let attempt = query.attempt.unwrap_or(job.attempts);
        (attempt > 0).then(|| crate::record::Record { attempts: attempt, ..(*job).clone() }.log_path(&site.state_dir)).flatten()
    };
    let (sender, receiver) = tokio::sync::mpsc::channel::<Result<Vec<u8>, std::io::Error>>(4);
    let mut events = site.board.listen();
    tokio::spawn(async move {
        let mut place = LogPlace::default();
        let mut first = true;
        loop {
            // Asked before reading: what was written before the end is read after it.
            let over = site.job(id).is_ok_and(|job| job.state.is_over());
            if let Some(path) = path_now(&site) {
                if std::mem::take(&mut first)
                    && let Some(lines) = query.tail
                {
                    place.seek_tail(&path, lines);
                }
                loop {
                    let chunk = place.read(&path);
                    if chunk.is_empty() {
                        break;
                    }
                    if sender.send(Ok(chunk)).await.is_err() {
                        return;
                    }
                }
            }
            if !query.follow || over {
                return;
            }
            // The log grows without an event; a look every so often shows it.
            _ = tokio::time::timeout(Duration::from_millis(150), events.recv()).await;
            if sender.is_closed() {
                return;
            }
        }
    });
    let body = Body::from_stream(tokio_stream::wrappers::ReceiverStream::new(receiver));
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], body).into_response())
}

/// How far a log was read, across the turns it takes.
#[derive(Default)]
struct LogPlace {
    offset: u64,
    inode: u64,
    path: PathBuf,
}

impl LogPlace {
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
                        self.offset = at + 1;
                        path.clone_into(&mut self.path);
                        self.inode = inode(&file);
                        return;
                    }
                }
            }
            from -= step;
        }
        if lines == 0 {
            self.offset = length;
            path.clone_into(&mut self.path);
            self.inode = inode(&file);
        }
    }

    fn read(&mut self, path: &std::path::Path) -> Vec<u8> {
        let Ok(mut file) = std::fs::File::open(path) else { return Vec::new() };
        let now = inode(&file);
        if self.path != path || (self.inode != now && self.inode != 0) {
            self.offset = 0;
            path.clone_into(&mut self.path);
        }
        self.inode = now;
        let mut chunk = Vec::new();
        if file.seek(SeekFrom::Start(self.offset)).is_ok() && file.take(LOG_CHUNK).read_to_end(&mut chunk).is_ok() {
            self.offset += chunk.len() as u64;
        }
        chunk
    }
}

fn inode(file: &std::fs::File) -> u64 {
    use std::os::unix::fs::MetadataExt;
    file.metadata().map_or(0, |meta| meta.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
