//! The file of workloads: what to run, where, and whether it can run on several GPUs.

use anyhow::{Context, bail};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const BATCH_SIZE: &str = "{batch_size}";

/// One job type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    pub job_type: String,
    /// Where it runs.
    pub directory: PathBuf,
    pub command: Vec<String>,
    /// Whether it can run on several GPUs, one process each.
    pub gangs: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    workload: Vec<Entry>,
}

/// A job type, or one for each batch size.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    job_type: String,
    #[serde(default)]
    batch_sizes: Vec<u32>,
    #[serde(default)]
    directory: PathBuf,
    command: Vec<String>,
    #[serde(default)]
    gangs: bool,
}

/// Reads a file of workloads, and leaves out those that `only` does not name.
pub fn read(path: &Path, only: &[String]) -> anyhow::Result<Vec<Workload>> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read `{shown}`"))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let folder = std::path::absolute(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })?;
    let all = parse(&text, &folder).with_context(|| format!("`{shown}` is no file of workloads"))?;
    let is_named = |workload: &Workload| only.is_empty() || only.iter().any(|text| workload.job_type.contains(text));
    let named = all.iter().filter(|workload| is_named(workload)).cloned().collect::<Vec<_>>();
    if named.is_empty() {
        let known = all.iter().map(|workload| workload.job_type.as_str()).collect::<Vec<_>>().join(", ");
        bail!("no workload of `{shown}` is named with --only; there are: {known}");
    }
    Ok(named)
}

fn parse(text: &str, folder: &Path) -> anyhow::Result<Vec<Workload>> {
    let file = toml::from_str::<File>(text)?;
    let mut workloads = Vec::new();
    for entry in file.workload {
        let has_mark = |text: &String| text.contains(BATCH_SIZE);
        if entry.command.first().is_none_or(String::is_empty) {
            bail!("`{}`: `command` is empty; give a program and its arguments", entry.job_type);
        }
        if entry.batch_sizes.is_empty() && (has_mark(&entry.job_type) || entry.command.iter().any(has_mark)) {
            bail!("`{}` speaks of {BATCH_SIZE}, but has no `batch_sizes`", entry.job_type);
        }
        if !entry.batch_sizes.is_empty() && !has_mark(&entry.job_type) {
            bail!("`{}` has several `batch_sizes`; its `job_type` must say {BATCH_SIZE} to tell them apart", entry.job_type);
        }
        let sizes = entry.batch_sizes.iter().map(ToString::to_string).collect::<Vec<_>>();
        let sizes = if sizes.is_empty() { vec![String::new()] } else { sizes };
        for size in sizes {
            workloads.push(Workload {
                job_type: entry.job_type.replace(BATCH_SIZE, &size),
                directory: folder.join(&entry.directory),
                command: entry.command.iter().map(|word| word.replace(BATCH_SIZE, &size)).collect(),
                gangs: entry.gangs,
            });
        }
    }
    let mut names = BTreeSet::new();
    if let Some(twice) = workloads.iter().find(|workload| !names.insert(&workload.job_type)) {
        bail!("`{}` is there twice", twice.job_type);
    }
    if let Some(lost) = workloads.iter().find(|workload| !workload.directory.is_dir()) {
        bail!("`{}`: there is no folder `{}`", lost.job_type, lost.directory.display());
    }
    Ok(workloads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_sizes_make_job_types() {
        let text = "[[workload]]\njob_type = 'net ({batch_size})'\nbatch_sizes = [1, 2]\ncommand = ['run', '-b={batch_size}']\ngangs = true\n\
                    [[workload]]\njob_type = 'other'\ncommand = ['true']\n";
        let workloads = parse(text, Path::new("/")).unwrap();
        let names = workloads.iter().map(|workload| (workload.job_type.as_str(), workload.gangs)).collect::<Vec<_>>();
        assert_eq!(names, [("net (1)", true), ("net (2)", true), ("other", false)]);
        assert_eq!(workloads[1].command, ["run", "-b=2"]);
    }

    #[test]
    fn faults_are_told() {
        for (text, message) in [
            ("[[workload]]\njob_type = 'a'\ncommand = []\n", "`a`: `command` is empty; give a program and its arguments"),
            ("[[workload]]\njob_type = 'a {batch_size}'\ncommand = ['b']\n", "has no `batch_sizes`"),
            ("[[workload]]\njob_type = 'a'\nbatch_sizes = [1]\ncommand = ['b']\n", "must say {batch_size}"),
            ("[[workload]]\njob_type = 'a'\ncommand = ['b']\n[[workload]]\njob_type = 'a'\ncommand = ['b']\n", "there twice"),
            (
                "[[workload]]\njob_type = 'a'\ncommand = ['b']\ndirectory = 'missing-folder'\n",
                "there is no folder `/missing-folder`",
            ),
            ("[[workload]]\njob_type = 'a'\ncommand = ['b']\nspeed = 1\n", "unknown field `speed`"),
        ] {
            let said = format!("{:#}", parse(text, Path::new("/")).unwrap_err());
            assert!(said.contains(message), "{said}");
        }
    }
}
