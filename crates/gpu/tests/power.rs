//! Power caps on the GPUs of the fake library: what is set, what is put back, and what is left alone.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use rota_gpu::{CapBook, CapError, Devices, LimitError, Nvml, PowerLimits};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The environment variable that a test which already runs apart finds set.
const APART: &str = "ROTA_GPU_TEST_APART";

/// The fake library remembers things for a whole process, so every test starts this program again for itself alone.
fn apart(test: &str, body: impl FnOnce(&Path)) {
    if std::env::var_os(APART).is_some() {
        return body(Path::new(&std::env::var_os("FAKE_NVML").unwrap()).parent().unwrap());
    }
    let folder = tempfile::tempdir().unwrap();
    let gpu = |number: u32| json!({"uuid": uuid(number), "name": "Tesla V100-SXM2-16GB", "power_limit_watts": 300.0});
    let machine = json!({"driver": "535.54", "cuda": 12020, "devices": [gpu(0), gpu(1)]});
    std::fs::write(folder.path().join("machine.json"), machine.to_string()).unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(APART, "yes")
        .env("FAKE_NVML", folder.path().join("machine.json"))
        .env("FAKE_NVML_LOG", folder.path().join("log"))
        .env("ROTA_NVML_LIB", nvidia_ml_fake::shared_library().expect("the fake library beside the test"))
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && words.contains("1 passed"), "{words}");
}

fn uuid(number: u32) -> String {
    format!("GPU-00000000-0000-0000-0000-{number:012}")
}

/// The watts that were set, in order.
fn log(folder: &Path) -> Vec<(String, f64)> {
    let text = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.map(|line| (line["uuid"].as_str().unwrap().to_owned(), line["watts"].as_f64().unwrap())).collect()
}

fn book_file(folder: &Path) -> PathBuf {
    folder.join("power-limits.json")
}

#[test]
fn caps_are_written_down_set_and_put_back() {
    apart("caps_are_written_down_set_and_put_back", |folder| {
        let mut nvml = Nvml::open().unwrap();
        let book = CapBook::new(folder);
        book.cap(&[(uuid(0), 175.0), (uuid(1), 200.0)], &nvml).unwrap();
        assert_eq!(log(folder), [(uuid(0), 175.0), (uuid(1), 200.0)]);
        assert_eq!(nvml.list().unwrap()[0].power_limit_watts, Some(175.0));
        assert!(std::fs::read_to_string(book_file(folder)).unwrap().contains("\"before_watts\":300.0"));
        assert_eq!(book.put_back(&nvml).unwrap(), Vec::<String>::new());
        assert_eq!(nvml.list().unwrap()[0].power_limit_watts, Some(300.0));
        assert!(!book_file(folder).exists());
        assert_eq!(book.put_back(&nvml).unwrap(), Vec::<String>::new());
        assert_eq!(log(folder).len(), 4, "nothing is set twice");
    });
}

#[test]
fn after_a_crash_another_program_puts_back_what_is_still_ours() {
    apart("after_a_crash_another_program_puts_back_what_is_still_ours", |folder| {
        let nvml = Nvml::open().unwrap();
        CapBook::new(folder).cap(&[(uuid(0), 175.0), (uuid(1), 200.0)], &nvml).unwrap();
        // The daemon died here. An administrator has set the second GPU's limit since.
        nvml.set(&uuid(1), 250.0).unwrap();
        let notes = CapBook::new(folder).put_back(&nvml).unwrap();
        assert!(notes.len() == 1 && notes[0].contains("someone else has set"), "{notes:?}");
        assert_eq!((nvml.get(&uuid(0)), nvml.get(&uuid(1))), (Ok(300.0), Ok(250.0)));
        assert!(!book_file(folder).exists());
    });
}

#[test]
fn a_cap_that_a_gpu_does_not_take_is_refused_before_anything_changes() {
    apart("a_cap_that_a_gpu_does_not_take_is_refused_before_anything_changes", |folder| {
        let nvml = Nvml::open().unwrap();
        let error = CapBook::new(folder).cap(&[(uuid(0), 175.0), (uuid(1), 20.0)], &nvml).unwrap_err();
        assert!(error.to_string().contains("20 W is not from 75 to 300 W"), "{error}");
        let error = CapBook::new(folder).cap(&[("GPU-nobody".to_owned(), 175.0)], &nvml).unwrap_err();
        assert!(matches!(error, CapError::Limit { source: LimitError::Lost, .. }), "{error}");
        assert_eq!(log(folder), []);
        assert!(!book_file(folder).exists());
        std::fs::write(book_file(folder), "not a book").unwrap();
        assert!(matches!(CapBook::new(folder).put_back(&nvml), Err(CapError::File { .. })));
    });
}
