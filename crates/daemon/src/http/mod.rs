//! The API: the same routes on the unix socket, where callers are known by their credentials, and on the port, where they need a token.
//!
//! A request goes through `connections` (TLS, limits of the connection), `responses.rs` (headers and refusals of every answer) and `auth.rs`
//! (who asks) to its route in `routes`, one file for each kind of thing, or to the page (`page.rs`) where there is no route.

mod auth;
pub(crate) mod connections;
mod describe;
mod page;
pub(crate) mod privacy;
mod problem;
mod rates;
mod responses;
mod room;
mod router;
mod routes;
mod sessions;
mod sign_in_links;
mod site;
mod streams;

pub use auth::Peer;
pub use connections::{Listener, Seats, Source, tls};
pub(crate) use problem::{Answer, Problem, parse_time};
pub use rates::Rates;
pub use router::{openapi, router};
pub use routes::lists::{Lists, says};
pub use routes::watchmen::WatchmenRoutes;
pub use sessions::Sessions;
pub use site::{Site, SiteSettings};
pub use streams::Streams;
