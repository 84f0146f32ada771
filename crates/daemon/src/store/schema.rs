//! The tables of the store, as numbered migrations: a database of an earlier version is brought up to date one step at a time.

/// Each step brings a database from the version of its place to the next one.
pub const MIGRATIONS: &[&str] = &["
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE environments (id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, content TEXT NOT NULL) STRICT;
CREATE TABLE jobs (
  id INTEGER PRIMARY KEY, uid INTEGER NOT NULL, user TEXT NOT NULL, key TEXT, spec TEXT NOT NULL,
  env_id INTEGER NOT NULL REFERENCES environments(id), state TEXT NOT NULL, user_hold INTEGER NOT NULL, exit_code INTEGER, signal INTEGER,
  reason TEXT, gpu_uuids TEXT NOT NULL, gpu_indices TEXT NOT NULL, submitted_ns INTEGER NOT NULL, started_ns INTEGER, finished_ns INTEGER,
  arrived_at INTEGER NOT NULL, started_at INTEGER, attempts INTEGER NOT NULL, failures INTEGER NOT NULL, preemptions INTEGER NOT NULL,
  service_ns INTEGER NOT NULL, not_before INTEGER, cancel INTEGER NOT NULL, peak_memory_mib INTEGER, energy_joules REAL) STRICT;
CREATE INDEX jobs_unfinished ON jobs(id) WHERE state IN ('waiting','held','starting','running','stopping');
CREATE INDEX jobs_finished ON jobs(finished_ns) WHERE finished_ns IS NOT NULL;
CREATE INDEX jobs_key ON jobs(uid, key) WHERE key IS NOT NULL;
CREATE TABLE events (seq INTEGER PRIMARY KEY, wall_ns INTEGER NOT NULL, at INTEGER NOT NULL, job INTEGER, kind TEXT NOT NULL, detail TEXT NOT NULL) STRICT;
CREATE INDEX events_of_job ON events(job) WHERE job IS NOT NULL;
CREATE TABLE gpu_samples (
  gpu TEXT NOT NULL, wall_s INTEGER NOT NULL, span_s INTEGER NOT NULL, memory_used_mib REAL, utilisation REAL, memory_utilisation REAL,
  power_watts REAL, temperature_c REAL, PRIMARY KEY (gpu, wall_s)) STRICT, WITHOUT ROWID;
CREATE INDEX gpu_samples_by_time ON gpu_samples(wall_s);
CREATE TABLE job_samples (
  job INTEGER NOT NULL, wall_s INTEGER NOT NULL, span_s INTEGER NOT NULL, memory_mib REAL, utilisation REAL, power_watts REAL,
  PRIMARY KEY (job, wall_s)) STRICT, WITHOUT ROWID;
CREATE INDEX job_samples_by_time ON job_samples(wall_s);
", "
ALTER TABLE jobs ADD COLUMN memory_mib INTEGER;
ALTER TABLE jobs ADD COLUMN ooms INTEGER NOT NULL DEFAULT 0;
CREATE TABLE profiles (
  uid INTEGER NOT NULL, class TEXT NOT NULL, gpu_type TEXT NOT NULL, content TEXT NOT NULL, PRIMARY KEY (uid, class, gpu_type)) STRICT, WITHOUT ROWID;
", "
CREATE TABLE tokens (
  id INTEGER PRIMARY KEY AUTOINCREMENT, hash BLOB NOT NULL UNIQUE, uid INTEGER NOT NULL, user TEXT NOT NULL, name TEXT NOT NULL, scope TEXT NOT NULL,
  created_ns INTEGER NOT NULL, expires_ns INTEGER, used_ns INTEGER, UNIQUE (uid, name)) STRICT;
", "
CREATE TABLE runs (
  job INTEGER NOT NULL, attempt INTEGER NOT NULL, user TEXT NOT NULL, name TEXT, project TEXT, gpus TEXT NOT NULL, share_milli INTEGER NOT NULL,
  start_ns INTEGER NOT NULL, end_ns INTEGER, ending TEXT, energy_joules REAL, idle_s REAL, known_s REAL,
  length_class INTEGER GENERATED ALWAYS AS (CASE
    WHEN end_ns IS NULL THEN NULL
    WHEN end_ns - start_ns <= 60000000000 THEN 0
    WHEN end_ns - start_ns <= 3600000000000 THEN 1
    WHEN end_ns - start_ns <= 86400000000000 THEN 2
    WHEN end_ns - start_ns <= 2592000000000000 THEN 3
    ELSE 4 END) VIRTUAL,
  PRIMARY KEY (job, attempt)) STRICT, WITHOUT ROWID;
CREATE INDEX gpu_samples_fine ON gpu_samples(wall_s) WHERE span_s < 60;
CREATE INDEX job_samples_fine ON job_samples(wall_s) WHERE span_s < 60;
CREATE INDEX runs_by_length ON runs(length_class, start_ns);
CREATE TABLE gpus (uuid TEXT PRIMARY KEY, number INTEGER NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL, seen_ns INTEGER NOT NULL) STRICT;
INSERT OR IGNORE INTO runs (job, attempt, user, name, gpus, share_milli, start_ns, end_ns, ending, energy_joules)
  SELECT began.job, json_extract(began.detail, '$.attempt'), jobs.user, json_extract(jobs.spec, '$.name'), json_extract(began.detail, '$.uuids'), 1000,
    began.wall_ns, max(began.wall_ns, ended.wall_ns), ended.kind, CASE WHEN jobs.attempts = 1 THEN jobs.energy_joules END
  FROM events AS began JOIN jobs ON jobs.id = began.job
  LEFT JOIN events AS ended ON ended.seq = (
    SELECT min(seq) FROM events AS later WHERE later.job = began.job AND later.seq > began.seq
      AND later.kind IN ('finished','failed','preempted','evicted','retried','cancelled','lost'))
  WHERE began.kind = 'started' AND json_array_length(began.detail, '$.uuids') > 0;
", "
CREATE TABLE clients (job INTEGER PRIMARY KEY, requested_ns INTEGER NOT NULL, tie TEXT) STRICT;
", "
CREATE TABLE notify_targets (
  id INTEGER PRIMARY KEY AUTOINCREMENT, uid INTEGER, user TEXT NOT NULL, kind TEXT NOT NULL, address TEXT NOT NULL, secret TEXT, on_events TEXT NOT NULL,
  is_trusted INTEGER NOT NULL, told INTEGER NOT NULL, given_up INTEGER NOT NULL, problem TEXT) STRICT;
", "
ALTER TABLE events ADD COLUMN version INTEGER NOT NULL DEFAULT 1;
ALTER TABLE jobs ADD COLUMN stop_cause TEXT;
ALTER TABLE jobs ADD COLUMN quota_hold INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN identity TEXT;
ALTER TABLE jobs ADD COLUMN priority INTEGER;
UPDATE jobs SET stop_cause = '\"cancel\"' WHERE state = 'stopping';
CREATE TABLE images (id INTEGER PRIMARY KEY CHECK (id = 1), seq INTEGER NOT NULL, content BLOB NOT NULL) STRICT;
", "
ALTER TABLE jobs ADD COLUMN progress TEXT;
", "
CREATE TABLE commands (id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, content TEXT NOT NULL) STRICT;
ALTER TABLE jobs ADD COLUMN command_id INTEGER REFERENCES commands(id);
CREATE TABLE arrays (first INTEGER PRIMARY KEY, content TEXT NOT NULL) STRICT;
", "
ALTER TABLE jobs ADD COLUMN group_id INTEGER GENERATED ALWAYS AS (CASE WHEN json_valid(spec) THEN json_extract(spec, '$.membership.group') END) VIRTUAL;
ALTER TABLE jobs ADD COLUMN group_place INTEGER GENERATED ALWAYS AS (CASE WHEN json_valid(spec) THEN json_extract(spec, '$.membership.place') END) VIRTUAL;
CREATE INDEX jobs_of_group ON jobs(group_id, group_place) WHERE group_id IS NOT NULL;
", "
DROP INDEX jobs_of_group;
ALTER TABLE jobs DROP COLUMN group_id;
ALTER TABLE jobs DROP COLUMN group_place;
ALTER TABLE jobs ADD COLUMN group_id INTEGER;
ALTER TABLE jobs ADD COLUMN group_place INTEGER;
UPDATE jobs SET group_id = json_extract(spec, '$.membership.group'), group_place = json_extract(spec, '$.membership.place')
  WHERE CASE WHEN json_valid(spec) THEN json_extract(spec, '$.membership.group') END IS NOT NULL;
CREATE INDEX jobs_of_group ON jobs(group_id, group_place) WHERE group_id IS NOT NULL;
", "
CREATE INDEX events_of_ends ON events(seq) WHERE kind IN ('finished','failed','cancelled','lost');
"];
