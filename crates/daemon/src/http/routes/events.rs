//! Events as they happen. Each is made into text once, and all listeners share it through `view/relay.rs`. A listener too slow for
//! them is told to come back with the last number it saw, and disconnected. What it missed comes from the store, a page at a time, so that
//! no listener holds much memory.

use crate::api;
use crate::http::auth::{Pass, Visit};
use crate::http::room::Place;
use crate::http::{Problem, Site};
use crate::view::board::frame;
use crate::view::relay::Batch;
use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use bytes::BytesMut;
use serde::Deserialize;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Events that are read from the store at once.
const PAGE: u32 = 200;
/// A word every so often shows both ends that the other is there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub(crate) fn routes() -> OpenApiRouter<Arc<Site>> {
    OpenApiRouter::new().routes(routes!(events))
}

/// The event to go on from.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct EventsQuery {
    /// The number of the last event that was seen, for clients that cannot send the header `Last-Event-ID`.
    last_event_id: Option<u64>,
}

/// Events as they happen, from the one after `Last-Event-ID` if that is sent.
#[utoipa::path(get, path = "/events", params(EventsQuery, ("Last-Event-ID" = Option<u64>, Header, description = "The number of the last event that was seen.")),
    responses((status = 200, content_type = "text/event-stream", body = api::LiveEvent)))]
async fn events(
    State(site): State<Arc<Site>>,
    visit: Visit,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let sent = headers.get("last-event-id").and_then(|value| value.to_str().ok()).and_then(|value| value.trim().parse().ok());
    let place = site.streams.take(&visit.caller)?;
    let tokens = site.board.tokens.changes();
    let hides_words = !site.viewer(&visit.caller).sees_all();
    let mut reader = Reader {
        hides_words,
        live: site.relay.listen(),
        missed: Bytes::new(),
        seen: None,
        behind: false,
        is_let_go: false,
        pass: visit.pass,
        tokens,
        site,
        _place: place,
    };
    if let Some(last) = sent.or(query.last_event_id) {
        reader.go_on_after(last).await?;
    }
    let stream =
        futures_util::stream::unfold(
            reader,
            |mut reader| async move { Some((Ok::<_, Infallible>(reader.next().await?), reader)) },
        );
    Ok(([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(stream)).into_response())
}

/// A client that listens to events.
struct Reader {
    site: Arc<Site>,
    pass: Pass,
    tokens: watch::Receiver<()>,
    /// Whether the reader gets events without what owners of jobs wrote.
    hides_words: bool,
    live: broadcast::Receiver<Arc<Batch>>,
    /// Events of the past that are still to be sent.
    missed: Bytes,
    /// The number of the last event that was sent, or is in `missed`.
    seen: Option<u64>,
    /// Whether the store has more of it.
    behind: bool,
    /// Whether the reader has been told to come back, and hears no more.
    is_let_go: bool,
    _place: Place<u32>,
}

impl Reader {
    /// Begins with what came after an event.
    async fn go_on_after(&mut self, last: u64) -> Result<(), Problem> {
        let newest = self.site.aside(|site| Ok(site.past(crate::store::Archive::newest_event)?)).await?;
        // A number that was never given is of another store: there is nothing to go on from.
        if last < newest {
            self.seen = Some(last);
            self.read_page().await?;
        }
        Ok(())
    }

    async fn read_page(&mut self) -> Result<(), Problem> {
        // Whatever happens while the page is read is heard, whatever happened before is on it.
        self.live = self.site.relay.listen();
        let last = self.seen.unwrap_or(0);
        let page = self.site.aside(move |site| Ok(site.past(|archive| archive.events_after(last, PAGE))?)).await?;
        self.behind = page.len() == PAGE as usize;
        self.seen = page.last().map(|event| event.seq).or(self.seen);
        let mut text = BytesMut::new();
        for event in page {
            let event = api::LiveEvent::from(event);
            text.extend_from_slice(&frame(&if self.hides_words { event.without_words() } else { event }));
        }
        self.missed = text.freeze();
        Ok(())
    }

    /// The last words to a reader that is too slow.
    fn let_go(&mut self) -> Bytes {
        self.is_let_go = true;
        let seen = self.seen.map_or_else(String::new, |seen| format!(" and Last-Event-ID: {seen}"));
        format!(
            "retry: 1000\n: you read too slowly, and events are waiting; ask again for /events{seen} to go on where you are\n\n"
        )
        .into()
    }

    /// What is to be sent next; nothing when the reader is to be let go.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.missed.is_empty() && self.behind {
                self.read_page().await.ok()?;
            }
            if !self.missed.is_empty() {
                return Some(std::mem::take(&mut self.missed));
            }
            if self.is_let_go {
                return None;
            }
            tokio::select! {
                batch = self.live.recv() => {
                    let batch = match batch {
                        Ok(batch) => batch,
                        Err(RecvError::Lagged(_)) => return Some(self.let_go()),
                        Err(RecvError::Closed) => return None,
                    };
                    let Some(last) = batch.last() else {
                        // Some were missed: they are in the store, after the last one that was sent.
                        self.seen?;
                        self.behind = true;
                        continue;
                    };
                    if self.seen.is_none_or(|seen| last > seen) {
                        let text = batch.after(self.seen, self.hides_words);
                        self.seen = Some(last);
                        return Some(text);
                    }
                }
                _ = self.tokens.changed() => if !self.site.is_good(&self.pass) { return None },
                () = tokio::time::sleep(KEEP_ALIVE) => {
                    return self.site.is_good(&self.pass).then(|| Bytes::from_static(b":\n\n"));
                }
            }
        }
    }
}
