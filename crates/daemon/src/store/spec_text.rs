//! A job's specification as text: first what was asked for, which the jobs of an array have in common, then what is the job's own. Both are
//! members of one JSON object. The common part is written once and read once for as many jobs as have it.

use crate::api::Submit;
use crate::store::record::Spec;
use serde::Deserialize;
use serde_json::Error;
use std::collections::HashMap;
use std::sync::Arc;

/// The first member of a job's own part. In a text it cannot stand inside a string, where its quotes would be escaped.
const OWN_PART: &str = ",\"gid\":";
/// Bytes of common parts that a reader knows; with more of them it begins anew.
const KNOWN_BYTES_MAX: usize = 1 << 20;

/// The text of a specification, with a common part that was written before.
pub fn text(common: &str, spec: &Spec) -> Result<String, Error> {
    let own = serde_json::to_string(spec)?;
    let common = common.strip_suffix('}').unwrap_or(common);
    Ok(format!("{common},{}", own.strip_prefix('{').unwrap_or(&own)))
}

/// Reads specifications. Those with the same common part share it in memory.
#[derive(Default)]
pub struct SpecReader {
    known: HashMap<(String, Option<i64>), Arc<Submit>>,
    known_bytes: usize,
}

impl SpecReader {
    /// The specification of a text. `command` puts in its place the command that is kept apart from it, in the row of this number.
    pub fn read<E: From<Error>>(
        &mut self,
        text: &str,
        command_row: Option<i64>,
        command: impl FnOnce(&mut Submit) -> Result<(), E>,
    ) -> Result<Spec, E> {
        let Some((common, own)) = text.split_once(OWN_PART) else { return whole(text, command) };
        let Ok(mut spec) = serde_json::from_str::<Spec>(&format!("{{{}{own}", &OWN_PART[1..])) else {
            return whole(text, command);
        };
        let key = (common.to_owned(), command_row);
        if let Some(ask) = self.known.get(&key) {
            spec.ask = Arc::clone(ask);
            return Ok(spec);
        }
        let Ok(mut ask) = serde_json::from_str::<Submit>(&format!("{common}}}")) else { return whole(text, command) };
        command(&mut ask)?;
        spec.ask = Arc::new(ask);
        if self.known_bytes + key.0.len() > KNOWN_BYTES_MAX {
            (self.known, self.known_bytes) = (HashMap::new(), 0);
        }
        self.known_bytes += key.0.len();
        self.known.insert(key, Arc::clone(&spec.ask));
        Ok(spec)
    }
}

/// A specification whose members may be in any order.
#[derive(Deserialize)]
struct Whole {
    #[serde(flatten)]
    ask: Submit,
    #[serde(flatten)]
    own: Spec,
}

fn whole<E: From<Error>>(text: &str, command: impl FnOnce(&mut Submit) -> Result<(), E>) -> Result<Spec, E> {
    let Whole { mut ask, own } = serde_json::from_str(text)?;
    command(&mut ask)?;
    Ok(Spec { ask: Arc::new(ask), ..own })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::text::Text;

    fn read(reader: &mut SpecReader, text: &str) -> Spec {
        reader.read::<Error>(text, None, |_| Ok(())).unwrap()
    }

    #[test]
    fn jobs_of_an_array_share_what_was_asked_for() {
        let ask = Arc::new(Submit { command: Arc::new(vec![Text::from("run,\"gid\":")]), ..Submit::default() });
        let common = serde_json::to_string(&*ask).unwrap();
        let spec = |index| Spec { ask: Arc::clone(&ask), gid: 7, array_index: Some(index), is_template: true, ..Spec::default() };
        let mut reader = SpecReader::default();
        let [one, other] = [1, 2].map(|index| read(&mut reader, &text(&common, &spec(index)).unwrap()));
        assert_eq!((&one, &other), (&spec(1), &spec(2)));
        assert!(Arc::ptr_eq(&one.ask, &other.ask));
    }

    #[test]
    fn members_in_another_order_are_read_too() {
        let text = r#"{"gid":3,"array_index":5,"cwd":"/","command":["run"],"gpus":2}"#;
        let spec = read(&mut SpecReader::default(), text);
        assert_eq!((spec.gid, spec.array_index, spec.ask.gpus), (3, Some(5), 2));
        assert!(SpecReader::default().read::<Error>("{}", None, |_| Ok(())).is_err());
    }
}
