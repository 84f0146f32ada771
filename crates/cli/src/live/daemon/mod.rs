//! Commands about the daemon itself: `up`, `down`, `config`, its tokens (`token`) and its notifications (`notify`).

mod notify;
mod tokens;
mod up;

pub use notify::{event, notify};
pub use tokens::token;
pub use up::{config, down, up};
