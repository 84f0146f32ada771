//! Links that sign a browser in once: what is kept of each is the hash of its code, and whose it is.

use crate::access::tokens::{Token, hash, secret};
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// How long a link can be used.
const LENGTH_NS: i64 = 600_000_000_000;
/// The most links there may be; the oldest goes for one more.
const LINKS_MAX: usize = 1000;

/// Links that were not used yet, by the hashes of their codes.
#[derive(Default)]
pub struct SignInLinks(Mutex<HashMap<[u8; 32], Link>>);

/// The token that a link signs in with, and the link's end.
type Link = (Arc<Token>, i64);

impl SignInLinks {
    /// Makes a link; gives its code and its end.
    pub fn make(&self, token: Arc<Token>, now_ns: i64) -> io::Result<(String, i64)> {
        let (code, ends_ns) = (secret("")?, now_ns + LENGTH_NS);
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|_, (_, ends_ns)| *ends_ns > now_ns);
        if links.len() >= LINKS_MAX
            && let Some(oldest) = links.iter().min_by_key(|(_, (_, ends_ns))| *ends_ns).map(|(key, _)| *key)
        {
            links.remove(&oldest);
        }
        links.insert(hash(&code), (token, ends_ns));
        Ok((code, ends_ns))
    }

    /// Uses a link up; gives its token.
    pub fn take(&self, code: &str, now_ns: i64) -> Option<Arc<Token>> {
        let (token, ends_ns) = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&hash(code))?;
        (ends_ns > now_ns).then_some(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::tokens::Scope;

    #[test]
    fn a_link_is_good_once_and_not_for_long() {
        let links = SignInLinks::default();
        let token = Arc::new(Token::mint(5, "ann".to_owned(), "t".to_owned(), Scope::Submit, (0, None)).unwrap().0);
        let (code, ends_ns) = links.make(Arc::clone(&token), 100).unwrap();
        assert!(links.take("wrong", 200).is_none());
        assert!(links.take(&code, 200).is_some() && links.take(&code, 200).is_none());
        let (late, _) = links.make(token, 100).unwrap();
        assert!(links.take(&late, ends_ns).is_none());
    }
}
