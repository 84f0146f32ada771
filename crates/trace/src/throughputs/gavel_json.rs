//! Gavel's table in JSON: GPU type → job type and gang size → alone (`null`) or beside another such job.

use super::draft::{Draft, Gang, Placement, checked_speed};
use crate::cell;
use crate::error::{Fault, Problem, TraceError, excerpt};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;

/// Ends the GPU types whose speeds are of gangs spread over nodes.
pub(super) const SPREAD_ENDING: &str = "_unconsolidated";

/// A JSON object in the order of the file, with keys that appear twice still there to be refused.
struct Entries<T>(Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for EntriesVisitor<T> {
            type Value = Entries<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(EntriesVisitor(PhantomData))
    }
}

type Jobs = Entries<Entries<Value>>;

pub(super) fn read(text: &str, draft: &mut Draft) -> Result<(), TraceError> {
    let file = serde_json::from_str::<Entries<Jobs>>(text).map_err(|error| json_error(text, &error, draft))?;
    let gpu_types = file.0.iter().map(|(name, _)| name.as_str()).collect::<HashSet<_>>();
    let mut seen = HashSet::new();
    for (name, jobs) in &file.0 {
        let read =
            if seen.insert(name) { read_gpu_type(name, jobs, &gpu_types, draft) } else { Err(Problem::RepeatedKey.into()) };
        read.map_err(|fault| draft.error(0, fault.inside(name)))?;
    }
    Ok(())
}

fn read_gpu_type(name: &str, jobs: &Jobs, gpu_types: &HashSet<&str>, draft: &mut Draft) -> Result<(), Fault> {
    let (gpu_type, placement) = match name.strip_suffix(SPREAD_ENDING) {
        None => (name, Placement::Close),
        Some(base) if gpu_types.contains(base) => (base, Placement::Spread),
        Some(_) => return Err(Problem::Missing { wanted: "the GPU type without `_unconsolidated` as well" }.into()),
    };
    let gpu_type = cell::gpu_type(gpu_type)?;
    if jobs.0.is_empty() {
        return Err(Problem::Missing { wanted: "a key such as `('net', 1)` for each job type and gang size" }.into());
    }
    let keys = jobs.0.iter().map(|(key, _)| key.as_str()).collect::<HashSet<_>>();
    let mut seen = HashSet::new();
    for (key, speeds) in &jobs.0 {
        let mut read_job = || {
            if !seen.insert(key) {
                return Err(Problem::RepeatedKey.into());
            }
            let gang = gang(key)?;
            let job = JobEntry { gang: &gang, gpu_type, placement };
            job.read(speeds, &keys, draft)
        };
        read_job().map_err(|fault| fault.inside(key))?;
    }
    Ok(())
}

/// The speeds of one job type and gang size on one GPU type.
struct JobEntry<'e> {
    gang: &'e Gang,
    gpu_type: &'e str,
    placement: Placement,
}

impl JobEntry<'_> {
    fn read(&self, speeds: &Entries<Value>, keys: &HashSet<&str>, draft: &mut Draft) -> Result<(), Fault> {
        let mut seen = HashSet::new();
        for (key, value) in &speeds.0 {
            if !seen.insert(key.as_str()) {
                return Err(Fault::from(Problem::RepeatedKey).inside(key));
            }
            let read = if key == "null" {
                speed(value).and_then(|speed| draft.set(self.gang, self.placement, self.gpu_type, speed))
            } else {
                self.read_pair(key, value, keys, draft)
            };
            read.map_err(|problem| Fault::from(problem).inside(key))?;
        }
        if seen.contains("null") { Ok(()) } else { Err(Problem::Missing { wanted: "the speed of the job alone" }.within("null")) }
    }

    fn read_pair(&self, key: &str, value: &Value, keys: &HashSet<&str>, draft: &mut Draft) -> Result<(), Problem> {
        let second = gang(key)?;
        if !keys.contains(key) {
            return Err(Problem::Missing { wanted: "an entry of its own for this job type and gang size as well" });
        }
        let speeds = match value {
            Value::Array(speeds) if speeds.len() == 2 => (speed(&speeds[0])?, speed(&speeds[1])?),
            other => return Err(Problem::malformed(&other.to_string(), "a list of two speeds")),
        };
        // Gavel's pairs of spread gangs only repeat those of gangs close together: they were not measured.
        match self.placement {
            Placement::Close => draft.set_pair(0, self.gang, &second, self.gpu_type, speeds),
            Placement::Spread => Ok(()),
        }
    }
}

fn speed(value: &Value) -> Result<f64, Problem> {
    let text = value.to_string();
    let number = value.as_f64().ok_or_else(|| Problem::malformed(&text, "a number of steps per second"))?;
    checked_speed(&text, number)
}

/// A key as Python spells a text and a number: `('net', 1)`, or `("the teacher's net", 1)`.
fn gang(key: &str) -> Result<Gang, Problem> {
    let malformed = || Problem::malformed(key, "a job type and a gang size such as `('net', 1)`");
    let inner = key.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).ok_or_else(malformed)?;
    let mut letters = inner.chars();
    let quote = letters.next().filter(|mark| matches!(mark, '\'' | '"')).ok_or_else(malformed)?;
    let mut name = String::new();
    loop {
        match letters.next().ok_or_else(malformed)? {
            '\\' => name.push(letters.next().filter(|letter| matches!(letter, '\'' | '"' | '\\')).ok_or_else(malformed)?),
            letter if letter == quote => break,
            letter => name.push(letter),
        }
    }
    let gpus = letters.as_str().trim_start().strip_prefix(',').ok_or_else(malformed)?;
    Gang::new(&name, cell::gpus(gpus.trim())?)
}

/// What the JSON reader says, with the line and the last key before it, which numbers such as `NaN` stand under.
fn json_error(text: &str, error: &serde_json::Error, draft: &Draft) -> TraceError {
    let message = error.to_string();
    let message = message.rfind(" at line ").map_or(message.as_str(), |end| &message[..end]);
    let line_start = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum::<usize>();
    let before = text.get(..line_start.saturating_add(error.column())).unwrap_or(text);
    let key = before.rfind("\":").and_then(|end| Some(&before[before[..end].rfind('"')? + 1..end]));
    let problem = Problem::ThroughputJson { message: message.to_owned() };
    let fault = Fault { field: key.map(|key| excerpt(key).into()), problem };
    draft.error(u32::try_from(error.line()).unwrap_or(0), fault)
}

impl Fault {
    /// The fault, one level further out.
    fn inside(self, key: &str) -> Self {
        let key = excerpt(key);
        let field = self.field.map_or(key.clone(), |inner| format!("{key}: {inner}"));
        Self { field: Some(field.into()), problem: self.problem }
    }
}

#[cfg(test)]
mod tests {
    use crate::parse_throughputs;

    #[test]
    fn faults_name_the_file_and_the_keys() {
        for (text, message) in [
            ("{}", "t: is missing: give a line for each job type and gang size"),
            (r#"{"v100": {}}"#, "t: v100: is missing: give a key such as `('net', 1)` for each job type and gang size"),
            (r#"{"v100": {"('a', 1)": {}}}"#, "t: v100: ('a', 1): null: is missing: give the speed of the job alone"),
            (
                r#"{"v100": {"('a', 1)": {"null": -1}}}"#,
                "t: v100: ('a', 1): null: `-1` is out of range: give steps per second from 0 to 1e12",
            ),
            (
                r#"{"v100": {"('a', 1)": {"null": 1e300}}}"#,
                "t: v100: ('a', 1): null: `1e+300` is out of range: give steps per second from 0 to 1e12",
            ),
            (
                r#"{"v100": {"('a', 1)": {"null": "fast"}}}"#,
                "t: v100: ('a', 1): null: `\"fast\"` is not a number of steps per second",
            ),
            (r#"{"v100": {"a": {"null": 1}}}"#, "t: v100: a: `a` is not a job type and a gang size such as `('net', 1)`"),
            (
                r#"{"v100": {"('a', 0)": {"null": 1}}}"#,
                "t: v100: ('a', 0): `0` is out of range: give a number of GPUs from 1 to 1000000",
            ),
            (r#"{"v100": {"('a', 1)": {"null": 1, "null": 1}}}"#, "t: v100: ('a', 1): null: appears twice"),
            (r#"{"v100": {"('a', 1)": {"null": 1}, "('a', 1)": {"null": 1}}}"#, "t: v100: ('a', 1): appears twice"),
            (r#"{"v100": {"('a', 1)": {"null": 1}}, "v100": {}}"#, "t: v100: appears twice"),
            (
                r#"{"v100_unconsolidated": {"('a', 1)": {"null": 1}}}"#,
                "t: v100_unconsolidated: is missing: give the GPU type without `_unconsolidated` as well",
            ),
            (
                r#"{"v100": {"('a', 1)": {"null": 1, "('b', 1)": [1, 1]}}}"#,
                "t: v100: ('a', 1): ('b', 1): is missing: give an entry of its own for this job type and gang size as well",
            ),
            (
                r#"{"v100": {"('a', 1)": {"null": 1, "('a', 1)": [1]}}}"#,
                "t: v100: ('a', 1): ('a', 1): `[1]` is not a list of two speeds",
            ),
            (
                r#"{"v100": {"('a', 1)": {"null": 1, "('b', 1)": [3, 2]}, "('b', 1)": {"null": 1, "('a', 1)": [3, 2]}}}"#,
                "t: v100: ('b', 1): ('a', 1): `[3, 2]` contradicts `[2, 3]`, given for the same before",
            ),
            ("{\"v100\": {\"('a', 1)\": {\n\"null\": NaN}}}", "t:2: null: is not a throughput table in JSON: expected value"),
            (
                "{\"v100\": {\"('a', 1)\": {\n\"null\": 1e999}}}",
                "t:2: null: is not a throughput table in JSON: number out of range",
            ),
            ("{\"v100\": 1}", "t:1: v100: is not a throughput table in JSON: invalid type: integer `1`, expected an object"),
            ("[{}]", "t:1: is not a throughput table in JSON: invalid type: sequence, expected an object"),
        ] {
            assert_eq!(parse_throughputs("t", text.as_bytes()).unwrap_err().to_string(), message, "{text}");
        }
        let deep = format!("{{\"a\":{{\"b\":{{\"c\":{}", "[".repeat(100_000));
        assert!(parse_throughputs("t", deep.as_bytes()).unwrap_err().to_string().contains("recursion limit"));
    }

    #[test]
    fn python_quotes_names_in_either_way() {
        let text = r#"{"v100": {"(\"the teacher's net\", 1)": {"null": 1}, "('a \\'b\\' \\\\', 2)": {"null": 2}}}"#;
        let table = parse_throughputs("t", text.as_bytes()).unwrap();
        assert_eq!((table.get("the teacher's net", 1, "v100"), table.get("a 'b' \\", 2, "v100")), (Some(1.0), Some(2.0)));
    }
}
