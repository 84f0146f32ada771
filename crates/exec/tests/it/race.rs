//! A job starts once or never, whoever dies when, and the answer given is the truth.

use std::path::Path;
use std::time::Duration;

use rota_exec::{AdoptError, Adopted, LostReason, adopt, job_processes, kill_leftovers};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Place, end_of, launcher, until};

const JOB: &str = "echo x >> started; exit 7";

fn starts(place: &Place) -> usize {
    std::fs::read_to_string(place.path().join("started")).map_or(0, |text| text.lines().count())
}

/// Waits for whoever supervises, if anybody does, and checks that what is said fits what happened.
fn check(place: &Place, round: u64, said: Adopted) -> &'static str {
    let said = match said {
        Adopted::Running(mut supervisor) => {
            end_of_stranger(&mut supervisor);
            adopt(&place.dir()).unwrap()
        }
        other => other,
    };
    match said {
        Adopted::Ended(record) => {
            assert_eq!((record.code, starts(place)), (Some(7), 1), "round {round}");
            "ended"
        }
        Adopted::NeverStarted => {
            assert_eq!(starts(place), 0, "round {round}");
            "never started"
        }
        Adopted::Lost(LostReason::SupervisorKilled) => {
            kill_leftovers(&place.dir());
            assert!(starts(place) <= 1, "round {round}");
            assert_eq!(job_processes(&place.dir()), [0_u32; 0], "round {round}");
            "lost"
        }
        other => panic!("round {round}: {other:?}"),
    }
}

fn end_of_stranger(supervisor: &mut rota_exec::Supervisor) {
    until("the end of a supervisor", || supervisor.has_ended().unwrap());
}

#[test]
fn adoption_while_the_supervisor_starts() {
    let mut counts = Counts::default();
    for round in 0..200_u64 {
        let place = Place::new();
        let supervisor = place.launch(&place.shell(JOB));
        // From before the supervisor has the lock until after the job has ended.
        spin(Duration::from_micros(round * 50));
        let said = adopt(&place.dir()).unwrap();
        let never = matches!(said, Adopted::NeverStarted);
        counts.add(check(&place, round, said));
        end_of(&supervisor);
        let now = adopt(&place.dir()).unwrap();
        assert_eq!(never, matches!(now, Adopted::NeverStarted), "round {round}: what was said still holds");
        check(&place, round, now);
    }
}

#[test]
fn many_adopt_at_once() {
    let mut counts = Counts::default();
    for round in 0..30_u64 {
        let place = Place::new();
        let supervisor = place.launch(&place.shell(JOB));
        spin(Duration::from_micros(round * 60));
        let never = std::thread::scope(|scope| {
            let adopters: Vec<_> =
                (0..4).map(|_| scope.spawn(|| matches!(adopt(&place.dir()).unwrap(), Adopted::NeverStarted))).collect();
            adopters.into_iter().map(|adopter| adopter.join().unwrap()).collect::<Vec<bool>>()
        });
        assert!(never.iter().all(|said| *said == never[0]), "round {round}: {never:?}");
        end_of(&supervisor);
        counts.add(check(&place, round, adopt(&place.dir()).unwrap()));
    }
}

#[test]
fn supervisors_killed_at_any_moment() {
    let mut counts = Counts::default();
    for round in 0..150_u64 {
        let place = Place::new();
        let supervisor = place.launch(&place.shell(JOB));
        spin(Duration::from_micros(round * 80));
        let pid = Pid::from_raw(supervisor.identity().pid.cast_signed()).unwrap();
        // Its job is short: one that has ended by itself is not there to be killed.
        let killed = kill_process(pid, Signal::KILL);
        assert!(matches!(killed, Ok(()) | Err(Errno::SRCH)), "{killed:?}");
        end_of(&supervisor);
        counts.add(check(&place, round, adopt(&place.dir()).unwrap()));
    }
}

#[test]
fn launchers_killed_at_any_moment() {
    let mut counts = Counts::default();
    for round in 0..80_u64 {
        let place = Place::new();
        let mut process = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "race::launcher_process"])
            .env("ROTA_TEST_PLACE", place.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        if round < 60 {
            until("the launch or its end", || place.dir().exists());
            spin(Duration::from_micros(round * 50));
        } else {
            std::thread::sleep(Duration::from_micros((round - 60) * 300));
        }
        process.kill().unwrap();
        process.wait().unwrap();
        match adopt(&place.dir()) {
            Ok(said) => counts.add(check(&place, round, said)),
            Err(AdoptError::Missing { .. }) => {
                assert_eq!(starts(&place), 0);
                counts.add("not begun");
            }
            Err(error) => panic!("round {round}: {error}"),
        }
    }
}

/// The process that `launchers_killed_at_any_moment` kills; by itself it has nothing to do.
#[test]
fn launcher_process() {
    let Some(path) = std::env::var_os("ROTA_TEST_PLACE") else { return };
    let path = Path::new(&path);
    let mut spec = Place::new().shell(JOB);
    spec.cwd = path.to_owned();
    spec.log = path.join("run/log");
    let supervisor = launcher().launch(&path.join("run"), &spec).unwrap();
    end_of(&supervisor);
}

/// How often each moment was hit, for the reader: which ones are depends on the machine.
#[derive(Debug, Default)]
struct Counts(std::collections::BTreeMap<&'static str, u32>);

impl Counts {
    fn add(&mut self, said: &'static str) {
        *self.0.entry(said).or_default() += 1;
    }
}

impl Drop for Counts {
    fn drop(&mut self) {
        eprintln!("{:?}", self.0);
    }
}

/// Waits without giving the processor away: sleeps are too coarse to hit moments this short.
fn spin(time: Duration) {
    let since = std::time::Instant::now();
    while since.elapsed() < time {
        std::hint::spin_loop();
    }
}
