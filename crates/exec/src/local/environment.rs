//! The environment of a run: what its user had, with what Rota says in its place.

use std::collections::HashMap;
use std::ffi::OsString;

use rota_gpu::{Device, Mps};

use crate::executor::RunRequest;

type Variable = (OsString, OsString);

/// The environment of a run with its devices. `cuda_names` has the word that CUDA knows each device by.
pub(crate) fn environment(request: &RunRequest, cuda_names: &HashMap<String, String>, mps: &Mps) -> Vec<Variable> {
    let uuids = request.places.iter().flat_map(|place| &place.uuids).chain(&request.spare_uuids);
    let devices = uuids.map(|uuid| cuda_names.get(uuid).unwrap_or(uuid).as_str()).collect::<Vec<_>>().join(",");
    let mut own = request.variables.clone();
    own.push(("CUDA_DEVICE_ORDER".into(), "PCI_BUS_ID".into()));
    own.push(("CUDA_VISIBLE_DEVICES".into(), devices.into()));
    if let (Some(settings), Some(uuid)) = (&request.mps, first_device(request)) {
        // The name of the GPU inside the MPS server counts in place of its name outside.
        let under_mps = mps.environment(uuid, settings.threads_percent, settings.memory_mib);
        own.retain(|(name, _)| !under_mps.iter().any(|(other, _)| other == name));
        own.extend(under_mps);
    }
    let given = request.env.iter().filter(|(name, _)| !own.iter().any(|(own, _)| own == name)).cloned();
    given.collect::<Vec<_>>().into_iter().chain(own).collect()
}

/// The first device of a run, which is the only one of a run under MPS.
pub(crate) fn first_device(request: &RunRequest) -> Option<&str> {
    request.places.iter().flat_map(|place| &place.uuids).map(String::as_str).next()
}

/// The word that CUDA knows each device by.
pub(crate) fn cuda_names(devices: &[Device]) -> HashMap<String, String> {
    devices.iter().map(|device| (device.uuid.clone(), device.cuda_name())).collect()
}
