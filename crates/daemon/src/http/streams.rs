//! Streams: answers that go on, of events and of logs that are followed. Each holds a buffer for as long as it lasts, so one user may have
//! so many.

use super::Problem;
use super::room::{NoRoom, Place, Room};
use crate::config::Limits;
use crate::machine::platform::Caller;
use axum::http::StatusCode;
use std::sync::Arc;

/// The room for streams.
pub struct Streams(Arc<Room<u32>>);

impl Streams {
    /// The room by the settings.
    pub fn new(limits: &Limits) -> Self {
        Self(Arc::new(Room::new(limits.streams_max, limits.streams_per_user)))
    }

    /// A place for a stream of a user, whatever token or connection it comes by.
    pub fn take(&self, caller: &Caller) -> Result<Place<u32>, Problem> {
        self.0.take(caller.uid).map_err(|why| match why {
            NoRoom::OfOwner(most) => {
                let title = format!(
                    "{} has {most} streams of events and logs open, and one user may have no more: end some, or have limits.streams_per_user of the daemon's settings raised",
                    caller.user
                );
                Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-many", title)
            }
            NoRoom::InAll(most) => {
                let title = format!(
                    "{most} streams of events and logs are open, and there may be no more: try again in a moment, or have limits.streams_max of the daemon's settings raised"
                );
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", title)
            }
        })
    }
}
