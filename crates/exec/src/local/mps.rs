//! Runs that share a GPU through MPS. Everything about MPS waits for NVIDIA's control program, up to seconds, so a thread of its own does
//! it. One piece of work after another: a GPU is never made ready for sharing and taken back at the same time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use rota_gpu::{ComputeModes, Mps, Recovery};

use crate::executor::{DeviceKey, ExecutorEvent, RunEnd, RunKey, RunRequest, Stop};
use crate::local::environment::first_device;
use crate::local::executor::{Launched, Shared};
use crate::local::processes::leftovers::job_processes;

/// How often a control daemon that does not end is asked again.
const END_AGAIN: Duration = Duration::from_secs(1);

/// Something to be done about a run under MPS.
pub(crate) enum Work {
    /// Start MPS on the run's GPU, then the run.
    Start(Box<RunRequest>),
    /// Take the run's processes off the GPU's server, then stop the run.
    Stop(RunKey, Stop, String),
    /// The run has ended: end MPS on its GPU if it was the last one there, then tell of the end.
    Ended(RunKey, RunEnd, String),
    /// End MPS wherever an earlier caller left it and no run uses it.
    Settle(SyncSender<()>),
}

/// The thread that does the work.
pub(crate) struct MpsKeeper {
    pub(crate) shared: Arc<Shared>,
    pub(crate) mps: Mps,
    pub(crate) modes: Box<dyn ComputeModes + Send>,
    /// Devices on which MPS did not end, though no run uses it.
    pub(crate) held: BTreeMap<String, String>,
}

impl MpsKeeper {
    /// Works until nobody can ask for more.
    pub(crate) fn run(mut self, works: &Receiver<Work>) {
        loop {
            let work = if self.held.is_empty() {
                works.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                works.recv_timeout(END_AGAIN)
            };
            match work {
                Ok(Work::Start(request)) => self.start(&request),
                Ok(Work::Stop(run, how, uuid)) => {
                    // A killed client may take the server down with all others. One that the server does not let go is stopped all the same.
                    _ = self.mps.terminate_clients(&uuid, &job_processes(&self.shared.watch.dir(run)));
                    self.shared.watch.stop_now(run, how);
                }
                Ok(Work::Ended(run, end, uuid)) => {
                    self.leave(&uuid);
                    self.shared.watch.forget(run);
                    self.shared.watch.tell(ExecutorEvent::Ended { run, end });
                }
                Ok(Work::Settle(done)) => {
                    self.settle();
                    // Whoever asked may be gone.
                    _ = done.send(());
                }
                Err(RecvTimeoutError::Timeout) => {
                    for uuid in self.held.keys().cloned().collect::<Vec<_>>() {
                        self.leave(&uuid);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn start(&mut self, request: &RunRequest) {
        let run = request.run;
        if let Err(problem) = self.share(request) {
            return self.not_started(request, RunEnd::NotLaunched(problem));
        }
        if self.shared.watch.is_to_stop(run) {
            return self.not_started(request, RunEnd::NeverStarted);
        }
        match self.shared.launch(request) {
            Launched::Running => self.shared.watch.tell(ExecutorEvent::Running { run }),
            Launched::Unknown => {}
            // The directory was taken after it was looked at: what is there is the run.
            Launched::Duplicate => self.shared.watch.look_later(run, None),
            Launched::Failed(problem) => self.not_started(request, RunEnd::NotLaunched(problem)),
        }
    }

    fn not_started(&mut self, request: &RunRequest, end: RunEnd) {
        self.shared.watch.forget(request.run);
        if let Some(uuid) = first_device(request) {
            self.leave(uuid);
        }
        self.shared.watch.tell(ExecutorEvent::Ended { run: request.run, end });
    }

    /// Sees to MPS on the GPU of a run.
    fn share(&mut self, request: &RunRequest) -> Result<(), String> {
        let settings = request.mps.as_ref().ok_or("it is not to run under MPS")?;
        let uuid = first_device(request).ok_or("it has no GPU")?;
        let device = self.shared.device(uuid).ok_or("its GPU is gone")?;
        self.mps.start(&device, settings.uid, &*self.modes).map_err(|error| crate::local::chain(&error))?;
        self.free(uuid);
        Ok(())
    }

    /// Ends MPS on a GPU unless a run is under it.
    fn leave(&mut self, uuid: &str) {
        if self.shared.watch.is_shared(uuid) {
            return self.free(uuid);
        }
        match self.mps.stop(uuid, &*self.modes) {
            Ok(()) => self.free(uuid),
            Err(error) => self.hold(uuid, crate::local::chain(&error)),
        }
    }

    fn hold(&mut self, uuid: &str, reason: String) {
        if self.held.insert(uuid.to_owned(), reason.clone()).as_ref() != Some(&reason) {
            self.shared.watch.tell(ExecutorEvent::DeviceHeld { device: self.device_key(uuid), reason });
        }
    }

    fn free(&mut self, uuid: &str) {
        if self.held.remove(uuid).is_some() {
            self.shared.watch.tell(ExecutorEvent::DeviceFree { device: self.device_key(uuid) });
        }
    }

    fn device_key(&self, uuid: &str) -> DeviceKey {
        DeviceKey { node: self.shared.settings.node.clone(), uuid: uuid.to_owned() }
    }

    fn settle(&mut self) {
        let shared = Arc::clone(&self.shared);
        for recovered in self.mps.recover(&|uuid| shared.watch.is_shared(uuid), &*self.modes) {
            let uuid = recovered.uuid;
            match recovered.outcome {
                Recovery::Failed(error) => self.hold(&uuid, crate::local::chain(&error)),
                Recovery::Kept { answers: false } => shared.watch.tell(ExecutorEvent::Warning(format!(
                    "GPU {uuid}: its MPS control daemon does not answer, though jobs are under it"
                ))),
                Recovery::Kept { answers: true } | Recovery::Stopped => {}
            }
        }
    }
}
