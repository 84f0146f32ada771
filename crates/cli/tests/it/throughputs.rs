//! `rota throughputs`: tables shown, converted and filled.

use crate::rota::{json, rota, stdout};
use std::fs;
use tempfile::TempDir;

/// Three job types, of which `b` is slowed by whatever runs beside it and `c` not at all.
const TABLE: &str = "job_type,gpus,with_job_type,v100\na,1,,10\nb,1,,6\nc,1,,4\na,1,a,5\na,1,b,6\nb,1,a,1\na,1,c,9\nc,1,a,4\n\
                     b,1,b,0.6\nb,1,c,1\nc,1,b,4\nc,1,c,4\n";

#[test]
fn a_table_is_filled_and_reads_back() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (table, observed, filled) = (path("table.csv"), path("new.csv"), path("filled.toml"));
    fs::write(&table, TABLE).unwrap();
    fs::write(&observed, "job_type,gpus,with_job_type,v100\nnew,1,,20\nnew,1,b,20\nb,1,new,1\nnew,1,a,19\na,1,new,8\n").unwrap();
    let found = json(&["throughputs", "estimate", "--table", &table, "--observed", &observed, "-o", &filled, "--json"]);
    assert_eq!(found["types"][0]["job_type"], "new");
    assert_eq!(found["types"][0]["reference"], "c");
    assert_eq!((&found["types"][0]["measured"], &found["types"][0]["estimated"]), (&2.into(), &2.into()));
    assert!(found["types"][0]["errors"]["guess_mean"].as_f64().is_some());
    let shown = json(&["throughputs", "show", &filled, "--json"]);
    assert_eq!(shown["pairs"], 10);
    assert_eq!(shown["job_types"][3]["partners"], 4);
    let printed = rota(&["throughputs", "estimate", "--table", &table, "--observed", &observed]);
    let csv = String::from_utf8(printed.stdout).unwrap();
    assert!(csv.contains("new,1,c,1,20\n") && csv.contains("new,1,b,1,20\n"), "{csv}");
    assert!(String::from_utf8(printed.stderr).unwrap().contains("is like"));
    let again = path("again.csv");
    stdout(&["throughputs", "convert", &filled, "-o", &again]);
    assert_eq!(fs::read_to_string(again).unwrap(), csv);
}

#[test]
fn a_table_is_tried_on_itself() {
    let folder = TempDir::new().unwrap();
    let table = folder.path().join("table.csv");
    fs::write(&table, TABLE).unwrap();
    let found = json(&["throughputs", "estimate", "--table", table.to_str().unwrap(), "--holdout", "0.5", "--json"]);
    assert_eq!(found["types"].as_array().unwrap().len(), 3);
    assert!(found["errors"]["mean"].as_f64().is_some() && found["observed"].is_null());
    assert!(stdout(&["throughputs", "show"]).contains("26 job types, 0 pairs"));
}
