#![no_main]

use libfuzzer_sys::fuzz_target;

// The mark in front makes every input one of this format.
fuzz_target!(|text: &[u8]| rota_fuzz::check_throughputs(&[b"[[speed]]\n", text].concat()));
