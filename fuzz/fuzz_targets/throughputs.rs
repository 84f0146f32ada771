#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let _ = rota_trace::parse_throughputs("fuzz", text);
});
