//! The nodes of a Slurm cluster and their GPUs, as `sinfo` lists them: once for each partition that a node is in.

use super::error::SlurmError;
use super::gres::{GpuCount, gpus_of};

/// The fields that `sinfo` is asked for, with their widths.
const FIELDS: [(&str, usize); 5] =
    [("NodeList", 128), ("PartitionName", 64), ("StateLong", 32), ("Gres", 512), ("GresUsed", 512)];

/// A node of Slurm's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlurmNode {
    /// The name of the node.
    pub name: String,
    /// The partitions that the node is in.
    pub partitions: Vec<String>,
    /// Its state in Slurm's words, such as `mixed` or `drained*`.
    pub state: String,
    /// The GPUs it has.
    pub gpus: Vec<GpuCount>,
    /// Those that jobs have now.
    pub used: Vec<GpuCount>,
}

impl SlurmNode {
    /// Whether Slurm starts jobs on it.
    pub fn is_usable(&self) -> bool {
        let state = self.state.trim_end_matches(['*', '~', '#', '!', '%', '$', '@', '^', '-', '+']);
        matches!(state, "idle" | "mixed" | "allocated" | "completing" | "planned") && !self.state.contains('*')
    }

    /// The GPUs of a type that no job has.
    pub fn free(&self, kind: Option<&str>) -> u32 {
        let of = |counts: &[GpuCount]| counts.iter().filter(|one| one.kind.as_deref() == kind).map(|one| one.count).sum::<u32>();
        if self.is_usable() { of(&self.gpus).saturating_sub(of(&self.used)) } else { 0 }
    }
}

/// The arguments by which `sinfo` lists nodes, of one partition or of all that this user may see.
pub(super) fn arguments(partition: Option<&str>) -> Vec<String> {
    let format = FIELDS.map(|(name, width)| format!("{name}:{width}")).join(",");
    let mut arguments = vec!["-h".to_owned(), "-N".to_owned(), "-O".to_owned(), format];
    if let Some(partition) = partition {
        arguments.extend(["-p".to_owned(), partition.to_owned()]);
    }
    arguments
}

/// Reads what `sinfo` answered. A node that is in several partitions is one node.
pub fn read_nodes(answer: &str) -> Result<Vec<SlurmNode>, SlurmError> {
    let mut nodes: Vec<SlurmNode> = Vec::new();
    for line in answer.lines().filter(|line| !line.trim().is_empty()) {
        let columns = columns(line, &FIELDS.map(|(_, width)| width));
        let [name, partition, state, gpus, used] = columns.as_slice() else {
            return Err(SlurmError::Answer { program: "sinfo".to_owned(), line: line.trim().to_owned(), wanted: "five columns" });
        };
        if name.is_empty() {
            return Err(SlurmError::Answer {
                program: "sinfo".to_owned(),
                line: line.trim().to_owned(),
                wanted: "name of a node",
            });
        }
        match nodes.iter_mut().find(|node| node.name == *name) {
            Some(node) => node.partitions.push((*partition).to_owned()),
            None => nodes.push(SlurmNode {
                name: (*name).to_owned(),
                partitions: vec![(*partition).to_owned()],
                state: (*state).to_owned(),
                gpus: gpus_of(gpus),
                used: gpus_of(used),
            }),
        }
    }
    Ok(nodes)
}

/// The columns of a line whose columns have fixed widths, without the blanks around them.
pub(super) fn columns<'l>(line: &'l str, widths: &[usize]) -> Vec<&'l str> {
    let (mut rest, mut columns) = (line, Vec::with_capacity(widths.len()));
    for &width in widths {
        let mut at = width.min(rest.len());
        while !rest.is_char_boundary(at) {
            at += 1;
        }
        let (column, after) = rest.split_at(at);
        columns.push(column.trim());
        rest = after;
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(values: [&str; 5]) -> String {
        values.iter().zip(FIELDS).map(|(value, (_, width))| format!("{value:width$}")).collect::<String>() + "\n"
    }

    #[test]
    fn a_node_of_two_partitions_is_one_node() {
        let text = line(["v1", "main", "mixed", "gpu:v100:4(S:0)", "gpu:v100:2(IDX:0-1)"])
            + &line(["v1", "short", "mixed", "gpu:v100:4(S:0)", "gpu:v100:2(IDX:0-1)"])
            + &line(["k1", "main", "drained*", "gpu:k80:2", "gpu:k80:0(IDX:N/A)"])
            + &line(["c1", "main", "idle", "(null)", "(null)"]);
        let nodes = read_nodes(&text).unwrap();
        assert_eq!(nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["v1", "k1", "c1"]);
        assert_eq!(nodes[0].partitions, ["main", "short"]);
        assert_eq!(nodes[0].free(Some("v100")), 2);
        assert_eq!(nodes[0].free(Some("k80")), 0);
        assert_eq!((nodes[1].is_usable(), nodes[1].free(Some("k80"))), (false, 0));
        assert!(nodes[2].gpus.is_empty());
        assert_eq!(read_nodes("").unwrap(), []);
    }

    #[test]
    fn nothing_that_sinfo_prints_panics() {
        for text in ["é", &"ü".repeat(600), "a b c d e"] {
            _ = read_nodes(text);
        }
        assert!(read_nodes(&format!("{:128}main", "")).unwrap_err().to_string().contains("name of a node"));
    }
}
