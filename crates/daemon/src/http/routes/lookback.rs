//! Reading the past: a stretch of time, and a connection to the store for this request alone, so that other requests do not wait.

use crate::clock::wall_ns;
use crate::http::{Problem, Site};
use crate::store::{Archive, StoreError};
use axum::http::StatusCode;
use serde::Deserialize;
use std::sync::Arc;
use utoipa::IntoParams;

/// The stretch of time that is read if none is given.
const DAY_NS: i64 = 86_400_000_000_000;

/// Which part of the past.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct StretchQuery {
    /// From, RFC 3339; a day before the end if not given.
    pub from: Option<String>,
    /// The end of the time, RFC 3339; now if not given.
    pub to: Option<String>,
}

/// The moment that a parameter names, in nanoseconds since 1970.
pub(crate) fn moment(parameter: &str, text: &str) -> Result<i64, Problem> {
    let bad = |why: String| Problem::new(StatusCode::BAD_REQUEST, "bad-input", format!("{parameter}: `{text}`: {why}"));
    let time: jiff::Timestamp = text.parse().map_err(|error: jiff::Error| bad(error.to_string()))?;
    i64::try_from(time.as_nanosecond()).map_err(|_| bad("write a year between 1678 and 2261".to_owned()))
}

/// The two ends of a stretch of time.
pub(crate) fn stretch(from: Option<&str>, to: Option<&str>) -> Result<(i64, i64), Problem> {
    let to_ns = to.map_or_else(|| Ok(wall_ns()), |text| moment("to", text))?;
    let from_ns = from.map_or_else(|| Ok(to_ns.saturating_sub(DAY_NS)), |text| moment("from", text))?;
    if from_ns >= to_ns {
        return Err(Problem::new(StatusCode::BAD_REQUEST, "bad-input", "from: it is not before `to`"));
    }
    Ok((from_ns, to_ns))
}

impl Site {
    /// Runs a long query of the store on a thread of its own, so that other requests do not wait.
    pub(crate) async fn look_back<T: Send + 'static>(
        self: &Arc<Self>,
        query: impl FnOnce(&Self, &Archive) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Problem> {
        let site = Arc::clone(self);
        let answer = tokio::task::spawn_blocking(move || query(&site, &site.archives.another()?)).await;
        let answer = answer.map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string()))?;
        Ok(answer?)
    }

    /// Whether a GPU is one of this machine now.
    pub(crate) fn is_here(&self, uuid: &str) -> bool {
        self.board.read().gpus.iter().any(|gpu| gpu.uuid == uuid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_has_a_beginning_before_its_end() {
        let noon = "2026-11-16T12:00:00Z";
        let (from, to) = stretch(None, Some(noon)).ok().unwrap();
        assert_eq!(to - from, DAY_NS);
        assert_eq!(stretch(Some("2026-11-16T11:00:00Z"), Some(noon)).ok().map(|(from, to)| to - from), Some(DAY_NS / 24));
        for (from, to) in [(Some(noon), Some(noon)), (Some("2026-11-17T00:00:00Z"), Some(noon)), (Some("yesterday"), None)] {
            assert!(stretch(from, to).is_err(), "{from:?} {to:?}");
        }
        assert!(stretch(Some("0001-01-01T00:00:00Z"), None).is_err());
    }
}
