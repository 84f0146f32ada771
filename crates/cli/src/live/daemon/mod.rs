//! Commands about the daemon itself: `up`, `down`, `demo`, `config`, its tokens (`token`), its notifications (`notify`), and the upkeep of its
//! database (`backup`, `restore`, `check`).

mod demo;
mod notify;
mod tokens;
mod up;
mod upkeep;

pub use demo::demo;
pub use notify::{event, notify};
pub use tokens::token;
pub use up::{config, down, up};
pub use upkeep::{backup, check, restore};
