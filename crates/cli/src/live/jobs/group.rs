//! `rota show group:7`: a group, with its parameters against what came of them.

use crate::live::client::Client;
use crate::live::text::{clock_time, columns, seconds_text};
use crate::output;
use rota_daemon::api::{GroupDetail, GroupMember};

/// Prints a group with a row for each member.
pub fn show_group(client: &Client, id: u64, as_json: bool) -> anyhow::Result<()> {
    let detail: GroupDetail = client.get(&format!("/api/v1/groups/{id}"))?;
    if as_json {
        return output::print_json(&detail);
    }
    let group = &detail.group;
    let head = format!(
        "group:{id}  {} of {}, submitted {}\n{} jobs: {}\n",
        group.name,
        group.user,
        clock_time(&group.submitted_at),
        group.counts.all(),
        group.counts.words()
    );
    output::print(&format!("{head}\n{}", columns(&table(&detail), output::table_width())))
}

/// Parameters against results.
fn table(detail: &GroupDetail) -> Vec<Vec<String>> {
    let has_index = detail.members.iter().any(|member| member.array_index.is_some());
    let has_names = !has_index && detail.group.params.is_empty();
    let mut titles = vec!["JOB".to_owned()];
    titles.extend(has_index.then(|| "INDEX".to_owned()));
    titles.extend(has_names.then(|| "NAME".to_owned()));
    titles.extend(detail.group.params.iter().map(|name| name.to_uppercase()));
    titles.extend(["STATE", "EXIT", "DURATION", "RESULT"].map(str::to_owned));
    let unknown = || "-".to_owned();
    let row = |member: &GroupMember| {
        let mut row = vec![member.id.to_string()];
        row.extend(has_index.then(|| member.array_index.map_or_else(unknown, |index| index.to_string())));
        row.extend(has_names.then(|| member.name.clone().unwrap_or_else(unknown)));
        row.extend(detail.group.params.iter().map(|name| member.params.get(name).cloned().unwrap_or_else(unknown)));
        let exit =
            member.exit_code.map(|code| code.to_string()).or_else(|| member.signal.map(|signal| format!("signal {signal}")));
        row.extend([
            member.state.word().to_owned(),
            exit.unwrap_or_else(unknown),
            member.duration_seconds.map_or_else(unknown, seconds_text),
            member.result.clone().unwrap_or_default(),
        ]);
        row
    };
    std::iter::once(titles).chain(detail.members.iter().map(row)).collect()
}
