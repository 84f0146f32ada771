//! From start to stop: what is done in which order, and what jobs are told.

use crate::place::{Place, STAND_IN, lives, mode_of, own_uid};
use rota_gpu::{ComputeMode, Mps, MpsError};
use std::path::Path;
use std::time::{Duration, Instant};

#[test]
fn the_mode_is_written_down_then_set_then_the_daemon_started_and_put_back_after_it_has_ended() {
    let mut place = Place::new();
    let modes = place.modes();
    let (user, uuid) = (own_uid(), place.device.uuid.clone());
    assert_eq!(place.mps.user_of(&uuid), None);
    let domain = place.start(&modes).unwrap();
    assert_eq!((domain.uuid.as_str(), domain.uid, domain.notes.len()), (uuid.as_str(), user, 0));
    let state = format!(r#"{{"version":1,"uid":{user},"mode_before":"default"}}"#);
    assert_eq!(
        place.done(),
        [
            "get_server_list",
            &format!("set ExclusiveProcess knowing {state}"),
            &format!(
                "-d CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_MPS_LOG_DIRECTORY=@/log CUDA_MPS_PIPE_DIRECTORY=@/pipe CUDA_VISIBLE_DEVICES={uuid}"
            ),
            "get_server_list",
        ]
    );
    assert_eq!((modes.mode.get(), place.mps.user_of(&uuid)), (ComputeMode::ExclusiveProcess, Some(user)));
    place.mps.health(&uuid).unwrap();
    assert_eq!(place.done(), ["get_server_list"]);

    place.stop(&modes).unwrap();
    assert_eq!(place.done(), ["get_server_list", "quit", &format!("set Default knowing {state}")]);
    assert_eq!((modes.mode.get(), place.state(), place.mps.user_of(&uuid)), (ComputeMode::Default, None, None));
    assert!(matches!(place.mps.health(&uuid), Err(MpsError::NotRunning)));
    place.done();
    place.stop(&modes).unwrap();
    assert_eq!(place.done(), [""; 0], "what is stopped is not stopped again");
}

#[test]
fn a_gpu_that_is_shared_already_is_left_as_it_is() {
    let mut place = Place::with(&[("servers", "100\n"), ("clients.100", "7\n")]);
    let modes = place.modes();
    place.start(&modes).unwrap();
    let (daemon, state) = (place.daemon(), place.state());
    place.done();
    place.start(&modes).unwrap();
    assert_eq!(place.done(), ["get_server_list", "get_client_list 100"]);
    assert_eq!((place.daemon(), place.state()), (daemon, state));
}

#[test]
fn a_daemon_that_died_is_started_again_and_the_first_mode_is_still_the_one_to_put_back() {
    let mut place = Place::new();
    let modes = place.modes();
    place.start(&modes).unwrap();
    place.lose_daemon();
    place.start(&modes).unwrap();
    assert!(place.done().iter().filter(|call| call.starts_with("-d")).count() == 2);
    place.stop(&modes).unwrap();
    assert_eq!(modes.mode.get(), ComputeMode::Default);
}

#[test]
fn everyone_may_pass_to_the_sockets_and_only_the_owner_write_there() {
    let mut place = Place::new();
    place.start(&place.modes()).unwrap();
    let modes = ["..", ".", "pipe", "log", "state.json"].map(|name| format!("{:04o}", mode_of(&place.path(name))));
    assert_eq!(modes, ["0711", "0711", "0755", "0700", "0600"]);
}

#[test]
fn a_job_is_told_where_its_domain_is_and_what_it_may_use() {
    let mps = Mps::new(Path::new(STAND_IN), Path::new("/var/lib/rota/mps"));
    let told = |uuid: &str, threads, memory| {
        let environment = mps.environment(uuid, threads, memory).into_iter();
        environment.map(|(name, value)| format!("{}={}", name.display(), value.display())).collect::<Vec<_>>()
    };
    assert_eq!(
        told("GPU-1", Some(50), Some(8192)),
        [
            "CUDA_MPS_PIPE_DIRECTORY=/var/lib/rota/mps/GPU-1/pipe",
            "CUDA_VISIBLE_DEVICES=GPU-1",
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50",
            "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=8192M",
        ]
    );
    assert_eq!(told("GPU-1", None, None).len(), 2, "no limits that were not asked for");
    assert_eq!(told("GPU-1", Some(0), None)[2], "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=1");
    assert_eq!(told("GPU-1", Some(255), None)[2], "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=100");
    assert_eq!(told("PCI-00000000:01:00.0", None, None)[1], "CUDA_VISIBLE_DEVICES=0", "the server numbers its GPU anew");
    let relative = Mps::new(Path::new(STAND_IN), Path::new("state/mps")).environment("GPU-1", None, None);
    assert!(Path::new(&relative[0].1).is_absolute(), "a job has a working directory of its own");
}

#[test]
fn what_cuda_finds_in_our_own_environment_does_not_reach_the_daemon() {
    const APART: &str = "ROTA_GPU_TEST_APART";
    if std::env::var_os(APART).is_some() {
        let mut place = Place::new();
        place.start(&place.modes()).unwrap();
        let done = place.done();
        assert!(done.iter().any(|call| call.starts_with("-d ")), "{done:?}");
        assert!(!done.iter().any(|call| call.contains("PERCENTAGE") || call == "more variables"), "{done:?}");
        return;
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["life::what_cuda_finds_in_our_own_environment_does_not_reach_the_daemon", "--exact"])
        .env(APART, "yes")
        .env("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "10")
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && words.contains("1 passed"), "{words}");
}

#[test]
fn clients_of_a_job_are_terminated_on_the_server_they_are_on() {
    let mut place = Place::with(&[("servers", "100\n200\n300\n"), ("clients.100", "1\n2\n"), ("clients.200", "3\n2\n")]);
    place.start(&place.modes()).unwrap();
    place.done();
    assert_eq!(place.mps.terminate_clients(&place.device.uuid, &[9, 2, 3]).unwrap(), 3);
    assert_eq!(
        place.done(),
        [
            "get_server_list",
            "get_client_list 100",
            "get_client_list 200",
            "get_client_list 300",
            "terminate_client 100 2",
            "terminate_client 200 3",
            "terminate_client 200 2",
        ],
        "and a server that ended in between has none"
    );
    assert_eq!(place.mps.terminate_clients(&place.device.uuid, &[9]).unwrap(), 0);
}

#[test]
fn a_client_that_ended_by_itself_is_no_problem_and_one_that_stays_is() {
    let mut place = Place::with(&[("servers", "100\n200\n"), ("clients.100", "1\n"), ("clients.200", "2\n"), ("ends.1", "")]);
    place.start(&place.modes()).unwrap();
    assert_eq!(place.mps.terminate_clients(&place.device.uuid, &[1, 2]).unwrap(), 1);

    place.tell("clients.100", "1\n");
    place.tell("answer.1", "CUDA_ERROR_UNKNOWN");
    place.done();
    let error = place.mps.terminate_clients(&place.device.uuid, &[1, 2]).unwrap_err();
    assert_eq!(error.to_string(), "`nvidia-cuda-mps-control` answered `terminate_client 100 1` with `CUDA_ERROR_UNKNOWN`");
    assert!(place.done().contains(&"terminate_client 200 2".to_owned()), "the other one nevertheless");

    place.lose_daemon();
    assert_eq!(place.mps.terminate_clients(&place.device.uuid, &[1, 2]).unwrap(), 0, "without a daemon there is nobody to spare");
}

#[test]
fn a_server_that_never_lets_a_client_go_is_waited_for_once() {
    let mut place = Place::with(&[("servers", "100\n"), ("clients.100", "1\n2\n3\n")]).impatient();
    place.start(&place.modes()).unwrap();
    place.tell("hang", "terminate_client");
    let before = Instant::now();
    let error = place.mps.terminate_clients(&place.device.uuid, &[1, 2, 3]).unwrap_err();
    assert!(matches!(&error, MpsError::Timeout { command, .. } if command == "terminate_client 100 1"), "{error}");
    assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
}

#[test]
fn a_domain_in_use_is_not_stopped() {
    let mut place = Place::with(&[("servers", "100\n200\n"), ("clients.100", "7\n7\n"), ("clients.200", "5\n")]);
    let modes = place.modes();
    place.start(&modes).unwrap();
    place.done();
    let error = place.stop(&modes).unwrap_err();
    assert_eq!(error.to_string(), "processes still use MPS: 5, 7");
    assert!(!place.done().contains(&"quit".to_owned()), "it would wait for them, and turn others away");
    assert!(place.state().is_some() && modes.mode.get() == ComputeMode::ExclusiveProcess);
    place.mps.health(&place.device.uuid).unwrap();
}

#[test]
fn stopping_waits_for_the_daemon_to_be_gone_and_starting_for_its_answer() {
    let mut place = Place::with(&[("slow", "")]);
    let modes = place.modes();
    for _ in 0..2 {
        place.start(&modes).unwrap();
        place.mps.health(&place.device.uuid).unwrap();
        let daemon = place.daemon();
        assert!(lives(daemon));
        place.stop(&modes).unwrap();
        assert!(!lives(daemon));
    }
}
