//! What changed between two looks at the devices: the difference as data, so that hot changes are events like any other.

use crate::{ComputeMode, Device, ReadError, Reading};
use std::collections::{BTreeMap, BTreeSet};

/// The devices at one moment, and which were ever seen before it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Look {
    /// Devices that are there and answer.
    pub devices: Vec<Device>,
    /// Their energy counters, where they have one.
    pub energy_joules: BTreeMap<String, f64>,
    /// UUIDs of every device seen up to now, these included.
    pub seen: BTreeSet<String>,
}

impl Look {
    /// The look after this one. `readings` are those of `devices`, in their order, or none if nothing was read; a device whose reading
    /// says that it is lost is not there, whatever the list says.
    #[must_use]
    pub fn next(&self, devices: &[Device], readings: &[Result<Reading, ReadError>]) -> Self {
        let mut look = Self { seen: self.seen.clone(), ..Self::default() };
        for (place, device) in devices.iter().enumerate() {
            let reading = readings.get(place);
            if matches!(reading, Some(Err(ReadError::Lost))) {
                continue;
            }
            if let Some(energy) = reading.and_then(|reading| reading.as_ref().ok()).and_then(|reading| reading.energy_joules) {
                look.energy_joules.insert(device.uuid.clone(), energy);
            } else if let Some(&energy) = self.energy_joules.get(&device.uuid) {
                // Not read this time: a counter that falls later must still be noticed.
                look.energy_joules.insert(device.uuid.clone(), energy);
            }
            look.seen.insert(device.uuid.clone());
            look.devices.push(device.clone());
        }
        look
    }

    fn device(&self, uuid: &str) -> Option<&Device> {
        self.devices.iter().find(|device| device.uuid == uuid)
    }
}

/// One thing that changed.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceEvent {
    /// A device that was never seen before.
    Appeared(Device),
    /// A device is no longer there; as it was when last seen.
    Lost(Device),
    /// A device that was lost is there again; as it is now.
    Returned(Device),
    /// The device or its driver was reset: its energy counter begins anew, and whatever ran on it is gone.
    Reset(Device),
    /// It has another number.
    Renumbered {
        /// The device, as it is now.
        device: Device,
        /// Its number before.
        from: u32,
    },
    /// Someone changed who may use it.
    ComputeModeChanged {
        /// The device, as it is now.
        device: Device,
        /// Its mode before.
        from: ComputeMode,
    },
    /// Someone changed how much it may draw.
    PowerLimitChanged {
        /// The device, as it is now.
        device: Device,
        /// Its limit before.
        from_watts: Option<f64>,
    },
}

/// What changed from one look to the next: first what was lost, then what is there, by number.
pub fn compare(before: &Look, now: &Look) -> Vec<DeviceEvent> {
    let lost = before.devices.iter().filter(|device| now.device(&device.uuid).is_none());
    let mut events = lost.cloned().map(DeviceEvent::Lost).collect::<Vec<_>>();
    for device in &now.devices {
        match before.device(&device.uuid) {
            Some(earlier) => changes(before, now, earlier, device, &mut events),
            None if before.seen.contains(&device.uuid) => events.push(DeviceEvent::Returned(device.clone())),
            None => events.push(DeviceEvent::Appeared(device.clone())),
        }
    }
    events
}

fn changes(before: &Look, now: &Look, earlier: &Device, device: &Device, events: &mut Vec<DeviceEvent>) {
    let counter = |look: &Look| look.energy_joules.get(&device.uuid).copied();
    if counter(before).zip(counter(now)).is_some_and(|(before, now)| now < before) {
        events.push(DeviceEvent::Reset(device.clone()));
    }
    if earlier.index != device.index {
        events.push(DeviceEvent::Renumbered { device: device.clone(), from: earlier.index });
    }
    if earlier.compute_mode != device.compute_mode {
        events.push(DeviceEvent::ComputeModeChanged { device: device.clone(), from: earlier.compute_mode });
    }
    if earlier.power_limit_watts != device.power_limit_watts {
        events.push(DeviceEvent::PowerLimitChanged { device: device.clone(), from_watts: earlier.power_limit_watts });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Devices, Virtual, parse_virtual};

    fn gpus(spec: &str) -> Vec<Device> {
        Virtual::new(&parse_virtual(spec).unwrap()).list().unwrap()
    }

    fn energies(joules: &[f64]) -> Vec<Result<Reading, ReadError>> {
        joules.iter().map(|&joules| Ok(Reading { energy_joules: Some(joules), ..Reading::default() })).collect()
    }

    #[test]
    fn at_first_every_gpu_appears() {
        let gpus = gpus("t4:2");
        let look = Look::default().next(&gpus, &[]);
        assert_eq!(compare(&Look::default(), &look), gpus.iter().cloned().map(DeviceEvent::Appeared).collect::<Vec<_>>());
        assert_eq!(compare(&look, &look.next(&gpus, &[])), []);
    }

    #[test]
    fn a_gpu_that_falls_off_the_bus_is_lost_and_returns() {
        let gpus = gpus("t4:3");
        let all = Look::default().next(&gpus, &[]);
        let two = all.next(&[gpus[0].clone(), gpus[2].clone()], &[]);
        assert_eq!(compare(&all, &two), [DeviceEvent::Lost(gpus[1].clone())]);
        let again = two.next(&gpus, &[]);
        assert_eq!(compare(&two, &again), [DeviceEvent::Returned(gpus[1].clone())]);
    }

    #[test]
    fn a_gpu_that_cannot_be_read_is_lost_though_it_is_listed_but_a_silent_driver_loses_none() {
        let gpus = gpus("t4:2");
        let all = Look::default().next(&gpus, &[]);
        let bad = all.next(&gpus, &[Ok(Reading::default()), Err(ReadError::Lost)]);
        assert_eq!(compare(&all, &bad), [DeviceEvent::Lost(gpus[1].clone())]);
        let silent = all.next(&gpus, &[Ok(Reading::default()), Err(ReadError::Driver("busy".to_owned()))]);
        assert_eq!(compare(&all, &silent), []);
    }

    #[test]
    fn a_counter_that_falls_is_a_reset_even_if_a_look_in_between_did_not_read_it() {
        let gpus = gpus("t4:2");
        let first = Look::default().next(&gpus, &energies(&[100.0, 100.0]));
        let unread = first.next(&gpus, &[]);
        let now = unread.next(&gpus, &energies(&[120.0, 5.0]));
        assert_eq!(compare(&unread, &now), [DeviceEvent::Reset(gpus[1].clone())]);
    }

    #[test]
    fn what_others_set_and_new_numbers_are_events() {
        let before = gpus("t4:1");
        let mut after = before.clone();
        after[0].index = 3;
        after[0].compute_mode = ComputeMode::Prohibited;
        after[0].power_limit_watts = Some(50.0);
        let look = Look::default().next(&before, &[]);
        let device = after[0].clone();
        assert_eq!(
            compare(&look, &look.next(&after, &[])),
            [
                DeviceEvent::Renumbered { device: device.clone(), from: 0 },
                DeviceEvent::ComputeModeChanged { device: device.clone(), from: ComputeMode::Default },
                DeviceEvent::PowerLimitChanged { device, from_watts: Some(70.0) },
            ]
        );
    }

    #[test]
    fn dividing_a_gpu_loses_the_whole_and_brings_its_parts() {
        let whole = gpus("a100:1");
        let part = Device { uuid: "MIG-1".to_owned(), mig_parent: Some(whole[0].uuid.clone()), ..whole[0].clone() };
        let look = Look::default().next(&whole, &[]);
        let divided = look.next(std::slice::from_ref(&part), &[]);
        assert_eq!(compare(&look, &divided), [DeviceEvent::Lost(whole[0].clone()), DeviceEvent::Appeared(part)]);
    }
}
