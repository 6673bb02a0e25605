//! The names and versions under which libfabric is known, up to 1.19 (`FABRIC_1.6`).
//!
//! A version is part of a symbol: programs that were built with an older libfabric ask for
//! `fi_getinfo@FABRIC_1.0`, whose structures are smaller. Rust has no word for that, so the entries are
//! written in assembly. Each either jumps to a function of [`super`], or hands all of its arguments
//! over to the system's libfabric as they are: some take any number of them.

use std::ffi::{CStr, c_void};

use super::system;
use crate::bindings as fi;
use crate::guard::guard_or;

/// What a function does that should be handed over when there is nobody to take it.
type Otherwise = extern "C" fn() -> *const c_void;

/// One that is handed over.
struct Entry {
    name: &'static CStr,
    version: &'static CStr,
    otherwise: Otherwise,
}

/// An empty answer: null, 0, or no value at all.
extern "C" fn nothing() -> *const c_void {
    std::ptr::null()
}

extern "C" fn not_there() -> *const c_void {
    -(fi::FI_ENOSYS as isize) as *const c_void
}

extern "C" fn empty_text() -> *const c_void {
    c"".as_ptr().cast()
}

macro_rules! answered {
    ($($function:path => $name:literal, $version:literal;)*) => {$(
        #[cfg(target_arch = "x86_64")]
        std::arch::global_asm!(
            ".pushsection .text,\"ax\",@progbits",
            concat!(".globl wiglaf_", $name),
            concat!(".type wiglaf_", $name, ",@function"),
            concat!("wiglaf_", $name, ":"),
            "jmp {function}",
            concat!(".size wiglaf_", $name, ", . - wiglaf_", $name),
            concat!(".symver wiglaf_", $name, ",", $name, "@@", $version),
            ".popsection",
            function = sym $function,
        );
    )*};
}

answered! {
    super::getinfo => "fi_getinfo", "FABRIC_1.3";
    super::freeinfo => "fi_freeinfo", "FABRIC_1.3";
    super::dupinfo => "fi_dupinfo", "FABRIC_1.3";
    super::open_fabric => "fi_fabric", "FABRIC_1.1";
    super::version => "fi_version", "FABRIC_1.0";
    super::strerror => "fi_strerror", "FABRIC_1.0";
    super::open_resource => "fi_open", "FABRIC_1.5";
}

macro_rules! handed_over {
    ($($index:literal: $name:literal $at:literal $version:literal or $otherwise:ident;)*) => {
        static HANDED_OVER: &[Entry] = &[$(Entry {
            name: match CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => unreachable!(),
            },
            version: match CStr::from_bytes_with_nul(concat!($version, "\0").as_bytes()) {
                Ok(version) => version,
                Err(_) => unreachable!(),
            },
            otherwise: $otherwise,
        }),*];
        $(
            #[cfg(target_arch = "x86_64")]
            std::arch::global_asm!(
                ".pushsection .text,\"ax\",@progbits",
                concat!(".globl wiglaf_handed_over_", $index),
                concat!(".type wiglaf_handed_over_", $index, ",@function"),
                concat!("wiglaf_handed_over_", $index, ":"),
                concat!("mov r11d, ", $index),
                "jmp {hand_over}",
                concat!(".size wiglaf_handed_over_", $index, ", . - wiglaf_handed_over_", $index),
                concat!(".symver wiglaf_handed_over_", $index, ",", $name, $at, $version),
                ".popsection",
                hand_over = sym hand_over,
            );
        )*
    };
}

// `@@` is the version that programs are built with today, `@` one of before.
handed_over! {
    0: "fi_getinfo" "@" "FABRIC_1.0" or not_there;
    1: "fi_getinfo" "@" "FABRIC_1.1" or not_there;
    2: "fi_getinfo" "@" "FABRIC_1.2" or not_there;
    3: "fi_freeinfo" "@" "FABRIC_1.0" or nothing;
    4: "fi_freeinfo" "@" "FABRIC_1.1" or nothing;
    5: "fi_freeinfo" "@" "FABRIC_1.2" or nothing;
    6: "fi_dupinfo" "@" "FABRIC_1.0" or nothing;
    7: "fi_dupinfo" "@" "FABRIC_1.1" or nothing;
    8: "fi_dupinfo" "@" "FABRIC_1.2" or nothing;
    9: "fi_fabric" "@" "FABRIC_1.0" or not_there;
    10: "fi_tostr" "@@" "FABRIC_1.0" or empty_text;
    11: "fi_log_enabled" "@@" "FABRIC_1.0" or nothing;
    12: "fi_log" "@@" "FABRIC_1.0" or nothing;
    13: "fi_param_define" "@@" "FABRIC_1.0" or not_there;
    14: "fi_param_get" "@@" "FABRIC_1.0" or not_there;
    15: "fi_getparams" "@@" "FABRIC_1.0" or not_there;
    16: "fi_freeparams" "@@" "FABRIC_1.0" or nothing;
    17: "fi_tostr_r" "@@" "FABRIC_1.4" or empty_text;
    18: "fi_log_ready" "@@" "FABRIC_1.6" or nothing;
}

/// Where a function that is handed over goes on.
extern "C" fn destination(index: usize) -> *const c_void {
    guard_or(not_there as *const c_void, || {
        let Some(entry) = HANDED_OVER.get(index) else { return not_there as *const c_void };
        let found = system::get().and_then(|system| system.symbol(entry.name, entry.version));
        found.map_or(entry.otherwise as *const c_void, |found| found.as_ptr())
    })
}

/// Goes on at [`destination`] of the number in `r11`, with the arguments as they were.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "C" fn hand_over() {
    std::arch::naked_asm!(
        // All that may carry arguments, `al` among them: it counts vector registers of calls with
        // any number of arguments. Seven words and 128 bytes leave the stack aligned to 16.
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "push rax",
        "sub rsp, 128",
        "movups [rsp], xmm0",
        "movups [rsp + 16], xmm1",
        "movups [rsp + 32], xmm2",
        "movups [rsp + 48], xmm3",
        "movups [rsp + 64], xmm4",
        "movups [rsp + 80], xmm5",
        "movups [rsp + 96], xmm6",
        "movups [rsp + 112], xmm7",
        "mov edi, r11d",
        "call {destination}",
        "mov r11, rax",
        "movups xmm0, [rsp]",
        "movups xmm1, [rsp + 16]",
        "movups xmm2, [rsp + 32]",
        "movups xmm3, [rsp + 48]",
        "movups xmm4, [rsp + 64]",
        "movups xmm5, [rsp + 80]",
        "movups xmm6, [rsp + 96]",
        "movups xmm7, [rsp + 112]",
        "add rsp, 128",
        "pop rax",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "jmp r11",
        destination = sym destination,
    );
}
