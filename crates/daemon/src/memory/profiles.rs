//! Memory profiles: the peaks that programs of one class were seen to reach on a GPU, and what the next run is predicted to need.
//!
//! A class is a program with the arguments that matter, of one user, on one GPU type. The rule is [`class_of`]; `--profile-as` overrides it.

use crate::api::text::Text;
use crate::api::{self, Submit};
use crate::clock::rfc3339;
use crate::config::Sharing;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, VecDeque};

/// Peaks that are remembered of a class; older ones are forgotten, so that a program that changed is learned anew.
const PEAKS_MAX: usize = 64;
/// Classes that are remembered.
const CLASSES_MAX: usize = 10_000;
/// Predictions are rounded up to this, so that they do not change with every run.
const STEP_MIB: u32 = 64;

/// A class of programs of one user.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClassKey {
    /// The owner's user id: a profile is learned from one user's jobs only.
    pub uid: u32,
    /// As [`class_of`] says, or as `--profile-as` names it.
    pub class: String,
}

/// What is known of a class on one GPU type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// The most memory each of the last runs had on one GPU, in MiB.
    pub peaks_mib: VecDeque<u32>,
    /// A run with less memory than this ran out of it.
    pub least_mib: u32,
    /// Runs that were measured.
    pub runs: u64,
    /// The moment of the last change, in nanoseconds since 1970.
    pub updated_ns: i64,
}

impl Profile {
    fn predict(&self, rules: &Sharing) -> Option<u32> {
        let mut peaks: Vec<u32> = self.peaks_mib.iter().copied().collect();
        peaks.sort_unstable();
        let rank = (peaks.len() as f64 * rules.quantile).ceil() as usize;
        let quantile = peaks.get(rank.clamp(1, peaks.len().max(1)) - 1).copied();
        let with_margin = quantile.map(|peak| (f64::from(peak) * (1.0 + rules.margin)).ceil() as u32);
        let wanted = with_margin.into_iter().chain((self.least_mib > 0).then_some(self.least_mib)).max()?;
        Some(wanted.saturating_add(rules.job_buffer_mib).next_multiple_of(STEP_MIB))
    }
}

/// The profiles of all classes.
#[derive(Debug, Default)]
pub struct Profiles {
    known: HashMap<ClassKey, HashMap<String, Profile>>,
}

impl Profiles {
    /// Takes in what the store has.
    pub fn load(rows: Vec<(ClassKey, String, Profile)>) -> Self {
        let mut profiles = Self::default();
        for (key, kind, profile) in rows {
            profiles.known.entry(key).or_default().insert(kind, profile);
        }
        profiles
    }

    /// What a run is predicted to need on each GPU, whichever of these types it gets; `None` for a class that was never measured.
    /// A type it was never measured on is taken to need what the others do.
    pub fn predict(&self, key: &ClassKey, kinds: &[String], rules: &Sharing) -> Option<u32> {
        let known = self.known.get(key)?;
        let on = |kind: &String| known.get(kind).and_then(|profile| profile.predict(rules));
        kinds.iter().filter_map(on).max().or_else(|| known.values().filter_map(|profile| profile.predict(rules)).max())
    }

    /// Takes in the peak of a run. One that ended early only counts if it needed more than was known.
    pub fn learn(&mut self, key: &ClassKey, kind: &str, peak_mib: u32, is_whole: bool, wall_ns: i64) -> Option<&Profile> {
        let known = self.known.get(key).and_then(|kinds| kinds.get(kind));
        let is_news = || known.is_none_or(|known| known.peaks_mib.iter().all(|known| *known < peak_mib));
        if peak_mib == 0 || !(is_whole || is_news()) {
            return None;
        }
        let profile = self.known.entry(key.clone()).or_default().entry(kind.to_owned()).or_default();
        profile.peaks_mib.push_back(peak_mib);
        if profile.peaks_mib.len() > PEAKS_MAX {
            profile.peaks_mib.pop_front();
        }
        profile.runs += 1;
        profile.updated_ns = wall_ns;
        Some(profile)
    }

    /// A run had not enough with less than this.
    pub fn raise(&mut self, key: &ClassKey, kind: &str, least_mib: u32, wall_ns: i64) -> &Profile {
        let profile = self.known.entry(key.clone()).or_default().entry(kind.to_owned()).or_default();
        profile.least_mib = profile.least_mib.max(least_mib);
        profile.updated_ns = wall_ns;
        profile
    }

    /// The class that has not been seen for longest, if there are more than are kept: a sweep over a thousand values makes a thousand.
    pub fn surplus(&self) -> Option<ClassKey> {
        let last = |kinds: &HashMap<String, Profile>| kinds.values().map(|profile| profile.updated_ns).max();
        (self.known.len() > CLASSES_MAX)
            .then(|| self.known.iter().min_by_key(|(_, kinds)| last(kinds)))?
            .map(|(key, _)| key.clone())
    }

    /// Forgets a class; says whether it was known.
    pub fn forget(&mut self, key: &ClassKey) -> bool {
        self.known.remove(key).is_some()
    }

    /// The profiles as users see them.
    pub fn view(&self, rules: &Sharing) -> Vec<api::Profile> {
        let mut all = Vec::new();
        for (key, kinds) in &self.known {
            for (kind, profile) in kinds {
                all.push(api::Profile {
                    class: key.class.clone(),
                    uid: key.uid,
                    kind: kind.clone(),
                    runs: profile.runs,
                    peak_mib: profile.peaks_mib.iter().copied().max(),
                    predicted_mib: profile.predict(rules),
                    raised_mib: Some(profile.least_mib).filter(|least| *least > 0),
                    updated_at: rfc3339(profile.updated_ns),
                });
            }
        }
        all.sort_by(|a, b| (&a.class, a.uid, &a.kind).cmp(&(&b.class, b.uid, &b.kind)));
        all
    }
}

/// The class of a command: its program and script by their full names, and its other arguments without those that do not change its
/// memory (`sharing.ignore_arguments`).
pub fn class_of(ask: &Submit, rules: &Sharing) -> String {
    if let Some(name) = &ask.profile_as {
        return name.clone();
    }
    let ignored = |option: &str| rules.ignore_arguments.iter().any(|known| known == option);
    let mut words = Vec::new();
    let mut arguments = ask.command.iter().map(Text::lossy).peekable();
    words.extend(arguments.next());
    let mut has_script = false;
    while let Some(argument) = arguments.next() {
        let option = argument.split('=').next().unwrap_or_default();
        if option.starts_with('-') {
            if !ignored(option) {
                words.push(argument);
            } else if option == argument && arguments.peek().is_some_and(|value| !value.starts_with('-')) {
                arguments.next();
            }
        } else if has_script {
            words.push(argument);
        } else {
            has_script = true;
            words.push(full_name(argument, ask));
        }
    }
    words.join(" ")
}

/// The program and the script of a command by their full names, without any other argument. Empty if there is no command.
pub fn program_of(ask: &Submit) -> String {
    let mut arguments = ask.command.iter().map(Text::lossy);
    let program = arguments.next();
    let script = arguments.find(|argument| !argument.starts_with('-')).map(|script| full_name(script, ask));
    program.into_iter().chain(script).collect::<Vec<_>>().join(" ")
}

/// The same name in two folders is two scripts.
fn full_name(script: String, ask: &Submit) -> String {
    if script.starts_with('/') { script } else { format!("{}/{script}", ask.cwd.lossy().trim_end_matches('/')) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(cwd: &str, command: &[&str]) -> Submit {
        Submit {
            command: std::sync::Arc::new(command.iter().map(|part| Text::from(*part)).collect()),
            cwd: Text::from(cwd),
            ..api::plain_submit()
        }
    }

    #[test]
    fn a_class_is_the_program_and_what_changes_its_memory() {
        let rules = Sharing::default();
        let class = |cwd: &str, command: &[&str]| class_of(&ask(cwd, command), &rules);
        let plain = class("/a", &["python", "train.py", "--batch-size=32"]);
        assert_eq!(plain, "python /a/train.py --batch-size=32");
        for same in [
            &["python", "train.py", "--epochs=5", "--batch-size=32", "--id=7"][..],
            &["python", "train.py", "--epochs", "5", "--batch-size=32", "--seed", "1"],
            &["python", "/a/train.py", "--batch-size=32", "--lr", "0.1"],
        ] {
            assert_eq!(class("/a", same), plain);
        }
        assert_ne!(class("/b", &["python", "train.py", "--batch-size=32"]), plain);
        assert_ne!(class("/a", &["python", "train.py", "--batch-size=64"]), plain);
        let program = |cwd: &str, command: &[&str]| program_of(&ask(cwd, command));
        for same in [&["python", "train.py", "--batch-size=64"][..], &["python", "-u", "/a/train.py", "x"]] {
            assert_eq!(program("/a", same), "python /a/train.py");
        }
        assert_eq!((program("/a", &["true"]).as_str(), program("/a", &[]).as_str()), ("true", ""));
        let named = Submit { profile_as: Some("mine".to_owned()), ..ask("/a", &["x"]) };
        assert_eq!(class_of(&named, &rules), "mine");
    }

    #[test]
    fn what_is_predicted_is_a_quantile_with_a_margin_and_never_less_than_failed() {
        let rules = Sharing { quantile: 0.9, margin: 0.1, job_buffer_mib: 0, ..Sharing::default() };
        let key = ClassKey { uid: 1, class: "x".to_owned() };
        let mut profiles = Profiles::default();
        assert_eq!(profiles.predict(&key, &[], &rules), None);
        for peak in [1000; 19] {
            profiles.learn(&key, "a100", peak, true, 0);
        }
        profiles.learn(&key, "a100", 9000, true, 0);
        let kinds = ["a100".to_owned()];
        // 1100, rounded up: one run in twenty that was larger does not count.
        assert_eq!(profiles.predict(&key, &kinds, &rules), Some(1152));
        // A type never seen is taken to be like the others; another user's class is not known.
        assert_eq!(profiles.predict(&key, &["t4".to_owned()], &rules), Some(1152));
        assert_eq!(profiles.predict(&ClassKey { uid: 2, ..key.clone() }, &kinds, &rules), None);
        profiles.raise(&key, "a100", 2000, 0);
        assert_eq!(profiles.predict(&key, &kinds, &rules), Some(2048));
    }

    #[test]
    fn a_run_that_was_cut_short_can_only_raise() {
        let key = ClassKey { uid: 1, class: "x".to_owned() };
        let mut profiles = Profiles::default();
        profiles.learn(&key, "t4", 1000, true, 0);
        assert!(profiles.learn(&key, "t4", 300, false, 0).is_none());
        assert!(profiles.learn(&key, "t4", 1300, false, 0).is_some());
        assert!(profiles.learn(&key, "t4", 0, true, 0).is_none(), "a run that was never seen on a GPU tells nothing");
    }

    #[test]
    fn old_peaks_are_forgotten() {
        let rules = Sharing { margin: 0.0, job_buffer_mib: 0, ..Sharing::default() };
        let key = ClassKey { uid: 1, class: "x".to_owned() };
        let mut profiles = Profiles::default();
        profiles.learn(&key, "t4", 8000, true, 0);
        for _ in 0..PEAKS_MAX {
            profiles.learn(&key, "t4", 640, true, 0);
        }
        assert_eq!(profiles.predict(&key, &[], &rules), Some(640));
    }

    #[test]
    fn of_too_many_classes_the_one_not_seen_for_longest_is_surplus() {
        let mut profiles = Profiles::default();
        let key = |number: usize| ClassKey { uid: 1, class: number.to_string() };
        for (number, wall_ns) in (0..CLASSES_MAX).zip(1..) {
            profiles.learn(&key(number), "t4", 100, true, wall_ns);
        }
        assert_eq!(profiles.surplus(), None);
        profiles.learn(&key(0), "t4", 100, true, 1_000_000);
        profiles.learn(&key(CLASSES_MAX), "t4", 100, true, 1_000_001);
        assert_eq!(profiles.surplus(), Some(key(1)));
    }
}
