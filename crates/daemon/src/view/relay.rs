//! Events for all listeners. The queue wakes one reader, this one, however many listeners there are behind it. While little
//! happens each event goes on at once; while much does, those of a moment go on together, so that a listener costs few writes.

use crate::view::board::{BroadcastEvent, frame};
use bytes::{Bytes, BytesMut};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::broadcast::{self, Receiver, Sender, error::RecvError};

/// How long events are gathered after some have gone on.
const GATHER: Duration = Duration::from_millis(250);
/// Batches that a slow reader may fall behind before it has to read them from the store. They are kept for it, so there are few.
const KEPT: usize = 64;
/// The most events of one batch.
const BATCH_MAX: usize = 512;

/// Events that go on together, as they go over the wire.
pub struct Batch {
    events: Vec<Arc<BroadcastEvent>>,
    text: Bytes,
    /// The same without what owners of jobs wrote, once a reader wants it so.
    without_words: OnceLock<Bytes>,
}

impl Batch {
    fn new(events: Vec<Arc<BroadcastEvent>>) -> Self {
        let text = text_of(&events, false);
        Self { events, text, without_words: OnceLock::new() }
    }

    /// The number of its last event.
    pub fn last(&self) -> Option<u64> {
        self.events.last().map(|told| told.seq)
    }

    /// The events of the batch that come after an event, if need be without what owners of jobs wrote.
    pub fn after(&self, seen: Option<u64>, hides_words: bool) -> Bytes {
        let known = self.events.partition_point(|told| seen.is_some_and(|seen| told.seq <= seen));
        match (known, hides_words) {
            (0, false) => self.text.clone(),
            (0, true) => self.without_words.get_or_init(|| text_of(&self.events, true)).clone(),
            _ => text_of(&self.events[known..], hides_words),
        }
    }
}

fn text_of(events: &[Arc<BroadcastEvent>], hides_words: bool) -> Bytes {
    let mut text = BytesMut::new();
    for told in events {
        let frame = if hides_words { frame(&(***told).clone().without_words()) } else { told.frame() };
        text.extend_from_slice(&frame);
    }
    text.freeze()
}

/// The channel that hands batches on to listeners.
pub struct Relay(Sender<Arc<Batch>>);

impl Default for Relay {
    fn default() -> Self {
        Self(broadcast::channel(KEPT).0)
    }
}

impl Relay {
    /// Listens from now on. A batch without events means that some were missed.
    pub fn listen(&self) -> Receiver<Arc<Batch>> {
        self.0.subscribe()
    }

    /// The number of listeners.
    pub fn listeners(&self) -> usize {
        self.0.receiver_count()
    }

    /// Hands on what is told until nothing will be any more.
    pub async fn run(&self, mut told: Receiver<Arc<BroadcastEvent>>) {
        loop {
            let mut events = Vec::new();
            let mut next = told.recv().await;
            loop {
                match next {
                    Ok(event) => events.push(event),
                    // Whoever hears of the gap looks it up.
                    Err(RecvError::Lagged(_)) => {
                        events.clear();
                        self.hand_on(Vec::new());
                    }
                    Err(RecvError::Closed) => return,
                }
                next = match told.try_recv() {
                    Ok(event) => Ok(event),
                    Err(broadcast::error::TryRecvError::Lagged(count)) => Err(RecvError::Lagged(count)),
                    Err(_) => break,
                };
            }
            for batch in events.chunks(BATCH_MAX) {
                self.hand_on(batch.to_vec());
            }
            tokio::time::sleep(GATHER).await;
        }
    }

    fn hand_on(&self, events: Vec<Arc<BroadcastEvent>>) {
        if self.listeners() > 0 {
            // The last one may leave at this moment.
            _ = self.0.send(Arc::new(Batch::new(events)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::LiveEvent;
    use crate::view::board::Board;

    /// What a listener hears of events that were told before the relay had a turn.
    async fn heard(count: u64, batches: usize) -> Vec<Arc<Batch>> {
        let (board, relay) = (Board::default(), Arc::new(Relay::default()));
        let (told, mut listener) = (board.listen(), relay.listen());
        for seq in 1..=count {
            board.tell(LiveEvent {
                seq,
                at: String::new(),
                kind: "submitted".to_owned(),
                job: Some(seq),
                detail: serde_json::Value::Null,
            });
        }
        drop(board);
        relay.run(told).await;
        let mut heard = Vec::new();
        for _ in 0..batches {
            heard.push(listener.recv().await.unwrap());
        }
        assert!(listener.try_recv().is_err(), "nothing else was handed on");
        heard
    }

    #[tokio::test]
    async fn events_of_a_moment_go_on_together_and_only_those_that_are_new_to_a_reader() {
        let batch = heard(3, 1).await.remove(0);
        let ids = |seen: Option<u64>| {
            let text = String::from_utf8(batch.after(seen, false).to_vec()).unwrap();
            text.lines().filter_map(|line| line.strip_prefix("id: ")).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(batch.last(), Some(3));
        assert_eq!(ids(None), ["1", "2", "3"]);
        assert_eq!(ids(Some(1)), ["2", "3"]);
        assert!(ids(Some(3)).is_empty());
    }

    #[tokio::test]
    async fn a_gap_is_told_before_what_comes_after_it() {
        let batches = heard(10_000, 9).await;
        assert_eq!((batches[0].last(), batches[8].last()), (None, Some(10_000)));
        assert!(batches.iter().all(|batch| batch.events.len() <= BATCH_MAX), "a batch is never large");
        assert!(batches.iter().map(|batch| batch.events.len()).sum::<usize>() < 10_000, "some were lost");
    }
}
