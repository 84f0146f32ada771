//! Which job, and which user, each process on a GPU belongs to.

use crate::access::users;
use crate::api;
use std::collections::HashMap;

/// Says which job each process on a GPU belongs to, by its ancestors.
pub fn owners(processes: &[rota_gpu::Process], jobs: &HashMap<u32, u64>, names: &mut users::Names) -> Vec<api::GpuProcess> {
    let describe = |process: &rota_gpu::Process| {
        let mut pid = process.pid;
        let mut job = None;
        // A process table has no circles, but it changes while it is read.
        for _ in 0..64 {
            if let Some(&found) = jobs.get(&pid) {
                job = Some(found);
                break;
            }
            match rota_exec::parent_of(pid) {
                Some(parent) if parent > 1 => pid = parent,
                _ => break,
            }
        }
        let uid = users::owner_of_process(process.pid);
        api::GpuProcess {
            pid: process.pid,
            user: uid.map(|uid| names.name_of(uid)),
            name: std::fs::read_to_string(format!("/proc/{}/comm", process.pid)).ok().map(|name| name.trim_end().to_owned()),
            memory_mib: process.memory_mib,
            job,
        }
    };
    processes.iter().map(describe).collect()
}
