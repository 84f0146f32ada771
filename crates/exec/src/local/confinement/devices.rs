//! Which GPUs the processes of a job may open, enforced by the kernel: a filter on the job's cgroup (version 2).
//!
//! The filter is a small BPF program of the kind `cgroup_device`, made here instruction by instruction. It denies `/dev/nvidiaN` of GPUs
//! that are not the job's, and says nothing of any other device. It stays as long as the cgroup does.
#![expect(unsafe_code, reason = "rustix has no bpf")]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// NVIDIA's number for its devices.
pub const NVIDIA_MAJOR: u32 = 195;

/// From here on NVIDIA's numbers are not GPUs: `/dev/nvidia-modeset` and `/dev/nvidiactl`, which every job needs.
const CONTROL_MINOR_FIRST: u32 = 254;

/// The GPUs that a job may open.
#[expect(clippy::unsafe_derive_deserialize, reason = "its fields are plain numbers; no unsafe code relies on what they are")]
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct DeviceFilter {
    /// The major number of the devices that are filtered.
    pub major: u32,
    /// The minor numbers below 254 that the job may open.
    pub minors: Vec<u32>,
}

const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_PROG_ATTACH: libc::c_long = 8;
const BPF_PROG_TYPE_CGROUP_DEVICE: u32 = 15;
const BPF_CGROUP_DEVICE: u32 = 6;
/// Filters of cgroups further up, such as systemd's, stay in force.
const BPF_F_ALLOW_MULTI: u32 = 2;
/// The type of access to a character device, in the low half of the first word of the context.
const CHARACTER_DEVICE: i32 = 2;

/// The program is loaded with these; the kernel reads as much as it knows.
#[repr(C)]
#[derive(Default)]
struct LoadArguments {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buffer: u64,
    kernel_version: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct AttachArguments {
    target: u32,
    program: u32,
    attach_type: u32,
    flags: u32,
}

/// One instruction: operation, destination and source register, jump, constant.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Instruction {
    operation: u8,
    registers: u8,
    offset: i16,
    constant: i32,
}

/// Ends the program; its answer is in register 0.
const EXIT: Instruction = Instruction { operation: 0x95, registers: 0, offset: 0, constant: 0 };

impl DeviceFilter {
    /// Puts the filter on a cgroup.
    pub(crate) fn attach(&self, cgroup: &Path) -> io::Result<()> {
        let folder = File::open(cgroup)?;
        let program = load(&self.program())?;
        let attach = AttachArguments {
            target: folder.as_raw_fd().cast_unsigned(),
            program: program.as_raw_fd().cast_unsigned(),
            attach_type: BPF_CGROUP_DEVICE,
            flags: BPF_F_ALLOW_MULTI,
        };
        // SAFETY: the argument is a plain structure that lives until the call returns; the kernel only reads it.
        let result = unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_ATTACH, &raw const attach, size_of::<AttachArguments>()) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Allows everything but the other devices of this major number.
    fn program(&self) -> Vec<Instruction> {
        let load_word =
            |register: u8, offset: i16| Instruction { operation: 0x61, registers: register | 1 << 4, offset, constant: 0 };
        let jump = |operation: u8, register: u8, constant: u32, offset: usize| Instruction {
            operation,
            registers: register,
            // Programs are short: a machine has at most 254 of these devices.
            offset: i16::try_from(offset).unwrap_or(i16::MAX),
            constant: constant.cast_signed(),
        };
        let answer = |value: i32| [Instruction { operation: 0xb7, registers: 0, offset: 0, constant: value }, EXIT];
        let minors = self.minors.iter().filter(|minor| **minor < CONTROL_MINOR_FIRST).collect::<Vec<_>>();
        let to_allowed = |done: usize| minors.len() - done + 2;
        let mut program = vec![
            // r2 = kind of device, r3 = major, r4 = minor.
            load_word(2, 0),
            Instruction { operation: 0x57, registers: 2, offset: 0, constant: 0xffff },
            load_word(3, 4),
            load_word(4, 8),
            // Other kinds, other majors, and control devices are allowed.
            jump(0x55, 2, CHARACTER_DEVICE.cast_unsigned(), to_allowed(0) + 2),
            jump(0x55, 3, self.major, to_allowed(0) + 1),
            jump(0x35, 4, CONTROL_MINOR_FIRST, to_allowed(0)),
        ];
        program.extend(minors.iter().enumerate().map(|(done, minor)| jump(0x15, 4, **minor, to_allowed(done + 1))));
        program.extend(answer(0));
        program.extend(answer(1));
        program
    }
}

fn load(program: &[Instruction]) -> io::Result<OwnedFd> {
    let license = c"MIT OR Apache-2.0";
    let arguments = LoadArguments {
        program_type: BPF_PROG_TYPE_CGROUP_DEVICE,
        instruction_count: u32::try_from(program.len()).map_err(|_| Errno::TOOBIG)?,
        instructions: program.as_ptr().addr() as u64,
        license: license.as_ptr().addr() as u64,
        ..LoadArguments::default()
    };
    // SAFETY: the argument and what it points to live until the call returns; the kernel only reads them.
    let result = unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_LOAD, &raw const arguments, size_of::<LoadArguments>()) };
    let descriptor = i32::try_from(result).unwrap_or(-1);
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the program answers for a device, by running it here.
    fn answer(filter: &DeviceFilter, kind: u32, major: u32, minor: u32) -> i32 {
        let program = filter.program();
        let context = [kind | 7 << 16, major, minor];
        let mut registers = [0_u32; 10];
        let mut at = 0;
        loop {
            let Instruction { operation, registers: pair, offset, constant } = program[at];
            let register = usize::from(pair & 15);
            let (value, constant) = (registers[register], constant.cast_unsigned());
            at += 1;
            let jumps = match operation {
                0x61 => {
                    registers[register] = context[usize::try_from(offset).unwrap() / 4];
                    continue;
                }
                0x57 => {
                    registers[register] = value & constant;
                    continue;
                }
                0xb7 => {
                    registers[register] = constant;
                    continue;
                }
                0x95 => return registers[0].cast_signed(),
                0x55 => value != constant,
                0x35 => value >= constant,
                0x15 => value == constant,
                other => panic!("an operation that is not known: {other:#x}"),
            };
            if jumps {
                at += usize::try_from(offset).unwrap();
            }
        }
    }

    #[test]
    fn only_other_gpus_are_denied() {
        for minors in [vec![], vec![0], vec![1, 3], (0..16).collect::<Vec<_>>()] {
            let filter = DeviceFilter { major: NVIDIA_MAJOR, minors: minors.clone() };
            for minor in 0..20 {
                let allowed = i32::from(minors.contains(&minor));
                assert_eq!(answer(&filter, 2, NVIDIA_MAJOR, minor), allowed, "{minors:?} {minor}");
                assert_eq!(answer(&filter, 2, 1, minor), 1, "other devices are not looked at");
                assert_eq!(answer(&filter, 1, NVIDIA_MAJOR, minor), 1, "neither are block devices");
            }
            assert_eq!((answer(&filter, 2, NVIDIA_MAJOR, 254), answer(&filter, 2, NVIDIA_MAJOR, 255)), (1, 1));
        }
    }
}
