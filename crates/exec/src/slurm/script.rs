//! The batch script of an allocation: it starts one worker on each node.
//!
//! The allocation's number is taken by one exclusive file, so that of two Slurm jobs with one number only the first has workers.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// What the script of an allocation needs to know.
#[derive(Clone, Debug)]
pub struct Script {
    /// The number of the allocation.
    pub number: u64,
    /// The folder of this and the other scripts, seen by all nodes under this path.
    pub folder: PathBuf,
    /// The program `rota`.
    pub program: PathBuf,
    /// Where the workers find the daemon: `HOST:PORT`.
    pub address: String,
    /// The file with the token of the workers.
    pub token_file: PathBuf,
    /// What `--gres` says for a node, as `gpu:v100:2`.
    pub gres: String,
    /// The type of the GPUs in Slurm's word.
    pub gpu_type: Option<String>,
    /// The GPUs to invent in place of real ones, as `v100:2`.
    pub virtual_gpus: Option<String>,
}

impl Script {
    /// The path of the script.
    pub fn path(&self) -> PathBuf {
        self.folder.join(format!("a{}.sh", self.number))
    }

    /// The file that the first Slurm job of this number makes.
    pub fn taken_path(folder: &Path, number: u64) -> PathBuf {
        folder.join(format!("a{number}.taken"))
    }

    /// The file that the script makes when Slurm says that the allocation will end.
    pub fn notice_path(folder: &Path, number: u64) -> PathBuf {
        folder.join(format!("a{number}.notice"))
    }

    /// The file by which the daemon says that it has ended for good.
    pub fn down_path(folder: &Path) -> PathBuf {
        folder.join("down")
    }

    /// The name of the worker on a node.
    pub fn worker_name(node: &str, number: u64) -> String {
        format!("{node}.a{number}")
    }

    /// The text of the script.
    pub fn text(&self) -> String {
        let number = self.number;
        let taken = quoted(&Self::taken_path(&self.folder, number).to_string_lossy());
        let notice = quoted(&Self::notice_path(&self.folder, number).to_string_lossy());
        let down = quoted(&Self::down_path(&self.folder).to_string_lossy());
        let script = quoted(&self.path().to_string_lossy());
        let folder = quoted(&self.folder.to_string_lossy());
        let program = quoted(&self.program.to_string_lossy());
        let (address, token_file) = (quoted(&self.address), quoted(&self.token_file.to_string_lossy()));
        let gpus = self.virtual_gpus.as_ref().map_or_else(
            || "${CUDA_VISIBLE_DEVICES:+--gpus \"$CUDA_VISIBLE_DEVICES\"}".to_owned(),
            |spec| format!("--virtual-gpus {}", quoted(spec)),
        );
        let kind = self.gpu_type.as_ref().map_or_else(String::new, |kind| format!(" --gpu-type {}", quoted(kind)));
        let gpus = format!("{gpus}{kind}");
        let gres = quoted(&self.gres);
        let mut text = String::new();
        // Memory takes everything.
        _ = write!(
            text,
            "#!/bin/sh
# Allocation {number} of a queue of Rota. It is ended by scancel.
if [ \"$1\" = worker ]; then
  name=\"$SLURMD_NODENAME.a{number}\"
  # The signals of Slurm are for the worker. This shell must not end before it.
  trap : TERM
  # A worker that was killed is started again: its jobs run on, and it finds them.
  while :; do
    {program} worker --allocation --down-file {down} --join {address} --token-file {token_file} --name \"$name\" --state {folder}/\"$name\" {gpus}
    status=$?
    [ $status -gt 128 ] || exit $status
    sleep 1
  done
fi
# Slurm sends TERM before the time limit, and before it takes the nodes for another job.
noticed() {{ echo \"$SLURM_JOB_ID\" > {notice}; }}
trap noticed TERM
if ! (set -C; echo \"$SLURM_JOB_ID\" > {taken}) 2>/dev/null; then
  if [ \"$(cat {taken} 2>/dev/null)\" != \"$SLURM_JOB_ID\" ]; then
    echo \"allocation {number} is taken by another job, or its folder cannot be written\" >&2
    scancel \"$SLURM_JOB_ID\"
    exit 1
  fi
fi
if [ \"$SLURM_JOB_NUM_NODES\" = 1 ]; then
  sh {script} worker &
else
  srun --overlap --nodes=\"$SLURM_JOB_NUM_NODES\" --ntasks=\"$SLURM_JOB_NUM_NODES\" --ntasks-per-node=1 --gres={gres} \\
    --kill-on-bad-exit=0 --mpi=none sh {script} worker &
fi
workers=$!
# A signal ends a wait, and not the workers.
while kill -0 \"$workers\" 2>/dev/null; do wait \"$workers\"; done
scancel \"$SLURM_JOB_ID\"
"
        );
        text
    }
}

/// The comment by which an allocation of a queue is found again in Slurm.
pub fn comment_of(state: &str, number: u64) -> String {
    format!("rota:{state}:{number}")
}

/// The number of the allocation that a comment names, if it is one of this queue.
pub fn number_of(comment: &str, state: &str) -> Option<u64> {
    comment.strip_prefix("rota:")?.strip_prefix(state)?.strip_prefix(':')?.parse().ok()
}

/// A word of a shell command, whatever is in it.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn script(folder: &Path) -> Script {
        Script {
            number: 3,
            folder: folder.to_owned(),
            program: folder.join("rota"),
            address: "127.0.0.1:7".to_owned(),
            token_file: folder.join("token"),
            gres: "gpu:v100:2".to_owned(),
            gpu_type: Some("v100".to_owned()),
            virtual_gpus: None,
        }
    }

    /// Runs the script with stand-ins for `rota` and `scancel`, as Slurm's job of this number.
    fn run(folder: &Path, job: &str) -> String {
        use std::os::unix::fs::PermissionsExt;
        let script = script(folder);
        std::fs::write(script.path(), script.text()).unwrap();
        for (name, text) in [("rota", "#!/bin/sh\necho rota \"$@\"\n"), ("scancel", "#!/bin/sh\necho scancel \"$@\"\n")] {
            std::fs::write(folder.join(name), text).unwrap();
            std::fs::set_permissions(folder.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        let variables =
            [("SLURM_JOB_ID", job), ("SLURM_JOB_NUM_NODES", "1"), ("SLURMD_NODENAME", "v1"), ("CUDA_VISIBLE_DEVICES", "2,3")];
        let done = Command::new("sh").arg(script.path()).envs(variables).env("PATH", path).output().unwrap();
        String::from_utf8(done.stdout).unwrap()
    }

    #[test]
    fn of_two_jobs_of_one_number_the_first_has_workers() {
        let folder = tempfile::Builder::new().prefix("a folder's").tempdir().unwrap();
        let told = run(folder.path(), "11");
        assert!(told.contains("--name v1.a3") && told.contains("--gpus 2,3 --gpu-type v100"), "{told}");
        assert!(told.ends_with("scancel 11\n"), "{told}");
        assert_eq!(run(folder.path(), "12"), "scancel 12\n");
        // The same job again, as after an administrator's requeue.
        assert!(run(folder.path(), "11").contains("rota worker"));
    }

    #[test]
    fn comments_name_the_queue_and_the_number() {
        assert_eq!(comment_of("ab12", 7), "rota:ab12:7");
        assert_eq!(number_of("rota:ab12:7", "ab12"), Some(7));
        for comment in ["rota:ab1:7", "rota:ab123:7", "rota:ab12:x", "(null)", "", "rota:ab12"] {
            assert_eq!(number_of(comment, "ab12"), None, "{comment}");
        }
    }
}
