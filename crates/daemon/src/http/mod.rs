//! The API: the same routes on the unix socket, where callers are known by their credentials, and on the port, where they need a token.
//!
//! A request goes through `port.rs` (TLS, limits of the connection), `responses.rs` (headers and refusals of every answer) and `auth.rs`
//! (who asks) to its route in `routes`, one file for each kind of thing, or to the page (`page.rs`) where there is no route.

mod auth;
mod describe;
mod page;
mod port;
mod problem;
mod rates;
mod responses;
mod router;
mod routes;
mod sessions;
mod site;

pub use auth::Peer;
pub use port::{PortListener, tls};
pub(crate) use problem::{Answer, Problem, parse_time};
pub use rates::Rates;
pub use router::{openapi, router};
pub use routes::lists::{Lists, says};
pub use routes::watchmen::{ClientListener, WatchmenRoutes};
pub use sessions::Sessions;
pub use site::{Site, StatusBase};
