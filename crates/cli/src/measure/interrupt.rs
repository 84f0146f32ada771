//! A signal that ends the command is noticed between two looks, so that workloads are ended and GPUs given back.

use crate::live::client::Failure;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::signal::unix::{SignalKind, signal};

/// Whether the command was told to end.
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Watches for the signals from now on.
    pub fn watch() -> Self {
        let told = Arc::new(AtomicBool::new(false));
        for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
            let told = Arc::clone(&told);
            std::thread::spawn(move || {
                let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
                if runtime.block_on(async { Some(signal(kind).ok()?.recv().await) }).is_some() {
                    told.store(true, Ordering::Relaxed);
                }
            });
        }
        Self(told)
    }

    /// An error if the command was told to end.
    pub fn check(&self) -> anyhow::Result<()> {
        if self.0.load(Ordering::Relaxed) {
            return Err(anyhow::Error::new(Failure("stopped; what was measured is written".to_owned())));
        }
        Ok(())
    }
}
