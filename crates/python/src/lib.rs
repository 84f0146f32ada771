//! Rota's learning environments for Python: a shared library with a plain C interface, loaded with `ctypes`.
//!
//! The caller makes environments from JSON, gets the addresses of their arrays once, and steps them. The arrays stay where they are until
//! the environments are freed. One environment vector is used by one thread at a time; different ones are independent. Nothing panics
//! across the border: a panic becomes an error like any other.
#![expect(unsafe_code, reason = "a C interface is called with pointers, and its functions are found by their plain names")]

mod settings;

pub use settings::{SettingsError, vector};

use rota_learn::environment::vector::{OUTCOME_NAMES, Vector};
use rota_learn::model::Model;
use rota_nn::Workspace;
use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// The version of this interface. Python refuses a library with another one.
pub const INTERFACE: u32 = 1;
/// Everything went well.
const FINE: c_int = 0;
/// It did not; the text says why.
const FAILED: c_int = 1;

/// Where the arrays of environments lie, and how large they are.
#[repr(C)]
pub struct Arrays {
    /// The number of environments.
    pub environments: u64,
    /// Rows of each.
    pub rows: u64,
    /// Features of a row.
    pub features: u64,
    /// Figures of an episode.
    pub outcome_figures: u64,
    /// Environments × rows × features.
    pub observations: *const f32,
    /// Environments × rows.
    pub legal: *const u8,
    /// One for each environment.
    pub rewards: *const f32,
    /// One for each environment.
    pub terminated: *const u8,
    /// As the observations.
    pub last_observations: *const f32,
    /// Environments × figures.
    pub outcomes: *const f64,
}

/// Writes a text and a closing zero into the caller's room, cut where it is full.
///
/// # Safety
/// `room` points to `size` bytes that may be written, or `size` is 0.
unsafe fn tell(text: &str, room: *mut c_char, size: usize) {
    if room.is_null() || size == 0 {
        return;
    }
    let mut length = text.len().min(size - 1);
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    // SAFETY: at most `size` bytes are written, to room that the caller owns.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast::<c_char>(), room, length);
        *room.add(length) = 0;
    }
}

/// Runs something of ours; a panic becomes an error.
fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let done = catch_unwind(AssertUnwindSafe(work));
    done.unwrap_or_else(|_| Err("a fault in Rota; please report it with what was called".to_owned()))
}

/// The version of this interface.
#[unsafe(no_mangle)]
pub extern "C" fn rota_interface() -> u32 {
    INTERFACE
}

/// Makes environments from settings in JSON. Gives null, and the reason in `reason`, where that cannot be done.
///
/// # Safety
/// `settings` points to `length` bytes, `reason` to `size` bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rota_vector_new(settings: *const u8, length: usize, reason: *mut c_char, size: usize) -> *mut Vector {
    // SAFETY: the caller says how many bytes there are.
    let json = if settings.is_null() { &[][..] } else { unsafe { std::slice::from_raw_parts(settings, length) } };
    match guarded(|| vector(json).map_err(|error| error.to_string())) {
        Ok(vector) => Box::into_raw(Box::new(vector)),
        Err(error) => {
            // SAFETY: as the caller says.
            unsafe { tell(&error, reason, size) };
            std::ptr::null_mut()
        }
    }
}

/// Frees environments. Their arrays must not be used any more.
///
/// # Safety
/// `vector` came from [`rota_vector_new`] and was not freed before, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rota_vector_free(vector: *mut Vector) {
    if !vector.is_null() {
        // SAFETY: it was made by `Box::into_raw`.
        drop(unsafe { Box::from_raw(vector) });
    }
}

/// Tells where the arrays lie.
///
/// # Safety
/// `vector` came from [`rota_vector_new`]; `arrays` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rota_vector_arrays(vector: *const Vector, arrays: *mut Arrays) {
    // SAFETY: both are as the caller says.
    let (vector, arrays) = unsafe { (&*vector, &mut *arrays) };
    *arrays = Arrays {
        environments: vector.len() as u64,
        rows: vector.rows() as u64,
        features: vector.features().len() as u64,
        outcome_figures: OUTCOME_NAMES.len() as u64,
        observations: vector.observations.as_ptr(),
        legal: vector.legal.as_ptr(),
        rewards: vector.rewards.as_ptr(),
        terminated: vector.terminated.as_ptr(),
        last_observations: vector.last_observations.as_ptr(),
        outcomes: vector.outcomes.as_ptr(),
    };
}

/// Tells the names of the features and of the figures of an episode, as two lists in JSON.
///
/// # Safety
/// `vector` came from [`rota_vector_new`]; `names` points to `size` bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rota_vector_names(vector: *const Vector, names: *mut c_char, size: usize) {
    // SAFETY: both are as the caller says.
    unsafe {
        let text = serde_json::to_string(&((*vector).features(), OUTCOME_NAMES)).unwrap_or_default();
        tell(&text, names, size);
    }
}

/// Begins all episodes anew.
///
/// # Safety
/// `vector` came from [`rota_vector_new`] and nobody else uses it now; `reason` points to `size` bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rota_vector_reset(vector: *mut Vector, seed: u64, reason: *mut c_char, size: usize) -> c_int {
    // SAFETY: as the caller says.
    let vector = unsafe { &mut *vector };
    let done = guarded(|| {
        vector.reset(seed);
        Ok(())
    });
    // SAFETY: as the caller says.
    unsafe { answer(done, reason, size) }
}

/// Takes one step in every environment.
///
/// # Safety
/// `vector` came from [`rota_vector_new`] and nobody else uses it now; `actions` points to `count` numbers, `reason` to `size` bytes that may
/// be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rota_vector_step(
    vector: *mut Vector,
    actions: *const i64,
    count: usize,
    reason: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: as the caller says.
    let vector = unsafe { &mut *vector };
    // SAFETY: as the caller says.
    let actions = if actions.is_null() { &[][..] } else { unsafe { std::slice::from_raw_parts(actions, count) } };
    let done = guarded(|| vector.step(actions).map_err(|error| error.to_string()));
    // SAFETY: as the caller says.
    unsafe { answer(done, reason, size) }
}

/// # Safety
/// `reason` points to `size` bytes that may be written.
unsafe fn answer(done: Result<(), String>, reason: *mut c_char, size: usize) -> c_int {
    match done {
        Ok(()) => FINE,
        Err(error) => {
            // SAFETY: as the caller says.
            unsafe { tell(&error, reason, size) };
            FAILED
        }
    }
}

/// A model and room for its numbers.
pub struct Scorer {
    model: Model,
    workspace: Workspace,
}

/// Reads a model file for the features of these environments. Gives null, and the reason, where it cannot be used.
///
/// # Safety
/// `path` is a text closed by a zero, `vector` came from [`rota_vector_new`], `reason` points to `size` bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rota_model_open(
    path: *const c_char,
    vector: *const Vector,
    reason: *mut c_char,
    size: usize,
) -> *mut Scorer {
    // SAFETY: as the caller says.
    let (path, vector) = unsafe { (CStr::from_ptr(path), &*vector) };
    let read = guarded(|| {
        let path = path.to_str().map_err(|error| format!("the name of the model file: {error}"))?;
        Model::read(Path::new(path), vector.features()).map_err(|error| error.to_string())
    });
    match read {
        Ok(model) => Box::into_raw(Box::new(Scorer { model, workspace: Workspace::default() })),
        Err(error) => {
            // SAFETY: as the caller says.
            unsafe { tell(&error, reason, size) };
            std::ptr::null_mut()
        }
    }
}

/// Frees a model.
///
/// # Safety
/// `scorer` came from [`rota_model_open`] and was not freed before, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rota_model_free(scorer: *mut Scorer) {
    if !scorer.is_null() {
        // SAFETY: it was made by `Box::into_raw`.
        drop(unsafe { Box::from_raw(scorer) });
    }
}

/// Scores rows of features.
///
/// # Safety
/// `scorer` came from [`rota_model_open`] and nobody else uses it now; `rows` points to `count` rows, `given` to `count` numbers that may be
/// written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rota_model_scores(scorer: *mut Scorer, rows: *const f32, count: usize, given: *mut f32) -> c_int {
    if count == 0 {
        return FINE;
    }
    // SAFETY: as the caller says.
    let Scorer { model, workspace } = unsafe { &mut *scorer };
    // SAFETY: as the caller says.
    let (rows, given) = unsafe {
        (std::slice::from_raw_parts(rows, count * model.header.features.len()), std::slice::from_raw_parts_mut(given, count))
    };
    let done = guarded(|| {
        given.copy_from_slice(model.scores(rows, workspace));
        Ok(())
    });
    if done.is_ok() { FINE } else { FAILED }
}
