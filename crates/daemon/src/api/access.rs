//! Tokens and sessions, as they go over the wire.

pub use crate::access::tokens::Scope;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A token that is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenAsk {
    /// What to call it: 1 to 100 characters, not only digits, and none of its owner's other tokens has it.
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
    /// What the token allows.
    pub scope: Scope,
    /// The token's owner; the caller if not given. Only administrators name others.
    #[serde(default)]
    pub user: Option<String>,
    /// The token's lifetime; for ever if not given.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 3_000_000_000_u64)]
    pub expires_in_seconds: Option<u64>,
}

/// A token, without its text, which is not kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// The token's number.
    pub id: u64,
    /// The name that the owner gave the token.
    pub name: String,
    /// What the token allows.
    pub scope: Scope,
    /// The token's owner.
    pub user: String,
    /// The moment the token was made, RFC 3339.
    pub created_at: String,
    /// The moment the token ends, RFC 3339; null if never.
    pub expires_at: Option<String>,
    /// The moment the token was last used, to the minute.
    pub last_used_at: Option<String>,
}

/// A token that was just made: the only time its text is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenMade {
    /// The token's number.
    pub id: u64,
    /// The name that the owner gave the token.
    pub name: String,
    /// What the token allows.
    pub scope: Scope,
    /// The token's owner.
    pub user: String,
    /// The moment the token was made, RFC 3339.
    pub created_at: String,
    /// The moment the token ends, RFC 3339; null if never.
    pub expires_at: Option<String>,
    /// What to send as `Authorization: Bearer TOKEN`.
    pub token: String,
}

/// A browser signs in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignIn {
    /// The token to sign in with.
    pub token: String,
}

/// A link that signs a browser in once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignInLink {
    /// The link's path on the daemon's port.
    pub path: String,
    /// The moment the link ends, RFC 3339, if it is not used before.
    pub expires_at: String,
}

/// The caller of this request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// The user who is signed in.
    pub user: String,
    /// What the caller may do.
    pub scope: Scope,
    /// What to send as `X-Rota-CSRF` with every request that changes something; null for callers without a cookie.
    pub csrf: Option<String>,
}
