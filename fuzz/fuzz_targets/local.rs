#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wiglaf_fuzz::run("local", bytes));
