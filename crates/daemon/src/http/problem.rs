//! Problems: every refusal as HTTP says it, in the form of RFC 9457.

use crate::api;
use crate::machine::platform::{Refusal, RefusalKind};
use crate::store::StoreError;
use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

/// A refusal as HTTP says it.
pub struct Problem(pub(crate) StatusCode, pub(crate) api::Problem);

impl Problem {
    pub(crate) fn new(status: StatusCode, kind: &str, title: impl Into<String>) -> Self {
        Self(status, api::Problem { kind: kind.to_owned(), status: status.as_u16(), title: title.into() })
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let (status, kind) = match refusal.kind {
            RefusalKind::BadInput => (StatusCode::BAD_REQUEST, "bad-input"),
            RefusalKind::NotFound => (StatusCode::NOT_FOUND, "not-found"),
            RefusalKind::Forbidden => (StatusCode::FORBIDDEN, "forbidden"),
            RefusalKind::Conflict => (StatusCode::CONFLICT, "conflict"),
            RefusalKind::TooMany => (StatusCode::TOO_MANY_REQUESTS, "too-many"),
            RefusalKind::Unavailable => (StatusCode::INSUFFICIENT_STORAGE, "unavailable"),
        };
        Self::new(status, kind, refusal.message)
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "store", error.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.0, Json(self.1)).into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/problem+json"));
        if response.status() == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// What a route answers: JSON, or a refusal.
pub(crate) type Answer<T> = Result<Json<T>, Problem>;

/// A moment as a query says it, in nanoseconds since 1970.
pub(crate) fn parse_time(name: &str, text: &str) -> Result<i64, Problem> {
    let time: Result<jiff::Timestamp, _> = text.parse();
    // What is centuries away is as far as our numbers go.
    time.map(|time| time.as_nanosecond().clamp(i64::MIN.into(), i64::MAX.into()) as i64)
        .map_err(|error| Problem::new(StatusCode::BAD_REQUEST, "bad-input", format!("{name}: `{text}`: {error}")))
}
