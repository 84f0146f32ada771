//! Power caps of this machine's GPUs while the daemon runs: put back when it ends, and at the next start if it was killed.

use super::monitor::Source;
use rota_gpu::{CapBook, CapError, Device, Nvml, PowerCap, PowerLimits};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Caps that are in force; dropping it puts the limits back.
#[derive(Debug)]
pub struct PowerGuard {
    book: CapBook,
    nvml: Nvml,
}

impl Drop for PowerGuard {
    fn drop(&mut self) {
        // What cannot be put back stays written down, and the next start tries again.
        _ = self.book.put_back(&self.nvml);
    }
}

/// Puts back what a daemon before this one left capped, then caps the devices. A limit that someone else has set since is left alone.
pub fn begin(source: &mut Source, devices: &[Device], cap: &PowerCap, state_dir: &Path) -> io::Result<Option<PowerGuard>> {
    let wrong = |error: CapError| io::Error::other(error.to_string());
    let kinds = devices.iter().map(|device| device.kind.as_str()).collect::<Vec<_>>();
    if let [unknown, ..] = cap.unknown_among(&kinds)[..] {
        return Err(io::Error::other(format!("`{unknown}` is the type of no GPU here; there are {}", kinds.join(", "))));
    }
    // Parts of one GPU share its limit.
    let owner = |device: &Device| device.mig_parent.clone().unwrap_or_else(|| device.uuid.clone());
    let caps = devices.iter().filter_map(|device| Some((owner(device), cap.watts(&device.kind)?))).collect::<BTreeMap<_, _>>();
    match source {
        Source::Nvml(_) => {
            let (book, nvml) = (CapBook::new(state_dir), Nvml::open().map_err(|error| io::Error::other(error.to_string()))?);
            let limits: &dyn PowerLimits = &nvml;
            book.put_back(limits).map_err(wrong)?;
            if caps.is_empty() {
                return Ok(None);
            }
            book.cap(&caps.into_iter().collect::<Vec<_>>(), limits).map_err(wrong)?;
            Ok(Some(PowerGuard { book, nvml }))
        }
        Source::Virtual(devices) => {
            for (uuid, watts) in &caps {
                devices.cap_power(uuid, *watts);
            }
            Ok(None)
        }
        Source::None(_) => Ok(None),
    }
}
