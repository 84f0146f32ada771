//! Looking into a run directory without changing anything, for those who check a state directory beside a daemon.

use std::io;
use std::path::Path;

use crate::executor::RunIdentity;
use crate::local::run_directory::record::{self, ExitRecord};
use crate::local::run_directory::run_dir::{RunDir, SPEC, VOID, unseal};
use crate::local::run_directory::spec::RunSpec;
use crate::local::run_directory::taken;

/// A run directory as it is.
#[derive(Debug)]
pub struct Inspected {
    /// The identity of the run; `None` if nothing was asked for, or by a version without identities.
    pub identity: Option<RunIdentity>,
    /// How far the run has come.
    pub stage: Stage,
}

/// How far a run has come.
#[derive(Debug)]
pub enum Stage {
    /// No supervisor was asked for.
    Unused,
    /// A supervisor was asked for, and has not come or never will.
    NotTaken,
    /// The run's supervisor is alive.
    Running {
        /// The supervisor's process id.
        supervisor: u32,
    },
    /// The run has ended.
    Ended(Box<ExitRecord>),
    /// The supervisor is gone without a record.
    Gone,
}

/// Looks into a run directory. Changes nothing.
pub fn inspect(dir: &Path) -> io::Result<Inspected> {
    let dir = RunDir::open(dir)?;
    let spec = dir.read(SPEC)?;
    let identity = spec.as_deref().and_then(unseal::<RunSpec>).and_then(|spec| spec.identity);
    let stage = match taken::read(&dir)? {
        None if record::read(&dir)?.is_none() => {
            let is_used = spec.is_some() || dir.exists(VOID)?;
            return Ok(Inspected { identity, stage: if is_used { Stage::NotTaken } else { Stage::Unused } });
        }
        Some(Ok(taken)) if taken.supervisor.open()?.is_some() => Stage::Running { supervisor: taken.supervisor.pid },
        _ => Stage::Gone,
    };
    // A supervisor that is gone may have written its record since, and one that is alive may have written it just now.
    Ok(Inspected { identity, stage: record::read(&dir)?.map_or(stage, |record| Stage::Ended(Box::new(record))) })
}
