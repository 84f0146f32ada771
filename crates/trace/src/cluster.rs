//! Cluster files: Rota's TOML, or Alibaba's openb list of nodes.

use crate::collect::Collector;
use crate::error::{Problem, TraceError};
use crate::format::{PREFIX_BYTES, is_node_list, refuse_binary};
use crate::formats::openb;
use crate::lines::Lines;
use crate::{Format, ReadOptions};
use rota_core::Cluster;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// The most bytes read of a cluster file; ten million GPUs fit.
const CLUSTER_BYTES_MAX: u64 = 256 << 20;

/// Reads a cluster from a TOML file (see [`Cluster::from_toml`]) or from an openb node list in CSV, one node a row.
pub fn read_cluster(path: &Path) -> Result<Cluster, TraceError> {
    let source_name = path.display().to_string();
    let (prefix, file) = crate::load::open(path, &source_name)?;
    let mut input = BufReader::with_capacity(PREFIX_BYTES, prefix.as_slice().chain(file));
    load(&source_name, &prefix, &mut input)
}

/// As [`read_cluster`], from memory. `source_name` stands for the file in messages.
pub fn parse_cluster(source_name: &str, text: &[u8]) -> Result<Cluster, TraceError> {
    load(source_name, text, &mut { text })
}

fn load(source_name: &str, prefix: &[u8], input: &mut dyn BufRead) -> Result<Cluster, TraceError> {
    let failed = |problem| TraceError::whole_file(source_name, problem);
    refuse_binary(prefix).map_err(failed)?;
    if prefix.is_empty() {
        return Err(failed(Problem::Empty));
    }
    let first = prefix.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let text = if std::str::from_utf8(first).is_ok_and(is_node_list) {
        let mut collector = Collector::new(source_name, Format::Openb, &ReadOptions::default());
        openb::nodes_to_toml(&mut Lines::new(input), &mut collector)?
    } else {
        let bytes = crate::load::read_whole(source_name, input, CLUSTER_BYTES_MAX, Format::RotaToml)?;
        String::from_utf8(bytes).map_err(|_| failed(Problem::NotText))?
    };
    Cluster::from_toml(&text).map_err(|error| failed(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Cluster, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let from_memory = parse_cluster("nodes.csv", text.as_bytes()).map_err(|error| error.to_string());
        let name = file.path().display().to_string();
        let from_file = read_cluster(file.path()).map_err(|error| error.to_string().replace(&name, "nodes.csv"));
        assert_eq!(from_memory, from_file);
        from_file
    }

    #[test]
    fn nodes_of_openb_are_a_cluster_under_its_own_names() {
        let header = "sn,cpu_milli,memory_mib,gpu,model\n";
        let rows = "openb-node-0000,64000,262144,2,P100\nopenb-node-0001,96000,1,0,\nopenb-node-0002,96000,1,8,G2\nopenb-node-0003,1,1,4,V100M32\n";
        let cluster = read(&format!("{header}{rows}")).unwrap();
        assert_eq!(cluster.describe(), "2 P100, 8 G2, 4 V100M32 on 3 nodes");
        assert_eq!(cluster.types.iter().map(|kind| kind.known).collect::<Vec<_>>(), [true, false, true]);
        assert_eq!(cluster.types[2].memory_mib, 32_768);
        let message = read(&format!("{header}a,1,1,x,P100\n")).unwrap_err();
        assert_eq!(message, "nodes.csv:2: gpu: `x` is not a whole number of GPUs");
        let message = read(header).unwrap_err();
        assert!(message.contains("has no GPU"), "{message}");
    }

    #[test]
    fn a_toml_file_is_a_cluster_and_its_faults_name_the_file() {
        assert_eq!(read("[[node]]\nname = 'a'\ngpus = 't4:2'\n").unwrap().describe(), "2 t4 on 1 node");
        let message = read("[[node]]\nname = 'a'\ngpus = 't4'\n").unwrap_err();
        assert!(message.starts_with("nodes.csv: cluster file: node `a`"), "{message}");
        assert_eq!(read("").unwrap_err(), "nodes.csv: is empty");
        let message = read_cluster(Path::new("/no/such/file")).unwrap_err().to_string();
        assert_eq!(message, "/no/such/file: there is no such file");
    }
}
