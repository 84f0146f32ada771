//! Memory that was freed goes back to the system.

#![expect(unsafe_code, reason = "the standard library has no word for it")]

/// Gives back to the system what this process has freed: the C library keeps it, and a daemon that served a crowd once would look
/// as large for ever. Does nothing where the C library is another.
pub fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the C library's own lock guards its memory; nothing that is in use is touched.
    unsafe {
        libc::malloc_trim(0);
    }
}
