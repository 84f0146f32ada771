//! The C interface as a program in another language uses it. That this test exists also makes cargo build the shared library, which the
//! tests of the Python package load.
#![expect(unsafe_code, reason = "a C interface is called with pointers")]

use rota_learn::environment::classroom::FEATURES;
use rota_python::{
    Arrays, rota_vector_arrays, rota_vector_free, rota_vector_names, rota_vector_new, rota_vector_reset, rota_vector_step,
};
use std::ffi::{CStr, c_char};

const ROOM: usize = 4096;

fn text(room: &[c_char; ROOM]) -> String {
    // SAFETY: the library closes every text with a zero.
    unsafe { CStr::from_ptr(room.as_ptr()) }.to_string_lossy().into_owned()
}

/// The reason for which settings are refused.
fn refusal(settings: &str) -> String {
    let mut room = [0; ROOM];
    // SAFETY: the lengths are right.
    let vector = unsafe { rota_vector_new(settings.as_ptr(), settings.len(), room.as_mut_ptr(), ROOM) };
    assert!(vector.is_null(), "{settings} was taken");
    text(&room)
}

#[test]
fn environments_are_made_stepped_and_freed() {
    let settings = r#"{"env": "classroom", "num_envs": 3, "seed": 7, "auto_reset": true, "jobs_seen": 50}"#;
    let mut room = [0; ROOM];
    // SAFETY: the lengths are right, and the vector is freed at the end alone.
    unsafe {
        let vector = rota_vector_new(settings.as_ptr(), settings.len(), room.as_mut_ptr(), ROOM);
        assert!(!vector.is_null(), "{}", text(&room));
        let mut arrays = std::mem::MaybeUninit::<Arrays>::uninit();
        rota_vector_arrays(vector, arrays.as_mut_ptr());
        let arrays = arrays.assume_init();
        assert_eq!((arrays.environments, arrays.rows, arrays.features), (3, 51, FEATURES.len() as u64));
        rota_vector_names(vector, room.as_mut_ptr(), ROOM);
        assert!(text(&room).starts_with(r#"[["free","#), "{}", text(&room));
        let mut ended = 0;
        for _ in 0..200 {
            let legal = std::slice::from_raw_parts(arrays.legal, 3 * 51);
            let first = |row: &[u8]| i64::try_from(row.iter().rposition(|legal| *legal == 1).unwrap()).unwrap();
            let actions = legal.chunks(51).map(first).collect::<Vec<_>>();
            assert_eq!(rota_vector_step(vector, actions.as_ptr(), 3, room.as_mut_ptr(), ROOM), 0, "{}", text(&room));
            ended += std::slice::from_raw_parts(arrays.terminated, 3).iter().map(|ended| u32::from(*ended)).sum::<u32>();
        }
        assert!(ended >= 6, "{ended} episodes of at most 50 tasks in 600 steps");
        assert_eq!(rota_vector_step(vector, [0, 0, 51].as_ptr(), 3, room.as_mut_ptr(), ROOM), 1);
        assert!(text(&room).contains("not legal"), "{}", text(&room));
        assert_eq!(rota_vector_reset(vector, 7, room.as_mut_ptr(), ROOM), 0);
        rota_vector_free(vector);
        rota_vector_free(std::ptr::null_mut());
    }
}

#[test]
fn settings_that_make_no_sense_are_refused_with_the_reason() {
    let with = |more: &str| refusal(&format!(r#"{{"num_envs": 1, "seed": 0, "auto_reset": true, {more}}}"#));
    assert!(refusal("").contains("settings"));
    assert!(with(r#""env": "chess""#).contains("known are classroom"));
    assert!(with(r#""env": "classroom", "colour": 1"#).contains("unknown field `colour`"));
    assert!(with(r#""env": "classroom", "jobs_seen": 0"#).contains("from 1 to 256"));
    assert!(with(r#""env": "classroom", "objective": "joy""#).contains("one of wait, jct, makespan, energy"));
    assert!(with(r#""env": "classroom", "cluster": "t4:x""#).contains("cluster"));
    assert!(with(r#""env": "classroom-compat", "objective": "wait""#).contains("objective goes with classroom and trace"));
    assert!(with(r#""env": "trace:/nowhere.csv", "cluster": "t4:4""#).contains("/nowhere.csv"));
    assert!(with(r#""env": "trace:/nowhere.csv""#).contains("needs a cluster"));
    assert!(with(r#""env": "trace""#).contains("trace:FILE"));
    assert!(refusal(r#"{"num_envs": 0, "seed": 0, "auto_reset": true, "env": "classroom"}"#).contains("num_envs"));
}
