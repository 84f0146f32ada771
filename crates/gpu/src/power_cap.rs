//! Power caps: what a cap is set to for each GPU type, and what it costs in speed and saves in power, as far as that was measured.
//!
//! The curves are means over trainings (geometric, against the highest limit) of the published power-limit sweeps of Zeus
//! (ml-energy/zeus: 68 trainings on V100, 45 on P100, 53 on A40, 52 on RTX 6000). Light trainings lose less than the mean, heavy ones more.

use std::fmt;
use std::str::FromStr;

/// What a limit does to a GPU at work, against the same GPU without a cap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CapEffect {
    /// The power limit of the GPU.
    pub watts: f64,
    /// Work done in the same time.
    pub speed: f64,
    /// Power that the GPU draws at work, as a part of what it draws without a cap.
    pub power: f64,
}

impl CapEffect {
    /// Energy for the same work.
    pub fn energy(&self) -> f64 {
        self.power / self.speed
    }
}

const fn at(watts: f64, speed: f64, power: f64) -> CapEffect {
    CapEffect { watts, speed, power }
}

/// What was measured, by type, from the lowest limit to the highest.
const MEASURED: [(&str, &[CapEffect]); 4] = [
    (
        "v100",
        &[
            at(100.0, 0.752, 0.609),
            at(125.0, 0.856, 0.693),
            at(150.0, 0.923, 0.771),
            at(175.0, 0.958, 0.838),
            at(200.0, 0.972, 0.901),
            at(225.0, 0.995, 0.955),
            at(250.0, 1.0, 1.0),
        ],
    ),
    (
        "p100",
        &[
            at(125.0, 0.948, 0.840),
            at(150.0, 0.974, 0.901),
            at(175.0, 0.980, 0.950),
            at(200.0, 0.997, 0.980),
            at(225.0, 1.0, 1.0),
            at(250.0, 1.0, 1.0),
        ],
    ),
    (
        "a40",
        &[
            at(100.0, 0.465, 0.598),
            at(125.0, 0.617, 0.677),
            at(150.0, 0.781, 0.727),
            at(175.0, 0.919, 0.799),
            at(200.0, 0.964, 0.848),
            at(225.0, 0.987, 0.907),
            at(250.0, 0.996, 0.948),
            at(275.0, 0.998, 0.979),
            at(300.0, 1.0, 1.0),
        ],
    ),
    (
        "rtx6000",
        &[
            at(100.0, 0.614, 0.579),
            at(125.0, 0.832, 0.669),
            at(150.0, 0.903, 0.744),
            at(175.0, 0.943, 0.813),
            at(200.0, 0.971, 0.878),
            at(225.0, 0.986, 0.935),
            at(250.0, 0.990, 0.982),
            at(260.0, 1.0, 1.0),
        ],
    ),
];

/// The least part of its speed that a GPU keeps under the cap `best`.
const BEST_SPEED: f64 = 0.94;
/// No GPU is capped below this, and none takes more.
const WATTS_RANGE: std::ops::RangeInclusive<f64> = 10.0..=5000.0;

/// A cap as it is written: `none`, `best`, `best=0.9` (the least energy with at least nine tenths of the speed), `250`, or by type
/// `v100=175,a40=200`.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum PowerCap {
    /// GPUs keep the limits that they have.
    #[default]
    None,
    /// The least energy for the same work, for types that were measured.
    Best {
        /// The least part of its speed that a GPU keeps.
        speed_min: f64,
    },
    /// The same limit in watts everywhere.
    All(f64),
    /// A limit in watts for some types.
    Types(Vec<(String, f64)>),
}

/// A text that is no power cap.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("power cap `{given}`: {problem}; write `best`, `best=0.9`, watts such as `250`, or `v100=175,a40=200`")]
pub struct BadCap {
    /// What was written.
    pub given: String,
    /// What is wrong with it.
    pub problem: String,
}

impl FromStr for PowerCap {
    type Err = BadCap;

    fn from_str(text: &str) -> Result<Self, BadCap> {
        let wrong = |problem: String| BadCap { given: text.to_owned(), problem };
        let number = |word: &str| word.trim().parse::<f64>().map_err(|_| wrong(format!("`{word}` is no number")));
        let watts = |word: &str| {
            let watts = number(word)?;
            let is_sane = WATTS_RANGE.contains(&watts);
            is_sane.then_some(watts).ok_or_else(|| wrong(format!("{watts} W is not from 10 to 5000")))
        };
        match text.trim() {
            "" | "none" => Ok(Self::None),
            "best" => Ok(Self::Best { speed_min: BEST_SPEED }),
            one if !one.contains('=') => watts(one).map(Self::All),
            best if best.starts_with("best=") => {
                let speed_min = number(&best["best=".len()..])?;
                let is_part = (0.1..=1.0).contains(&speed_min);
                is_part.then_some(Self::Best { speed_min }).ok_or_else(|| wrong(format!("{speed_min} is not from 0.1 to 1")))
            }
            many => {
                let pair = |pair: &str| {
                    let (kind, limit) = pair.split_once('=').ok_or_else(|| wrong(format!("`{pair}` has no `=`")))?;
                    Ok((kind.trim().to_ascii_lowercase(), watts(limit)?))
                };
                many.split(',').map(pair).collect::<Result<Vec<_>, _>>().map(Self::Types)
            }
        }
    }
}

impl fmt::Display for PowerCap {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => formatter.write_str("none"),
            Self::Best { speed_min } if (speed_min - BEST_SPEED).abs() < 1e-9 => formatter.write_str("best"),
            Self::Best { speed_min } => write!(formatter, "best={speed_min}"),
            Self::All(watts) => write!(formatter, "{watts}"),
            Self::Types(types) => {
                let words = types.iter().map(|(kind, watts)| format!("{kind}={watts}")).collect::<Vec<_>>();
                formatter.write_str(&words.join(","))
            }
        }
    }
}

impl PowerCap {
    /// The limit of a type in watts, if it is capped.
    pub fn watts(&self, kind: &str) -> Option<f64> {
        match self {
            Self::None => None,
            Self::Best { speed_min } => {
                let kept = measured(kind)?.iter().filter(|effect| effect.speed >= *speed_min);
                kept.min_by(|a, b| a.energy().total_cmp(&b.energy())).map(|effect| effect.watts)
            }
            Self::All(watts) => Some(*watts),
            Self::Types(types) => types.iter().find(|(capped, _)| capped == kind).map(|(_, watts)| *watts),
        }
    }

    /// The types that the cap names and that are not among these.
    pub fn unknown_among<'a>(&'a self, kinds: &[&str]) -> Vec<&'a str> {
        match self {
            Self::Types(types) => types.iter().map(|(kind, _)| kind.as_str()).filter(|kind| !kinds.contains(kind)).collect(),
            _ => Vec::new(),
        }
    }
}

fn measured(kind: &str) -> Option<&'static [CapEffect]> {
    // Memory does not change how a GPU takes to a cap.
    let kind = if kind == "v100-32gb" { "v100" } else { kind };
    MEASURED.iter().find(|(known, _)| *known == kind).map(|(_, effects)| *effects)
}

/// The types whose curve is known.
pub fn measured_kinds() -> Vec<&'static str> {
    MEASURED.iter().map(|(kind, _)| *kind).collect()
}

/// What a limit does to a GPU of a type: between two limits that were measured, in proportion. `None` for types that were not
/// measured. Below the lowest limit measured the GPU draws what it draws there: it takes no lower limit.
pub fn effect_of(kind: &str, watts: f64) -> Option<CapEffect> {
    let effects = measured(kind)?;
    let above = effects.partition_point(|effect| effect.watts < watts);
    let (Some(high), low) = (effects.get(above), above.checked_sub(1).map(|below| effects[below])) else {
        return effects.last().map(|last| CapEffect { watts, ..*last });
    };
    let low = low.unwrap_or(*high);
    let part = if high.watts > low.watts { (watts - low.watts) / (high.watts - low.watts) } else { 0.0 };
    let between = |low: f64, high: f64| low + part.clamp(0.0, 1.0) * (high - low);
    Some(CapEffect { watts, speed: between(low.speed, high.speed), power: between(low.power, high.power) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caps_are_read_as_they_are_written() {
        let read = |text: &str| text.parse::<PowerCap>().unwrap();
        for text in ["none", "best", "best=0.9", "250", "v100=175,a40=200"] {
            assert_eq!(read(text).to_string(), text);
        }
        assert_eq!(read("V100=175").watts("v100"), Some(175.0));
        assert_eq!(read("v100=175").watts("a40"), None);
        assert_eq!(read("200").watts("anything"), Some(200.0));
        assert_eq!(read("v100=175,b9=1000").unknown_among(&["v100"]), ["b9"]);
    }

    #[test]
    fn texts_that_are_no_caps_are_refused_with_the_reason() {
        for (text, reason) in [
            ("cold", "no number"),
            ("5", "not from 10"),
            ("v100=x", "no number"),
            ("best=2", "0.1 to 1"),
            ("a=1,b", "not from 10"),
        ] {
            let error = text.parse::<PowerCap>().unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains("v100=175"), "{error}");
        }
    }

    #[test]
    fn the_best_limit_saves_energy_and_keeps_the_speed() {
        let best = "best".parse::<PowerCap>().unwrap();
        let limits = measured_kinds().iter().map(|kind| best.watts(kind).unwrap()).collect::<Vec<_>>();
        assert_eq!(limits, [175.0, 125.0, 200.0, 175.0]);
        for kind in measured_kinds() {
            let effect = effect_of(kind, best.watts(kind).unwrap()).unwrap();
            assert!(effect.speed >= BEST_SPEED && effect.energy() < 0.9, "{kind}: {effect:?}");
        }
        assert_eq!(best.watts("h100"), None);
    }

    #[test]
    fn between_two_limits_the_effect_is_in_proportion() {
        let effect = effect_of("v100", 187.5).unwrap();
        assert!((effect.speed - 0.965).abs() < 1e-9 && (effect.power - 0.8695).abs() < 1e-9, "{effect:?}");
        assert_eq!(effect_of("v100", 50.0).map(|effect| effect.speed), Some(0.752));
        assert_eq!(effect_of("v100", 400.0).map(|effect| effect.speed), Some(1.0));
        assert_eq!(effect_of("h100", 400.0), None);
    }
}
