//! Users of this machine, from the directory that the system uses: names of user ids, groups of users.

use nix::unistd::{Gid, Uid, User, getgrouplist};
use std::collections::HashMap;
use std::ffi::CString;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Names of user ids, looked up once.
#[derive(Default)]
pub struct Names(HashMap<u32, String>);

impl Names {
    /// The name of a user, or the number where it has none.
    pub fn name_of(&mut self, uid: u32) -> String {
        self.0.entry(uid).or_insert_with(|| name_of(uid)).clone()
    }
}

/// The name of a user, or `uid N` where it has none.
pub fn name_of(uid: u32) -> String {
    let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    user.map_or_else(|| format!("uid {uid}"), |user| user.name)
}

/// The id of a user.
pub fn find(name: &str) -> Option<u32> {
    User::from_name(name).ok().flatten().map(|user| user.uid.as_raw())
}

/// All groups of a user who acts with a group: also the one they log in with.
pub fn groups_of(name: &str, gid: u32) -> Vec<u32> {
    let groups = CString::new(name).ok().and_then(|name| getgrouplist(&name, Gid::from_raw(gid)).ok());
    let mut groups = groups.map_or_else(|| vec![gid], |groups| groups.into_iter().map(Gid::as_raw).collect());
    let login = User::from_name(name).ok().flatten().map(|user| user.gid.as_raw());
    groups.extend(login.filter(|login| !groups.contains(login)));
    groups
}

/// The user id of a process's owner.
pub fn owner_of_process(pid: u32) -> Option<u32> {
    std::fs::metadata(format!("/proc/{pid}")).ok().map(|meta| meta.uid())
}

/// Users by their ids, looked up at most once a minute: the directory may be far away, and every request asks.
#[derive(Default)]
pub struct Directory(Mutex<HashMap<u32, (Instant, String, u32)>>);

impl Directory {
    /// The name and the group of a user.
    pub fn find(&self, uid: u32) -> (String, u32) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, name, gid)) = known.get(&uid)
            && since.elapsed() < Duration::from_mins(1)
        {
            return (name.clone(), *gid);
        }
        let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
        let (name, gid) = user.map_or_else(|| (format!("uid {uid}"), uid), |user| (user.name, user.gid.as_raw()));
        known.insert(uid, (Instant::now(), name.clone(), gid));
        (name, gid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_login_group_stays_under_another_group() {
        let root = groups_of("root", 12345);
        assert!(root.contains(&0) && root.contains(&12345), "{root:?}");
        assert_eq!(groups_of("nobody-has-this-name", 7), [7]);
    }
}
