#![no_main]

use libfuzzer_sys::fuzz_target;
use rota_trace::Format;

fuzz_target!(|text: &[u8]| rota_fuzz::check(Some(Format::Acme), text));
