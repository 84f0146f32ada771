//! The description of the API is true: schemathesis draws requests from it, and every answer is one that it describes.

use crate::live::Daemon;
use crate::live::http::port::{Port, own_token};
use crate::live::machine::gpus::python_with;
use crate::rota::root;
use std::process::Command;

/// Requests for each route, beside those at the limits of each field.
const EXAMPLES: &str = "15";

#[test]
fn every_answer_is_as_the_description_says() {
    let Some(python) = python_with("target/api-clients", "tests/api/requirements.txt") else { return };
    let daemon = Daemon::configured("a100:2,t4:1", "[http]\nrequests_per_second = 0.0\n");
    let url = format!("http://{}", Port::of(&daemon).address);
    let mut command = Command::new(python);
    command.args(["-m", "schemathesis.cli", "run", &format!("{url}/api/v1/openapi.json"), "--url", &url]);
    command.args(["--header", &format!("Authorization: Bearer {}", own_token(&daemon))]);
    command.args(["--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"]);
    command.args([
        "--max-examples",
        EXAMPLES,
        "--seed",
        "1",
        "--generation-deterministic",
        "--phases",
        "examples,coverage,fuzzing",
    ]);
    // The end of the daemon would be the end of the test, and events never end.
    command.args(["--exclude-path", "/api/v1/shutdown", "--exclude-path", "/events"]);
    command.args(["--suppress-health-check", "all", "--request-timeout", "30", "--no-color", "--workers", "1"]);
    command.args(["--generation-with-security-parameters", "false"]);
    command.env("SCHEMATHESIS_HOOKS", "hooks").env("PYTHONPATH", root().join("tests/api")).current_dir(daemon.folder.path());
    let output = command.output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    assert!(daemon.ok(&["status"]).contains("pid"), "it lives: {said}");
}
