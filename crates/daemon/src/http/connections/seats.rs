//! Seats: how many connections there may be at once, in all and of one caller.
//!
//! A connection costs files and memory before its caller has said anything, so it is counted when it is accepted. A local caller is
//! counted by user, whatever listener it uses; a caller on another machine by address.

use crate::config::Limits;
use crate::http::room::{NoRoom, Place, Room};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

/// Files that one connection may need: itself, a second handle on it, and a log that it reads.
const FILES_PER_CONNECTION: usize = 3;
/// Seats that only root and the daemon's own user may take, so that they can act when everybody else has filled the room.
const ADMIN_SEATS: usize = 16;

/// The caller that a seat is counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Guest {
    /// A user of this machine, by user id.
    User(u32),
    /// A caller whose user is not known, by address.
    Address(IpAddr),
}

impl Guest {
    /// A caller at an address. In IPv6 one machine has a whole network of addresses, which count together.
    pub fn at(address: IpAddr) -> Self {
        Self::Address(match address {
            IpAddr::V6(v6) if v6.to_ipv4_mapped().is_none() => {
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)))
            }
            other => other.to_canonical(),
        })
    }
}

impl fmt::Display for Guest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(uid) => write!(formatter, "user id {uid}"),
            Self::Address(address) => write!(formatter, "address {address}"),
        }
    }
}

/// Why there is no seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSeat {
    /// The caller has as many connections as one may have.
    Guest(Guest, usize),
    /// There are as many connections as there may be.
    Full(usize),
}

impl NoSeat {
    /// What the caller is told, as a whole answer.
    pub fn answer(&self) -> String {
        let (status, kind, title) = match self {
            Self::Guest(guest, most) => (
                "429 Too Many Requests",
                "too-many",
                format!(
                    "{guest} has {most} connections open, and one caller may have no more: close some (each `rota wait`, `rota logs -f` and `rota top` holds one), or have limits.connections_per_user of the daemon's settings raised"
                ),
            ),
            Self::Full(most) => (
                "503 Service Unavailable",
                "busy",
                format!(
                    "too many connections: {most} are open, and that is the most; try again in a moment, or have limits.connections_max and http.connections_max of the daemon's settings raised"
                ),
            ),
        };
        let code = &status[..3];
        let body = serde_json::json!({ "type": kind, "status": code.parse::<u16>().unwrap_or(503), "title": title });
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\nconnection: close\r\n\r\n{body}"
        )
    }
}

/// The room for connections.
pub struct Seats {
    room: Arc<Room<Guest>>,
    /// The daemon's own user, who may take the last seats, as root may.
    own_uid: u32,
}

/// The place of one connection.
pub type Seat = Place<Guest>;

impl Seats {
    /// The room by the settings, and never so much that the files kept for the scheduler could be taken.
    pub fn new(limits: &Limits, own_uid: u32) -> Self {
        let most = limits.connections_max.min(connections_for(files_max(), limits.files_reserve));
        // One caller leaves room for others, however few connections there may be.
        Self { room: Arc::new(Room::new(most, limits.connections_per_user.min(most.div_ceil(2)))), own_uid }
    }

    /// The connections that are open.
    pub fn taken(&self) -> usize {
        self.room.taken()
    }

    /// A seat for a caller, which is free again when it is dropped.
    pub fn take(&self, guest: Guest) -> Result<Seat, NoSeat> {
        let is_privileged = guest == Guest::User(0) || guest == Guest::User(self.own_uid);
        let most = self.room.most;
        let most = if is_privileged { most } else { most - ADMIN_SEATS.min(most / 4) };
        self.room.take_below(guest, most).map_err(|why| match why {
            NoRoom::OfOwner(most) => NoSeat::Guest(guest, most),
            NoRoom::InAll(most) => NoSeat::Full(most),
        })
    }
}

/// Connections that so many files allow when some are kept for the scheduler.
pub fn connections_for(files: usize, reserve: usize) -> usize {
    (files.saturating_sub(reserve) / FILES_PER_CONNECTION).max(4)
}

/// The number of files that this process may have open.
pub fn files_max() -> usize {
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX))
}

/// Raises the number of files that this process may have open as far as it may by itself. Gives the limit that was in force before, which
/// is the one that jobs get.
pub fn raise_files() -> Option<u64> {
    let before = getrlimit(Resource::Nofile);
    // A daemon that may not raise it goes on with fewer connections.
    _ = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum });
    before.current
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seats(most: usize, most_of_one: usize) -> Seats {
        Seats { room: Arc::new(Room::new(most, most_of_one)), own_uid: 7 }
    }

    #[test]
    fn the_last_seats_are_for_those_who_can_put_things_right() {
        let seats = seats(8, 8);
        let _held = (0..6).map(|uid| seats.take(Guest::User(100 + uid)).ok().unwrap()).collect::<Vec<_>>();
        assert_eq!(seats.take(Guest::User(99)).err(), Some(NoSeat::Full(6)));
        let _root = seats.take(Guest::User(0)).ok().unwrap();
        let _own = seats.take(Guest::User(7)).ok().unwrap();
        assert_eq!(seats.take(Guest::User(0)).err(), Some(NoSeat::Full(8)));
    }

    #[test]
    fn files_of_the_scheduler_are_never_given_to_connections() {
        assert_eq!(connections_for(1024, 256), 256);
        assert_eq!(connections_for(100, 256), 4, "somebody must be able to ask");
        let limits = Limits { connections_max: 1_000_000, connections_per_user: 1_000_000, ..Limits::default() };
        let room = Seats::new(&limits, 0).room;
        assert!(room.most <= connections_for(files_max(), limits.files_reserve));
        assert!(room.most_of_one <= room.most.div_ceil(2));
    }

    #[test]
    fn a_network_of_addresses_is_one_caller() {
        let at = |text: &str| Guest::at(text.parse().unwrap());
        assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:1"));
        assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
        assert_eq!(at("::ffff:192.0.2.1"), at("192.0.2.1"));
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let answer = NoSeat::Guest(Guest::User(1000), 512).answer();
        assert!(answer.starts_with("HTTP/1.1 429 ") && answer.contains("user id 1000 has 512 connections open"), "{answer}");
        assert!(answer.contains("\"status\":429") && answer.contains("limits.connections_per_user"), "{answer}");
        let answer = NoSeat::Full(10).answer();
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("limits.connections_max"), "{answer}");
    }
}
