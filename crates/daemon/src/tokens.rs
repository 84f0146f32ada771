//! Tokens: who may speak on the loopback port. Only their hashes are kept.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// What a token allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// To look.
    Read,
    /// To submit, and to touch the owner's jobs.
    Submit,
    /// Everything.
    Admin,
}

/// A token's rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Whose.
    pub uid: u32,
    /// What it allows.
    pub scope: Scope,
}

/// All tokens by their hashes.
#[derive(Default)]
pub struct Tokens(HashMap<[u8; 32], Token>);

impl Tokens {
    /// The daemon's own token, kept in a file that only its user may read.
    pub fn of_state_dir(dir: &Path, uid: u32) -> io::Result<Self> {
        let path = dir.join("token");
        let token = match std::fs::read_to_string(&path) {
            Ok(text) if !text.trim().is_empty() => text.trim().to_owned(),
            _ => {
                let token = random()?;
                let mut options = std::fs::OpenOptions::new();
                let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&path)?;
                io::Write::write_all(&mut file, format!("{token}\n").as_bytes())?;
                token
            }
        };
        Ok(Self(HashMap::from([(hash(&token), Token { uid, scope: Scope::Admin })])))
    }

    /// The rights of a token.
    pub fn find(&self, token: &str) -> Option<&Token> {
        self.0.get(&hash(token))
    }
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

fn random() -> io::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    let mut text = String::from("rota_");
    for byte in bytes {
        _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}
