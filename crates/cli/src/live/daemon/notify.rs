//! `rota notify`: the targets that are told about the caller's jobs.

use crate::live::args::{NotifyVerb, StateArgs};
use crate::live::client::Client;
use crate::live::text::columns;
use crate::output;
use hyper::Method;
use rota_daemon::api::{NewNotifyTarget, NotifyEvent, NotifyKind, NotifyTarget};

/// Adds, lists, removes and tests targets.
pub fn notify(verb: &NotifyVerb) -> anyhow::Result<()> {
    match verb {
        NotifyVerb::Add { state, webhook, mail, slack, dingtalk, secret, on, json } => {
            let given = [
                (NotifyKind::Webhook, webhook),
                (NotifyKind::Mail, mail),
                (NotifyKind::Slack, slack),
                (NotifyKind::Dingtalk, dingtalk),
            ];
            let Some((kind, address)) = given.into_iter().find_map(|(kind, address)| Some((kind, address.clone()?))) else {
                anyhow::bail!("name a target: --webhook, --mail, --slack or --dingtalk");
            };
            let wanted = NewNotifyTarget { kind, address, secret: secret.clone(), on: on.clone() };
            let target: NotifyTarget = Client::new(state).send(&Method::POST, "/api/v1/notify", &wanted)?;
            if *json {
                return output::print_json(&target);
            }
            output::print(&format!("{}\n`rota notify test {}` sends it something now", target.id, target.id))
        }
        NotifyVerb::List { state, json } => list(state, *json),
        NotifyVerb::Remove { state, ids } => {
            let client = Client::new(state);
            ids.iter().try_for_each(|id| client.send(&Method::DELETE, &format!("/api/v1/notify/{id}"), &()))
        }
        NotifyVerb::Test { state, id } => {
            let () = Client::new(state).post(&format!("/api/v1/notify/{id}/test"))?;
            output::print("it arrived")
        }
    }
}

fn list(state: &StateArgs, json: bool) -> anyhow::Result<()> {
    let targets: Vec<NotifyTarget> = Client::new(state).get("/api/v1/notify")?;
    if json {
        return output::print_json(&targets);
    }
    if targets.is_empty() {
        return output::print("nobody is told anything; `rota notify add --help` shows how");
    }
    let mut rows = vec![["ID", "WHOSE", "KIND", "WHERE", "ON", "TROUBLE"].map(str::to_owned).to_vec()];
    rows.extend(targets.iter().map(|target| {
        let given_up = if target.given_up > 0 { format!("{} given up; ", target.given_up) } else { String::new() };
        vec![
            target.id.to_string(),
            target.user.clone().unwrap_or_else(|| "the site".to_owned()),
            format!("{}{}", target.kind.word(), if target.is_signed { ", signed" } else { "" }),
            target.address.clone(),
            target.on.iter().map(|event| event.word()).collect::<Vec<_>>().join(","),
            format!("{given_up}{}", target.problem.as_deref().unwrap_or("-")),
        ]
    }));
    output::print(&columns(&rows, output::table_width()))
}

/// Reads the name of an event that a target can be told of.
pub fn event(word: &str) -> Result<NotifyEvent, String> {
    let event = NotifyEvent::from_word(word).filter(|event| *event != NotifyEvent::Test);
    event.ok_or_else(|| "write started, finished, failed or cancelled".to_owned())
}
