//! Memory that was freed goes back to the system.

#![expect(unsafe_code, reason = "the standard library has no word for it")]

/// Heaps that the C library may have. Each thread would have its own otherwise, and each keeps pages that are free but for a few bytes.
#[cfg(target_env = "gnu")]
const HEAPS_MAX: libc::c_int = 2;

/// A piece of memory of so many bytes is a mapping of its own, which goes back to the system when it is freed. The C library would raise
/// this up to 32 MiB, the first time a long table is freed.
#[cfg(target_env = "gnu")]
const MAPPED_BYTES_MIN: libc::c_int = 256 << 10;

/// Makes the C library keep little of what this process frees. To be called before there are other threads. Does nothing where the C library
/// is another.
pub fn keep_little_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it only sets how memory is asked for from now on.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, HEAPS_MAX);
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES_MIN);
    }
}

/// Gives back to the system what this process has freed: the C library keeps it, and a daemon that served a crowd once would look
/// as large for ever. Does nothing where the C library is another.
pub fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the C library's own lock guards its memory; nothing that is in use is touched.
    unsafe {
        libc::malloc_trim(0);
    }
}
