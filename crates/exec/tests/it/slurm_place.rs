//! Workers as jobs of a Slurm of the tests' own.

use std::cell::RefCell;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};

use rota_exec::{JoinToken, WorkerSettings};
use rota_gpu::Devices;

use crate::worker_place::{settings_of, virtual_gpus};

/// The test that is a worker where Slurm runs it.
const WORKER_TEST: &str = "slurm_place::a_worker_in_an_allocation";

/// The settings of the cluster that this process has started. It ends with the process, whose end it hears of by its standard input.
static CLUSTER: OnceLock<String> = OnceLock::new();

/// Jobs of Slurm that are workers. They are cancelled with it.
#[derive(Default)]
pub struct SlurmPlace {
    jobs: RefCell<Vec<String>>,
}

/// Whether Slurm's programs are installed here.
pub fn is_installed() -> bool {
    let finds = |program: &str| ["/usr/bin", "/usr/sbin"].iter().any(|folder| Path::new(folder).join(program).exists());
    ["slurmctld", "slurmd", "munged", "sbatch", "scancel"].into_iter().all(finds)
}

fn cluster() -> &'static str {
    CLUSTER.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/slurm/cluster.py");
        let mut command = Command::new("python3");
        command.arg(script).args(["--", "sh", "-c", "echo $SLURM_CONF; exec cat"]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("slurm.conf"), "no Slurm could be started: {line}");
        std::mem::forget(process);
        line.trim().to_owned()
    })
}

impl SlurmPlace {
    /// Starts a worker as a job of Slurm.
    pub fn start_worker(&self, name: &str, address: SocketAddr, token_file: &Path, state_dir: &Path) {
        let program = std::env::current_exe().unwrap();
        let script = format!("exec {} --ignored --exact {WORKER_TEST}", program.display());
        let mut sbatch = Command::new("sbatch");
        sbatch.args(["--parsable", "--no-requeue", "--gres=gpu:2", "-o", "/dev/null", "--wrap", &script]);
        sbatch.env("SLURM_CONF", cluster()).env("ROTA_TEST_NAME", name).env("ROTA_TEST_STATE", state_dir);
        sbatch.env("ROTA_TEST_ADDRESS", address.to_string()).env("ROTA_TEST_TOKEN", token_file);
        let answer = sbatch.output().unwrap();
        assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
        self.jobs.borrow_mut().push(String::from_utf8(answer.stdout).unwrap().trim().to_owned());
    }
}

impl Drop for SlurmPlace {
    fn drop(&mut self) {
        // What is left ends with the cluster.
        _ = Command::new("scancel").args(self.jobs.borrow().iter()).env("SLURM_CONF", cluster()).status();
    }
}

#[test]
#[ignore = "a job of Slurm that the contract suite starts"]
fn a_worker_in_an_allocation() {
    let told = |name: &str| std::env::var(format!("ROTA_TEST_{name}"));
    let (Ok(name), Ok(address), Ok(token), Ok(state)) = (told("NAME"), told("ADDRESS"), told("TOKEN"), told("STATE")) else {
        return;
    };
    let devices = Arc::new(Mutex::new(virtual_gpus(&name).list().unwrap()));
    let token = JoinToken::read(Path::new(&token)).unwrap();
    let settings = settings_of(&name, address.parse().unwrap(), token, state.into(), devices);
    rota_exec::work(WorkerSettings { is_in_allocation: true, ..settings }).unwrap();
}
