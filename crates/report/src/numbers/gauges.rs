//! Use and power of the GPUs while jobs ran, as the recorder wrote them down: one line for each GPU.

use serde_json::{Value, json};

/// What one GPU did over some seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// The GPU, by its place in the list of GPUs.
    pub gpu: usize,
    /// The end of the time it stands for, in seconds after the start of the report.
    pub seconds: f64,
    /// The length of that time.
    pub span_seconds: f64,
    /// How busy the GPU was.
    pub utilisation_percent: Option<f64>,
    /// The mean power the GPU drew.
    pub power_watts: Option<f64>,
}

/// Where the readings come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// The driver of real GPUs.
    #[default]
    Measured,
    /// The model of virtual GPUs.
    Modelled,
    /// Some GPUs are real and some are virtual.
    Mixed,
}

impl Origin {
    /// The origin of the readings of some GPUs, of which `is_virtual` says what they are.
    pub fn of(is_virtual: impl IntoIterator<Item = bool>) -> Self {
        let (mut real, mut modelled) = (false, false);
        for is_virtual in is_virtual {
            if is_virtual { modelled = true } else { real = true }
        }
        match (real, modelled) {
            (true, true) => Self::Mixed,
            (false, true) => Self::Modelled,
            _ => Self::Measured,
        }
    }

    /// What the reader must know about energy and power.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Measured => "energy and power are measured, not modelled",
            Self::Modelled => "the GPUs are virtual: their use, power and energy are modelled, not measured",
            Self::Mixed => "use, power and energy are measured on real GPUs and modelled on virtual ones",
        }
    }

    fn heading(self) -> &'static str {
        match self {
            Self::Measured => "Measured use and power of the GPUs",
            Self::Modelled => "Modelled use and power of the virtual GPUs",
            Self::Mixed => "Use and power of the GPUs, modelled where they are virtual",
        }
    }
}

/// Readings of all GPUs, in order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gauges {
    readings: Vec<Reading>,
    origin: Origin,
}

impl Gauges {
    /// Puts readings in order.
    pub fn new(readings: impl Iterator<Item = Reading>, origin: Origin) -> Self {
        let mut readings = readings.collect::<Vec<_>>();
        readings.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        Self { readings, origin }
    }

    /// Energy of all GPUs over the time of the readings; `None` if no power was read.
    pub fn energy_joules(&self) -> Option<f64> {
        let drawn = self.readings.iter().filter_map(|reading| Some(reading.power_watts? * reading.span_seconds));
        drawn.fold(None, |sum, joules| Some(sum.unwrap_or(0.0) + joules))
    }

    /// The readings for the page: for each GPU its name, and the start, end, use and power of each reading.
    pub(crate) fn columns(&self, gpus: &[String]) -> Value {
        if self.readings.is_empty() {
            return Value::Null;
        }
        let round = |value: f64| (value * 100.0).round() / 100.0;
        let line = |(gpu, name): (usize, &String)| {
            let own = || self.readings.iter().filter(move |reading| reading.gpu == gpu);
            json!({
                "name": name,
                "from": own().map(|reading| round(reading.seconds - reading.span_seconds)).collect::<Vec<_>>(),
                "until": own().map(|reading| round(reading.seconds)).collect::<Vec<_>>(),
                "utilisation": own().map(|reading| reading.utilisation_percent.map(|percent| round(percent / 100.0))).collect::<Vec<_>>(),
                "watts": own().map(|reading| reading.power_watts.map(round)).collect::<Vec<_>>(),
            })
        };
        json!({ "heading": self.origin.heading(), "gpus": gpus.iter().enumerate().map(line).collect::<Vec<_>>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_is_power_over_time_and_every_gpu_has_a_line() {
        let reading =
            |gpu, seconds, power_watts| Reading { gpu, seconds, span_seconds: 5.0, utilisation_percent: Some(50.0), power_watts };
        let readings = [reading(0, 10.0, Some(100.0)), reading(1, 5.0, Some(20.0)), reading(0, 5.0, None)];
        let gauges = Gauges::new(readings.into_iter(), Origin::Modelled);
        assert_eq!(gauges.energy_joules(), Some(600.0));
        let columns = gauges.columns(&["GPU 0".to_owned(), "GPU 1".to_owned()]);
        assert_eq!(columns["gpus"][0]["watts"], json!([null, 100.0]));
        assert_eq!(columns["gpus"][1]["from"], json!([0.0]));
        assert!(!columns["heading"].as_str().unwrap().contains("Measured"));
        assert_eq!(Gauges::default().columns(&[]), Value::Null);
        assert_eq!(Gauges::new([reading(0, 1.0, None)].into_iter(), Origin::Measured).energy_joules(), None);
    }

    #[test]
    fn only_real_gpus_are_measured() {
        assert_eq!(Origin::of([false, false]), Origin::Measured);
        assert_eq!(Origin::of([true]), Origin::Modelled);
        assert_eq!(Origin::of([true, false]), Origin::Mixed);
        for origin in [Origin::Modelled, Origin::Mixed] {
            assert!(!origin.heading().to_lowercase().contains("measured"));
        }
    }
}
