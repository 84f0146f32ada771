//! What goes over the wire about who may ask: tokens and sessions.

pub use crate::tokens::Scope;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A token that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenAsk {
    /// What to call it: 1 to 100 characters, not only digits, and none of its owner's other tokens has it.
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
    /// What it allows.
    pub scope: Scope,
    /// Whose it is; the caller's own if not given. Only administrators name others.
    #[serde(default)]
    pub user: Option<String>,
    /// When it ends; never if not given.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 3_000_000_000_u64)]
    pub expires_in_seconds: Option<u64>,
}

/// A token, without its text, which nobody knows any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// Its number.
    pub id: u64,
    /// What its owner calls it.
    pub name: String,
    /// What it allows.
    pub scope: Scope,
    /// Whose.
    pub user: String,
    /// When it was made.
    pub created_at: String,
    /// When it ends, if it does.
    pub expires_at: Option<String>,
    /// When it was last used, to the minute.
    pub last_used_at: Option<String>,
}

/// A token that was just made: the only time its text is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenMade {
    /// Its number.
    pub id: u64,
    /// What its owner calls it.
    pub name: String,
    /// What it allows.
    pub scope: Scope,
    /// Whose.
    pub user: String,
    /// When it was made.
    pub created_at: String,
    /// When it ends, if it does.
    pub expires_at: Option<String>,
    /// What to send as `Authorization: Bearer TOKEN`.
    pub token: String,
}

/// A browser signs in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignIn {
    /// A token.
    pub token: String,
}

/// Who the caller is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// The user.
    pub user: String,
    /// What they may do.
    pub scope: Scope,
    /// What to send as `X-Rota-CSRF` with every request that changes something; null for those who do not ask by cookie.
    pub csrf: Option<String>,
}
