//! The command of a script with Gavel's iterator, with what Gavel's dispatcher would add to it.

use crate::api::GavelScript;
use crate::store::record::JobRecord;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The most processors that one GPU's process is bound to.
const CPUS_PER_GPU_MAX: usize = 8;

/// What the command depends on besides the job.
pub struct Surroundings<'a> {
    /// The program `rota`, which starts the processes of gangs.
    pub program: &'a Path,
    /// The job's folder for checkpoints.
    pub checkpoints: &'a Path,
    /// `numactl`, where it is there.
    pub numactl: Option<&'a Path>,
    /// Processors of the machine.
    pub cpus: usize,
    /// GPUs of the machine.
    pub gpus: usize,
}

/// Where the script keeps its checkpoints, below the job's folder.
pub fn checkpoint_dir(checkpoints: &Path, job: u64) -> PathBuf {
    checkpoints.join(format!("job_id={job}"))
}

/// The round that a run is said to be in: runs count from 0.
pub fn round_of(record: &JobRecord) -> u32 {
    record.attempts.saturating_sub(1)
}

/// The command of a run.
pub fn command(record: &JobRecord, script: &GavelScript, around: &Surroundings<'_>) -> Vec<OsString> {
    let mut words = record.command().iter().map(|word| with_data(word.to_os(), script)).collect::<Vec<_>>();
    let steps = script.total_steps.div_ceil(u64::from(record.spec.ask.gpus.max(1)));
    words.extend([OsString::from(&script.steps_arg), steps.to_string().into()]);
    words.push("--checkpoint_dir".into());
    words.push(checkpoint_dir(around.checkpoints, record.id).into());
    words.push("--enable_gavel_iterator".into());
    let first = record.gpu_indices.first().copied().unwrap_or(0);
    let bound = numa_words(around, first);
    if record.spec.ask.gpus <= 1 {
        words.extend(["--local_rank".into(), "0".into()]);
        return bound.into_iter().chain(words).collect();
    }
    // One process a GPU: each gets its own rank, and the port that all of them meet at.
    let workers = record.gpu_indices.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let launcher = [around.program.into(), "__gang".into(), "--workers".into(), workers.into(), "--".into()];
    bound.into_iter().chain(launcher).chain(words).collect()
}

/// The variables by which Gavel's iterator finds its scheduler. Each process of a gang gets a worker of its own from its launcher.
pub fn variables(record: &JobRecord, address: std::net::SocketAddr) -> Vec<(OsString, OsString)> {
    let worker = record.gpu_indices.first().copied().unwrap_or(0);
    vec![
        ("GAVEL_JOB_ID".into(), record.id.to_string().into()),
        ("GAVEL_WORKER_ID".into(), worker.to_string().into()),
        ("GAVEL_ROUND_ID".into(), round_of(record).to_string().into()),
        ("GAVEL_SCHED_ADDR".into(), address.ip().to_string().into()),
        ("GAVEL_SCHED_PORT".into(), address.port().to_string().into()),
    ]
}

/// Puts the folder with the data in the place of `%s`.
fn with_data(word: OsString, script: &GavelScript) -> OsString {
    let Some(data) = &script.data_dir else { return word };
    let bytes = word.as_bytes();
    let Some(at) = bytes.windows(2).position(|pair| pair == b"%s") else { return word };
    OsString::from_vec([&bytes[..at], &data.0, &bytes[at + 2..]].concat())
}

/// `numactl` with a block of processors for the GPU: a power of two, at most eight.
fn numa_words(around: &Surroundings<'_>, gpu: u32) -> Vec<OsString> {
    let Some(numactl) = around.numactl else { return Vec::new() };
    let share = (around.cpus / around.gpus.max(1)).clamp(1, CPUS_PER_GPU_MAX);
    let width = 1 << share.ilog2();
    let first = gpu as usize * width;
    if first + width > around.cpus {
        return Vec::new();
    }
    vec![numactl.into(), format!("--physcpubind={first}-{}", first + width - 1).into()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Submit;
    use crate::api::text::Text;
    use crate::store::journal::{Stamp, Submission};
    use crate::store::record::Spec;
    use std::sync::Arc;

    fn record(gpus: u32) -> JobRecord {
        let command = ["python3", "main.py", "--data=%s/x"].map(Text::from).to_vec();
        let gavel = GavelScript { total_steps: 101, steps_arg: "--num_steps".to_owned(), data_dir: Some(Text::from("/data")) };
        let ask = Submit { command: command.into(), gpus, gavel: Some(gavel), ..Submit::default() };
        let spec = Some(Arc::new(Spec { ask: Arc::new(ask), ..Spec::default() }));
        let request = Submission { uid: 0, user: "ada".to_owned(), gpus, env_id: 0, memory_mib: None, group: None, spec };
        let mut record = JobRecord::new(5, &request, Stamp { at: 0, wall_ns: 0 });
        record.gpu_indices = (1..=gpus).collect();
        record
    }

    fn words(record: &JobRecord, numactl: Option<&Path>) -> String {
        let around = Surroundings { program: Path::new("/bin/rota"), checkpoints: Path::new("/c"), numactl, cpus: 16, gpus: 4 };
        let script = record.spec.ask.gavel.clone().unwrap();
        let command = command(record, &script, &around);
        command.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_script_gets_what_the_dispatcher_appends() {
        let single = "python3 main.py --data=/data/x --num_steps 101 --checkpoint_dir /c/job_id=5 --enable_gavel_iterator";
        assert_eq!(words(&record(1), None), format!("{single} --local_rank 0"));
        let bound = format!("/n --physcpubind=4-7 {single} --local_rank 0");
        assert_eq!(words(&record(1), Some(Path::new("/n"))), bound);
        let gang = words(&record(2), None);
        assert!(gang.starts_with("/bin/rota __gang --workers 1,2 -- python3"), "{gang}");
        assert!(gang.contains("--num_steps 51"), "each process does its part: {gang}");
    }
}
