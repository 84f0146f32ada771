//! How the daemon's scheduler is set, for simulations of the site's own past.

use rota_core::{Cluster, Span};
use rota_daemon::Replay;
use rota_daemon::api::SchedulerSettings;
use rota_engine::MinRun;
use rota_sim::{Mechanism, Restart, SimOptions};

/// How long a job runs at the least before it is stopped for others, in restarts, where the daemon's settings do not say.
const MIN_RUN_RESTARTS: u32 = 10;

/// The settings that came with the past.
pub fn settings_of(replay: &Replay) -> anyhow::Result<&SchedulerSettings> {
    let settings = replay.scheduler.as_ref();
    settings.ok_or_else(|| anyhow::anyhow!("the daemon is of an older version: restart it with `rota up`"))
}

/// The machine as jobs were given it: without the memory that the daemon keeps free on each GPU.
pub fn given_out(mut cluster: Cluster, settings: &SchedulerSettings) -> Cluster {
    for kind in &mut cluster.types {
        kind.memory_mib = kind.memory_mib.saturating_sub(settings.buffer_mib);
    }
    cluster
}

/// The options of a simulation that decides as the daemon does. A restart cost and a seed that are given take the place of the daemon's.
pub fn as_set(settings: &SchedulerSettings, restart_cost: Option<Span>, seed: Option<u64>) -> anyhow::Result<SimOptions> {
    let set_cost = settings.restart_seconds.and_then(Span::from_seconds);
    let min_run = settings.min_run_seconds.and_then(Span::from_seconds).map_or(MinRun::Restarts(MIN_RUN_RESTARTS), MinRun::For);
    let round = settings.round_seconds.and_then(Span::from_seconds);
    Ok(SimOptions {
        mechanism: round.map_or(Mechanism::Event, |length| Mechanism::Rounds { length }),
        seed: seed.unwrap_or(settings.seed),
        score: settings.place.parse()?,
        restart: Restart { cost: restart_cost.or(set_cost).unwrap_or_default(), checkpoint: None, min_run },
        ..SimOptions::default()
    })
}
