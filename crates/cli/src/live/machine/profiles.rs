//! `rota profiles`: the memory that classes of programs were seen to need.

use crate::live::args::ProfilesArgs;
use crate::live::client::Client;
use crate::live::text::columns;
use crate::output;
use hyper::Method;
use rota_daemon::api::Profile;

/// Prints the memory that programs were seen to need.
pub fn profiles(args: &ProfilesArgs) -> anyhow::Result<()> {
    let client = Client::new(&args.state);
    if let Some(class) = &args.forget {
        let class = form_urlencoded::byte_serialize(class.as_bytes()).collect::<String>();
        return client.send(&Method::DELETE, &format!("/api/v1/profiles?class={class}"), &());
    }
    let profiles: Vec<Profile> = client.get("/api/v1/profiles")?;
    if args.json {
        return output::print_json(&profiles);
    }
    let mut rows = vec![["TYPE", "RUNS", "PEAK", "NEXT", "CLASS"].map(str::to_owned).to_vec()];
    let mib = |value: Option<u32>| value.map_or_else(|| "-".to_owned(), |value| format!("{value} MiB"));
    rows.extend(profiles.iter().map(|profile| {
        vec![
            profile.kind.clone(),
            profile.runs.to_string(),
            mib(profile.peak_mib),
            mib(profile.predicted_mib),
            profile.class.clone(),
        ]
    }));
    output::print(&if profiles.is_empty() { "nothing measured yet".to_owned() } else { columns(&rows, output::table_width()) })
}
