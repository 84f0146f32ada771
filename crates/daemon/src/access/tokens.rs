//! Tokens: a caller on the port needs one. Only their hashes are kept; what is written down is in memory, too, so that a request costs no
//! look at the disk, and a token that is revoked stops working with the write that says so.

use crate::machine::platform::{Platform, Refusal, RefusalKind};
use crate::queue::world::LiveWorld;
use crate::store::{Store, StoreError, Writer};
use rusqlite::params;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::watch;
use utoipa::ToSchema;

/// The number of the daemon's own token, which is kept in a file and not in the store.
pub const OWN: u64 = 0;
/// The most tokens one user may have.
const TOKENS_MAX: usize = 1000;
/// How exactly it is written down when a token was last used.
const USED_EVERY_NS: i64 = 60_000_000_000;

/// What a token allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The holder may join `rota worker`s to the queue, and do nothing else.
    Worker,
    /// The holder may read everything and change nothing.
    Read,
    /// The holder may submit jobs, and change the owner's jobs.
    Submit,
    /// Everything its owner may do, which is everything for an administrator.
    Admin,
}

impl Scope {
    /// All scopes, by name.
    pub const ALL: [(&'static str, Self); 4] =
        [("worker", Self::Worker), ("read", Self::Read), ("submit", Self::Submit), ("admin", Self::Admin)];

    /// The scope's name.
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(_, scope)| *scope == self).map_or("", |(word, _)| word)
    }

    fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == word).map(|(_, scope)| *scope)
    }
}

/// A token: its owner, and what it allows.
#[derive(Debug)]
pub struct Token {
    /// The token's number, never used again.
    pub id: u64,
    /// The SHA-256 hash of the token.
    pub hash: [u8; 32],
    /// The user id of the token's owner.
    pub uid: u32,
    /// The owner's name.
    pub user: String,
    /// The name that the owner gave the token.
    pub name: String,
    /// What the token allows.
    pub scope: Scope,
    /// The moment the token was made, in nanoseconds since 1970.
    pub created_ns: i64,
    /// The moment the token ends, in nanoseconds since 1970.
    pub expires_ns: Option<i64>,
    used_ns: AtomicI64,
}

impl Token {
    /// A token that is not written down yet, and what is to be shown to its owner, once.
    pub fn mint(uid: u32, user: String, name: String, scope: Scope, lifetime: (i64, Option<i64>)) -> io::Result<(Self, String)> {
        let secret = secret("rota_")?;
        let (created_ns, expires_ns) = lifetime;
        let used_ns = AtomicI64::new(0);
        Ok((Self { id: OWN, hash: hash(&secret), uid, user, name, scope, created_ns, expires_ns, used_ns }, secret))
    }

    /// Whether its time is over.
    pub fn is_expired(&self, now_ns: i64) -> bool {
        self.expires_ns.is_some_and(|expires_ns| expires_ns <= now_ns)
    }

    /// The moment the token was last used, to the minute.
    pub fn used_ns(&self) -> Option<i64> {
        Some(self.used_ns.load(Ordering::Relaxed)).filter(|used_ns| *used_ns > 0)
    }

    /// Notes that it is used now; says whether that is worth writing down.
    pub fn note_use(&self, now_ns: i64) -> bool {
        let before = self.used_ns.load(Ordering::Relaxed);
        let is_news = self.id != OWN && now_ns - before >= USED_EVERY_NS;
        is_news && self.used_ns.compare_exchange(before, now_ns, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// All tokens by their hashes. The time that a search takes tells nothing about a token, because only its hash is compared.
pub struct Tokens {
    known: RwLock<HashMap<[u8; 32], Arc<Token>>>,
    changes: watch::Sender<()>,
}

impl Default for Tokens {
    fn default() -> Self {
        Self { known: RwLock::default(), changes: watch::Sender::new(()) }
    }
}

impl Tokens {
    /// The token with this text, if it lets a caller in at this moment. A worker's token does not.
    pub fn find(&self, token: &str, now_ns: i64) -> Option<Arc<Token>> {
        self.good(token, now_ns).filter(|token| token.scope != Scope::Worker)
    }

    /// Whether workers may join by this token at this moment.
    pub fn admits_worker(&self, token: &str, now_ns: i64) -> bool {
        let token = self.good(token, now_ns).filter(|token| token.scope == Scope::Worker);
        token.inspect(|token| _ = token.note_use(now_ns)).is_some()
    }

    fn good(&self, token: &str, now_ns: i64) -> Option<Arc<Token>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.get(&hash(token)).filter(|token| !token.is_expired(now_ns)).cloned()
    }

    /// The token of a hash.
    pub fn by_hash(&self, hash: &[u8; 32]) -> Option<Arc<Token>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(hash).cloned()
    }

    /// Whether a token is still worth something.
    pub fn is_good(&self, token: &Token, now_ns: i64) -> bool {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.contains_key(&token.hash) && !token.is_expired(now_ns)
    }

    /// All that are written down, by number.
    pub fn all(&self) -> Vec<Arc<Token>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut all = known.values().filter(|token| token.id != OWN).cloned().collect::<Vec<_>>();
        all.sort_by_key(|token| token.id);
        all
    }

    /// Tells when tokens come or go.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Tells open connections that the tokens changed, so that they check theirs again.
    pub fn announce(&self) {
        self.changes.send_replace(());
    }

    /// Takes in the daemon's own token, kept in a file that only its user may read.
    pub fn take_own(&self, dir: &Path, uid: u32) -> io::Result<()> {
        let path = dir.join("token");
        let text = match std::fs::read_to_string(&path) {
            Ok(text) if !text.trim().is_empty() => text.trim().to_owned(),
            _ => {
                let text = secret("rota_")?;
                let mut options = std::fs::OpenOptions::new();
                let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&path)?;
                io::Write::write_all(&mut file, format!("{text}\n").as_bytes())?;
                text
            }
        };
        let user = crate::access::users::name_of(uid);
        let (hash, name, scope) = (hash(&text), "the daemon's own".to_owned(), Scope::Admin);
        let token = Token { id: OWN, hash, uid, user, name, scope, created_ns: 0, expires_ns: None, used_ns: AtomicI64::new(0) };
        self.insert(token);
        Ok(())
    }

    /// Takes one in.
    pub fn insert(&self, token: Token) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).insert(token.hash, Arc::new(token));
        self.announce();
    }

    fn remove(&self, id: u64) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).retain(|_, token| token.id != id);
        self.announce();
    }
}

/// A change of the tokens.
pub enum TokenChange {
    /// A new one.
    Create(Box<Token>),
    /// The token with this number is revoked.
    Revoke(u64),
    /// The token was used at this moment.
    Used(u64, i64),
}

impl<P: Platform> LiveWorld<P> {
    /// Changes tokens on the disk, then in memory; gives the number of the one it is about.
    pub(crate) fn change_tokens(&mut self, change: TokenChange) -> Result<u64, Refusal> {
        let tokens = &self.board.tokens;
        if let TokenChange::Create(token) = &change {
            let own = tokens.all().into_iter().filter(|known| known.uid == token.uid).collect::<Vec<_>>();
            if own.iter().any(|known| known.name == token.name) {
                let message = format!("{} has a token `{}` already: choose another name, or revoke it", token.user, token.name);
                return Err(Refusal::new(RefusalKind::Conflict, message));
            }
            if own.len() >= TOKENS_MAX {
                let message = format!("{} has {TOKENS_MAX} tokens already: revoke some", token.user);
                return Err(Refusal::new(RefusalKind::TooMany, message));
            }
        }
        let outcome = self.journal.store.transaction(|writer| writer.change_token(&change));
        self.note_store(&outcome);
        let id = outcome.map_err(|error| Refusal::new(RefusalKind::Unavailable, error.to_string()))?;
        match change {
            TokenChange::Create(token) => self.board.tokens.insert(Token { id, ..*token }),
            TokenChange::Revoke(id) => self.board.tokens.remove(id),
            TokenChange::Used(..) => {}
        }
        Ok(id)
    }
}

impl Writer<'_> {
    fn change_token(&mut self, change: &TokenChange) -> rusqlite::Result<u64> {
        match change {
            TokenChange::Create(token) => {
                self.connection().execute(
                    "INSERT INTO tokens (hash, uid, user, name, scope, created_ns, expires_ns) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                    params![
                        token.hash.as_slice(),
                        token.uid,
                        token.user,
                        token.name,
                        token.scope.word(),
                        token.created_ns,
                        token.expires_ns
                    ],
                )?;
                Ok(self.connection().last_insert_rowid().cast_unsigned())
            }
            TokenChange::Revoke(id) => self.connection().execute("DELETE FROM tokens WHERE id = ?1", [id]).map(|_| *id),
            TokenChange::Used(id, at_ns) => {
                self.connection().execute("UPDATE tokens SET used_ns = ?2 WHERE id = ?1", params![id, at_ns]).map(|_| *id)
            }
        }
    }
}

impl Store {
    /// Every token that is written down.
    pub fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        self.read(|connection| {
            let row = |row: &rusqlite::Row<'_>| {
                let (hash, word): (Vec<u8>, String) = (row.get(1)?, row.get(5)?);
                let unknown = |column, word| rusqlite::Error::InvalidColumnType(column, word, rusqlite::types::Type::Text);
                Ok(Token {
                    id: row.get(0)?,
                    hash: hash.try_into().map_err(|_| unknown(1, "hash".to_owned()))?,
                    uid: row.get(2)?,
                    user: row.get(3)?,
                    name: row.get(4)?,
                    scope: Scope::from_word(&word).ok_or_else(|| unknown(5, word))?,
                    created_ns: row.get(6)?,
                    expires_ns: row.get(7)?,
                    used_ns: AtomicI64::new(row.get::<_, Option<i64>>(8)?.unwrap_or(0)),
                })
            };
            let sql = "SELECT id, hash, uid, user, name, scope, created_ns, expires_ns, used_ns FROM tokens";
            connection.prepare(sql)?.query_map([], row)?.collect()
        })
    }
}

/// The hash of a secret, which is all that is kept of it.
pub fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// 256 random bits from the system, as text.
pub fn secret(prefix: &str) -> io::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    let mut text = prefix.to_owned();
    for byte in bytes {
        _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_until_its_moment_and_while_it_is_known() {
        let tokens = Tokens::default();
        let (token, text) = Token::mint(1, "ada".to_owned(), "mine".to_owned(), Scope::Read, (5, Some(10))).unwrap();
        tokens.insert(Token { id: 7, ..token });
        assert!(text.starts_with("rota_") && text.len() == 69, "{text}");
        let found = tokens.find(&text, 9).unwrap();
        assert!(tokens.is_good(&found, 9) && !tokens.is_good(&found, 10));
        assert!(tokens.find(&text, 10).is_none() && tokens.find("rota_", 0).is_none());
        tokens.remove(7);
        assert!(!tokens.is_good(&found, 0) && tokens.find(&text, 0).is_none());
    }

    #[test]
    fn a_workers_token_joins_workers_and_lets_no_caller_in() {
        let tokens = Tokens::default();
        let mint = |scope| Token::mint(0, "root".to_owned(), "berta".to_owned(), scope, (5, Some(10))).unwrap();
        let ((worker, secret), (admin, other)) = (mint(Scope::Worker), mint(Scope::Admin));
        tokens.insert(Token { id: 1, ..worker });
        tokens.insert(Token { id: 2, ..admin });
        assert!(tokens.admits_worker(&secret, 9) && !tokens.admits_worker(&secret, 10), "until its moment");
        assert!(tokens.find(&secret, 9).is_none());
        assert!(tokens.find(&other, 9).is_some() && !tokens.admits_worker(&other, 9), "a caller's token joins no worker");
        tokens.remove(1);
        assert!(!tokens.admits_worker(&secret, 9));
    }

    #[test]
    fn its_use_is_written_down_once_a_minute() {
        let (token, _) = Token::mint(1, "ada".to_owned(), "mine".to_owned(), Scope::Read, (0, None)).unwrap();
        let token = Token { id: 7, ..token };
        let minute = USED_EVERY_NS;
        assert_eq!([minute, minute + 1, 2 * minute - 1, 2 * minute].map(|at| token.note_use(at)), [true, false, false, true]);
        assert_eq!(token.used_ns(), Some(2 * minute));
    }
}
