//! `rota token`: tokens for callers on the daemon's port.

use crate::live::args::{ScopeWord, TokenVerb};
use crate::live::client::{Client, Failure};
use crate::live::text::{ago, columns};
use crate::output;
use hyper::Method;
use rota_daemon::api::{Scope, Token, TokenAsk, TokenMade};

/// Makes, lists or revokes tokens.
pub fn token(verb: &TokenVerb) -> anyhow::Result<()> {
    match verb {
        TokenVerb::Create { state, name, scope, user, expires, json } => {
            let scope = match scope {
                ScopeWord::Worker => Scope::Worker,
                ScopeWord::Read => Scope::Read,
                ScopeWord::Submit => Scope::Submit,
                ScopeWord::Admin => Scope::Admin,
            };
            let expires_in_seconds = expires.map(|seconds| seconds.ceil() as u64);
            let ask = TokenAsk { name: name.clone(), scope, user: user.clone(), expires_in_seconds };
            let made: TokenMade = Client::new(state).send(&Method::POST, "/api/v1/tokens", &ask)?;
            if *json {
                return output::print_json(&made);
            }
            output::remark("keep it: it is not shown again");
            output::print(&made.token)
        }
        TokenVerb::List { state, json } => {
            let tokens: Vec<Token> = Client::new(state).get("/api/v1/tokens")?;
            if *json {
                return output::print_json(&tokens);
            }
            output::print(&if tokens.is_empty() { "no tokens".to_owned() } else { table(&tokens) })
        }
        TokenVerb::Revoke { state, token } => revoke(&Client::new(state), token),
    }
}

fn revoke(client: &Client, wanted: &str) -> anyhow::Result<()> {
    let id = if let Ok(id) = wanted.parse::<u64>() {
        id
    } else {
        let tokens: Vec<Token> = client.get("/api/v1/tokens")?;
        let named = tokens.iter().filter(|token| token.name == wanted).collect::<Vec<_>>();
        match named.as_slice() {
            [token] => token.id,
            [] => return Err(Failure(format!("there is no token `{wanted}`; `rota token list` shows them")).into()),
            several => {
                let ids = several.iter().map(|token| format!("{} of {}", token.id, token.user)).collect::<Vec<_>>().join(", ");
                anyhow::bail!("several tokens are called `{wanted}`: {ids}; write the number of one");
            }
        }
    };
    client.send(&Method::DELETE, &format!("/api/v1/tokens/{id}"), &())
}

fn table(tokens: &[Token]) -> String {
    let mut rows = vec![["ID", "NAME", "USER", "SCOPE", "MADE", "USED", "ENDS"].map(str::to_owned).to_vec()];
    rows.extend(tokens.iter().map(|token| {
        let used = token.last_used_at.as_deref().map_or_else(|| "never".to_owned(), |at| format!("{} ago", ago(at)));
        let ends = token.expires_at.clone().unwrap_or_else(|| "never".to_owned());
        let scope = token.scope.word().to_owned();
        vec![token.id.to_string(), token.name.clone(), token.user.clone(), scope, ago(&token.created_at) + " ago", used, ends]
    }));
    columns(&rows, output::table_width())
}
