//! The secrets of runs. A token is made from the job's number, the number of its lease and a key of this queue, so that it holds over a
//! restart of the daemon without being written down for each run.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The run that a token is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseHolder {
    /// The job's number.
    pub job: u64,
    /// The number of its lease: the attempt, counted from 1.
    pub lease: u32,
}

/// The key that all tokens of this queue are made with.
#[derive(Clone)]
pub struct LeaseKey([u8; 32]);

impl LeaseKey {
    /// The key of a state directory, made if there is none.
    pub fn of(state_dir: &Path) -> io::Result<Self> {
        let path = state_dir.join("lease-key");
        let mut key = [0; 32];
        match std::fs::File::open(&path) {
            Ok(mut file) => file.read_exact(&mut key)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                getrandom::fill(&mut key).map_err(io::Error::other)?;
                let draft = state_dir.join("lease-key.new");
                let mut file = std::fs::File::options().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
                file.write_all(&key)?;
                file.sync_all()?;
                std::fs::rename(&draft, &path)?;
            }
            Err(error) => return Err(error),
        }
        Ok(Self(key))
    }

    /// The token of a run.
    pub fn token(&self, holder: LeaseHolder) -> String {
        let mut token = format!("{}.{}.", holder.job, holder.lease);
        for byte in self.sign(holder).map(|mac| mac.finalize().into_bytes()).unwrap_or_default() {
            _ = write!(token, "{byte:02x}");
        }
        token
    }

    /// The run that a token was made for; none if it is not one of this queue's.
    pub fn holder(&self, token: &str) -> Option<LeaseHolder> {
        let mut parts = token.splitn(3, '.');
        let holder = LeaseHolder { job: parts.next()?.parse().ok()?, lease: parts.next()?.parse().ok()? };
        let text = parts.next()?;
        let digits = text.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        let given = digits.collect::<Option<Vec<_>>>()?;
        self.sign(holder)?.verify_slice(&given).is_ok().then_some(holder)
    }

    fn sign(&self, holder: LeaseHolder) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        mac.update(format!("{}.{}", holder.job, holder.lease).as_bytes());
        Some(mac)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_its_own_run_and_in_its_own_queue_only() {
        let folder = tempfile::tempdir().unwrap();
        let key = LeaseKey::of(folder.path()).unwrap();
        let holder = LeaseHolder { job: 17, lease: 3 };
        let token = key.token(holder);
        assert_eq!(key.holder(&token), Some(holder));
        assert_eq!(LeaseKey::of(folder.path()).unwrap().holder(&token), Some(holder), "a restarted daemon knows it");
        assert_eq!(key.holder(&token.replacen("17", "18", 1)), None);
        for wrong in ["", "17", "17.3", "17.3.", "17.3.zz", "17.3.é", &token[..token.len() - 2]] {
            assert_eq!(key.holder(wrong), None, "{wrong}");
        }
        let other = LeaseKey::of(tempfile::tempdir().unwrap().path()).unwrap();
        assert_eq!(other.holder(&token), None);
    }
}
