#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| rota_fuzz::check_throughputs(text));
