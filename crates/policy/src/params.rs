//! Parameters of a policy, as written after its name: `rr:quantum=30`.

use rota_core::{Backfill, Rule};
use std::str::FromStr;

/// One parameter a policy knows.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// The parameter's name.
    pub name: &'static str,
    /// What holds if it is not given.
    pub default: &'static str,
    /// What it means, in one line.
    pub meaning: &'static str,
}

/// A policy that cannot be made from what was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// No policy of that name.
    #[error("unknown policy `{given}`; {known}")]
    UnknownPolicy {
        /// What was written.
        given: String,
        /// The names of all policies.
        known: String,
    },
    /// The policy has no such parameter.
    #[error("policy `{policy}` has no parameter `{given}`; it knows {known}")]
    UnknownParameter {
        /// The policy that was asked for.
        policy: &'static str,
        /// What was written.
        given: String,
        /// Its parameters, or "none".
        known: String,
    },
    /// Not of the form `key=value`, or given twice.
    #[error("policy `{policy}`: `{given}` is not of the form `key=value`, each key once")]
    BadForm {
        /// The policy that was asked for.
        policy: &'static str,
        /// What was written.
        given: String,
    },
    /// A value the parameter cannot have.
    #[error("policy `{policy}`: {parameter}=`{given}`: must be {expected}")]
    BadValue {
        /// The policy that was asked for.
        policy: &'static str,
        /// The parameter whose value is wrong.
        parameter: &'static str,
        /// What was written.
        given: String,
        /// What would be right.
        expected: String,
    },
}

/// The parameters given for one policy.
pub struct Params<'a> {
    policy: &'static str,
    known: &'static [Param],
    given: Vec<(&'a str, &'a str)>,
}

impl<'a> Params<'a> {
    /// Reads the parameters of a policy, written as `key=value,key=value`.
    pub fn parse(policy: &'static str, known: &'static [Param], text: &'a str) -> Result<Self, PolicyError> {
        let mut given: Vec<(&str, &str)> = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let bad_form = || PolicyError::BadForm { policy, given: part.to_owned() };
            let (key, value) = part.split_once('=').ok_or_else(bad_form)?;
            if !known.iter().any(|param| param.name == key) {
                let names = known.iter().map(|param| format!("`{}`", param.name)).collect::<Vec<_>>().join(", ");
                let known = if names.is_empty() { "none".to_owned() } else { names };
                return Err(PolicyError::UnknownParameter { policy, given: key.to_owned(), known });
            }
            if given.iter().any(|(earlier, _)| *earlier == key) {
                return Err(bad_form());
            }
            given.push((key, value));
        }
        Ok(Self { policy, known, given })
    }

    /// The text of a parameter: given, or its default.
    fn text(&self, name: &'static str) -> &str {
        let given = self.given.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        given.unwrap_or_else(|| self.known.iter().find(|param| param.name == name).map_or("", |param| param.default))
    }

    pub(crate) fn bad_value(&self, parameter: &'static str, expected: impl Into<String>) -> PolicyError {
        PolicyError::BadValue {
            policy: self.policy,
            parameter,
            given: self.text(parameter).to_owned(),
            expected: expected.into(),
        }
    }

    /// Refuses parameters that would do nothing beside another.
    pub(crate) fn refuse(&self, names: &[&'static str], expected: &str) -> Result<(), PolicyError> {
        let given = names.iter().find(|name| self.given.iter().any(|(key, _)| key == *name));
        given.map_or(Ok(()), |name| Err(self.bad_value(name, expected)))
    }

    /// A number within bounds.
    pub fn number(&self, name: &'static str, least: f64, most: f64) -> Result<f64, PolicyError> {
        let value = self.text(name).parse::<f64>().ok().filter(|value| (least..=most).contains(value));
        value.ok_or_else(|| self.bad_value(name, format!("a number from {least} to {most}")))
    }

    /// A whole number within bounds.
    pub fn whole(&self, name: &'static str, least: u64, most: u64) -> Result<u64, PolicyError> {
        let value = self.text(name).parse::<u64>().ok().filter(|value| (least..=most).contains(value));
        value.ok_or_else(|| self.bad_value(name, format!("a whole number from {least} to {most}")))
    }

    /// A whole number, or `None` where the parameter was neither given nor has a default.
    pub fn optional_whole(&self, name: &'static str) -> Result<Option<u64>, PolicyError> {
        if self.text(name).is_empty() { Ok(None) } else { self.whole(name, 0, u64::MAX).map(Some) }
    }

    /// A word; empty where the parameter was neither given nor has a default.
    pub fn word(&self, name: &'static str) -> &str {
        self.text(name)
    }

    /// `true` or `false`.
    pub fn flag(&self, name: &'static str) -> Result<bool, PolicyError> {
        self.text(name).parse().map_err(|_| self.bad_value(name, "true or false"))
    }

    /// Whether lengths are what earlier jobs taught, from [`ESTIMATES`].
    pub fn goes_by_history(&self) -> Result<bool, PolicyError> {
        match self.text("estimates") {
            "user" | "" => Ok(false),
            "history" => Ok(true),
            _ => Err(self.bad_value("estimates", "user or history")),
        }
    }

    /// The rule of a policy that runs jobs to their end, from [`BACKFILL`] and [`DEPTH`].
    pub fn run_to_end(&self) -> Result<Rule, PolicyError> {
        let words = || format!("one of {}", Backfill::WORDS.join(", "));
        let backfill = Backfill::from_str(self.text("backfill")).map_err(|_| self.bad_value("backfill", words()))?;
        let backfill_depth = self.whole("depth", 1, 1_000_000)? as usize;
        Ok(Rule { backfill_depth, ..Rule::run_to_end(backfill) })
    }
}

/// What may overtake a job that does not fit, with a reservation for it as default.
pub const BACKFILL: Param = Param {
    name: "backfill",
    default: "easy",
    meaning: "who may pass a head that does not fit: none, greedy, easy (head reserved), conservative (all reserved)",
};

/// Whose word on the lengths of jobs counts.
pub const ESTIMATES: Param = Param {
    name: "estimates",
    default: "user",
    meaning: "user: the user's estimate, or the true length where there is none; history: what earlier jobs taught",
};

/// How far backfill looks.
pub const DEPTH: Param =
    Param { name: "depth", default: "256", meaning: "how many waiting jobs backfill looks at in one decision" };
