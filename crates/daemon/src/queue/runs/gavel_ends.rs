//! The end of a run with Gavel's iterator: what was done is read from what the processes told and from the logs they wrote.

use crate::lease::gavel_log;
use crate::machine::gavel_command::{checkpoint_dir, round_of};
use crate::machine::platform::{Outcome, Platform};
use crate::queue::world::LiveWorld;
use crate::store::record::JobRecord;
use rota_core::{End, StopCause};

/// What a run of a script with Gavel's iterator came to.
pub struct GavelRun {
    /// Steps done since the job's first start, over all processes, which the script has saved.
    pub step: u64,
    /// Whether there is nothing left to do.
    pub is_complete: bool,
    /// What the logs and the processes say differently.
    pub doubt: Option<String>,
}

impl<P: Platform> LiveWorld<P> {
    /// What a run came to that ended well; none for other jobs and other ends.
    pub(crate) fn gavel_run(&self, record: &JobRecord, outcome: &Outcome) -> Option<GavelRun> {
        let script = record.spec.ask.gavel.as_ref()?;
        let leases = self.leases.as_ref()?;
        let Outcome::Ended(exit) = outcome else { return None };
        // A script that uses our own iterator all the same says by its exit code whether it is done, and its commits say how far it is.
        if exit.code != Some(0) || record.cancel || !leases.counts_by_gavel(record.id) {
            return None;
        }
        let before = record.progress.step.unwrap_or(0);
        let told = leases.progress(record.id).map_or(0, |told| told.run_steps);
        let folder = checkpoint_dir(&leases.checkpoints().of(record.id), record.id);
        let logs = gavel_log::read(&folder, round_of(record), &record.gpu_indices);
        let logged = logs.iter().filter_map(|log| log.steps).collect::<Vec<_>>();
        let is_whole = !logged.is_empty() && logged.len() == record.gpu_indices.len();
        let sum = logged.iter().sum::<u64>();
        let doubt = (is_whole && sum < told)
            .then(|| format!("job {}: its log says {sum} steps and its processes told {told}; the lesser counts", record.id));
        let step = before + if is_whole { sum } else { told };
        let is_complete = step >= script.total_steps || logs.iter().any(|log| log.is_complete);
        Some(GavelRun { step, is_complete, doubt })
    }
}

/// How a run of a script with Gavel's iterator ended that saved its work and exited.
pub(crate) fn end_of_gavel_run(record: &JobRecord, run: &GavelRun) -> End {
    if run.is_complete {
        End::Finished
    } else if record.stop_cause == Some(StopCause::Preempt) {
        End::Preempted
    } else if run.step == record.progress.step.unwrap_or(0) {
        // It would be started again and again.
        End::Crashed
    } else {
        End::Evicted
    }
}
