//! One module a format. A reader says what a column means; how lines are read, faults placed and jobs put in order
//! is the same for all.

pub(crate) mod acme_helios;
pub(crate) mod gavel;
pub(crate) mod openb;
pub(crate) mod own;
pub(crate) mod own_csv;
pub(crate) mod own_toml;
pub(crate) mod pai;
pub(crate) mod philly;
pub(crate) mod philly_json;
pub(crate) mod pollux;
pub(crate) mod sacct;
pub(crate) mod swf;
