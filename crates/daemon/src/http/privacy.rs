//! Privacy between users, where `users.private` is set: users see that another user's job is there, its owner and what it takes. They do
//! not see what its owner wrote: name, command, folder, class, reasons. Administrators see everything.

use super::Site;
use crate::api;
use crate::machine::platform::Caller;
use crate::store::record::JobRecord;
use std::sync::Arc;

/// The jobs whose details a caller may see.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Viewer {
    /// The details of all jobs.
    #[default]
    All,
    /// The details of the caller's own jobs.
    Own {
        /// The caller's user id.
        uid: u32,
        /// The caller's name, by which processes and runs of the past are known.
        user: String,
    },
}

impl Viewer {
    /// The jobs that a caller may see, where users have privacy or have none.
    pub fn of(caller: &Caller, is_private: bool) -> Self {
        if is_private && !caller.is_admin { Self::Own { uid: caller.uid, user: caller.user.clone() } } else { Self::All }
    }

    /// Whether the viewer sees the details of everybody's jobs.
    pub fn sees_all(&self) -> bool {
        *self == Self::All
    }

    /// Whether the viewer sees the details of this user's jobs.
    pub fn sees(&self, owner: u32) -> bool {
        match self {
            Self::All => true,
            Self::Own { uid, .. } => *uid == owner,
        }
    }

    /// The same for a user who is known by name.
    pub fn sees_user(&self, owner: Option<&str>) -> bool {
        match self {
            Self::All => true,
            Self::Own { user, .. } => owner == Some(user),
        }
    }

    /// A job of a record, with what the viewer may see of it.
    pub fn job(&self, record: &JobRecord, job: api::Job) -> api::Job {
        if self.sees(record.uid) {
            return job;
        }
        api::Job {
            name: None,
            reason: None,
            command: Vec::new(),
            cwd: "".into(),
            profile: None,
            job_type: None,
            log_path: None,
            params: std::collections::BTreeMap::new(),
            ..job
        }
    }

    /// What was asked for a job of a record, with what the viewer may see of it.
    pub fn ask(&self, record: &JobRecord, ask: api::Submit) -> api::Submit {
        if self.sees(record.uid) {
            return ask;
        }
        api::Submit {
            command: Arc::default(),
            cwd: "".into(),
            env: Arc::default(),
            profile_as: None,
            number_argument: None,
            job_type: None,
            name: None,
            group_name: None,
            key: None,
            resume_arg: None,
            gavel: None,
            params: Vec::new(),
            ..ask
        }
    }

    /// A group of a user, with what the viewer may see of it.
    pub fn group(&self, owner: u32, group: api::Group) -> api::Group {
        if self.sees(owner) { group } else { api::Group { name: String::new(), params: Vec::new(), ..group } }
    }

    /// A member of a user's group, with what the viewer may see of it.
    pub fn member(&self, owner: u32, member: api::GroupMember) -> api::GroupMember {
        if self.sees(owner) {
            member
        } else {
            api::GroupMember { name: None, params: std::collections::BTreeMap::new(), ..member }
        }
    }

    /// The GPUs, without the names of the programs of others.
    pub fn gpus(&self, mut gpus: Vec<api::Gpu>) -> Vec<api::Gpu> {
        for process in gpus.iter_mut().flat_map(|gpu| &mut gpu.processes) {
            if !self.sees_user(process.user.as_deref()) {
                process.name = None;
            }
        }
        gpus
    }
}

impl Site {
    /// The jobs whose details a caller may see.
    pub(crate) fn viewer(&self, caller: &Caller) -> Viewer {
        Viewer::of(caller, self.settings.is_private)
    }
}
