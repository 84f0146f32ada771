//! Tokens: made, listed, revoked. A user sees their own, an administrator sees all.

use crate::access::tokens::{Scope, Token, TokenChange};
use crate::access::users;
use crate::api;
use crate::clock::{rfc3339, wall_ns};
use crate::http::auth::{Pass, Visit};
use crate::http::{Answer, Problem, Site};
use crate::machine::platform::Message;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use rota_exec::JoinToken;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The longest a token may last that ends at all: some 95 years.
const SECONDS_MAX: u64 = 3_000_000_000;

pub(crate) fn routes() -> OpenApiRouter<Arc<Site>> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(revoke))
}

/// The caller's tokens, or all tokens for an administrator.
#[utoipa::path(get, path = "/api/v1/tokens", responses((status = 200, body = Vec<api::Token>)))]
async fn list(State(site): State<Arc<Site>>, visit: Visit) -> Json<Vec<api::Token>> {
    let all = site.board.tokens.all();
    let own = all.iter().filter(|token| visit.caller.is_admin || token.uid == visit.caller.uid);
    let told = own.map(|token| api::Token {
        id: token.id,
        name: token.name.clone(),
        scope: token.scope,
        user: token.user.clone(),
        created_at: rfc3339(token.created_ns),
        expires_at: token.expires_ns.map(rfc3339),
        last_used_at: token.used_ns().map(rfc3339),
    });
    Json(told.collect())
}

/// A new token, whose text is shown this once.
#[utoipa::path(post, path = "/api/v1/tokens", request_body = api::TokenAsk, responses((status = 201, body = api::TokenMade)))]
async fn create(
    State(site): State<Arc<Site>>,
    visit: Visit,
    Json(ask): Json<api::TokenAsk>,
) -> Result<(StatusCode, Json<api::TokenMade>), Problem> {
    check(&ask)?;
    let caller = &visit.caller;
    let (uid, user) = match ask.user.as_deref().filter(|user| *user != caller.user) {
        None => (caller.uid, caller.user.clone()),
        Some(_) if !caller.is_admin => return Err(forbidden("only administrators make tokens for others")),
        Some(user) => {
            let unknown = || bad(format!("--user: this machine has no user `{user}`"));
            (users::find(user).ok_or_else(unknown)?, user.to_owned())
        }
    };
    if !caller.may_write {
        return Err(forbidden("this token may only read"));
    }
    let workers = (ask.scope == Scope::Worker).then(|| join_token(&site, caller.is_admin)).transpose()?;
    if ask.scope > visit.scope {
        return Err(forbidden("a token cannot allow more than whoever makes it may do; scope admin is for administrators"));
    }
    let now_ns = wall_ns();
    let asked_ns = ask.expires_in_seconds.map(|seconds| now_ns + seconds.cast_signed() * 1_000_000_000);
    // Whoever may come in for some time only cannot make that for ever.
    let own_ns = match &visit.pass {
        Pass::Socket => None,
        Pass::Token(token) => token.expires_ns,
        Pass::Session(session) => session.token.expires_ns,
    };
    let expires_ns = asked_ns.into_iter().chain(own_ns).min();
    let minted = Token::mint(uid, user, ask.name, ask.scope, (now_ns, expires_ns));
    let (token, text) = minted.map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string()))?;
    let mut made = api::TokenMade {
        id: 0,
        name: token.name.clone(),
        scope: token.scope,
        user: token.user.clone(),
        created_at: rfc3339(token.created_ns),
        expires_at: token.expires_ns.map(rfc3339),
        token: workers.map_or_else(|| text.clone(), |workers| workers.with_secret(&text).to_text().trim().to_owned()),
    };
    made.id = site.ask(|reply| Message::Tokens(TokenChange::Create(Box::new(token)), reply)).await?;
    Ok((StatusCode::CREATED, Json(made)))
}

/// Ends a token, with every session and stream that was opened with it.
#[utoipa::path(delete, path = "/api/v1/tokens/{id}", params(("id" = u64, Path, description = "Its number.")), responses((status = 200)))]
async fn revoke(State(site): State<Arc<Site>>, visit: Visit, Path(id): Path<u64>) -> Answer<()> {
    if !visit.caller.may_write {
        return Err(forbidden("this token may only read"));
    }
    let all = site.board.tokens.all();
    // Only administrators see the tokens of other users.
    let own = |token: &&Arc<Token>| token.id == id && (visit.caller.is_admin || token.uid == visit.caller.uid);
    if !all.iter().any(|token| own(&token)) {
        let title = format!("you have no token {id}; `rota token list` shows them");
        return Err(Problem::new(StatusCode::NOT_FOUND, "not-found", title));
    }
    site.ask(|reply| Message::Tokens(TokenChange::Revoke(id), reply)).await?;
    Ok(Json(()))
}

/// What workers know this daemon by. They are given jobs of everybody, so only administrators let them in.
fn join_token(site: &Site, is_admin: bool) -> Result<JoinToken, Problem> {
    if !is_admin {
        return Err(forbidden("only administrators make tokens for workers"));
    }
    JoinToken::read(&site.settings.state_dir.join("worker-token")).map_err(|_| {
        let title = "no workers may join this daemon: give `rota up` a --workers-port, or set `[workers] listen`";
        Problem::new(StatusCode::CONFLICT, "conflict", title)
    })
}

fn check(ask: &api::TokenAsk) -> Result<(), Problem> {
    let length = ask.name.chars().count();
    if length == 0 || length > 100 || ask.name.chars().any(char::is_control) {
        return Err(bad("--name: 1 to 100 characters, none of them a control character".to_owned()));
    }
    if ask.name.chars().all(|letter| letter.is_ascii_digit()) {
        return Err(bad(format!("--name: `{}` would be taken for a number; add a letter", ask.name)));
    }
    if ask.expires_in_seconds.is_some_and(|seconds| seconds == 0 || seconds > SECONDS_MAX) {
        return Err(bad(format!("--expires: write 1 to {SECONDS_MAX} seconds, or leave it out")));
    }
    Ok(())
}

fn bad(title: String) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "bad-input", title)
}

fn forbidden(title: &str) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "forbidden", title)
}
