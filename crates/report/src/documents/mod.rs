//! What is handed to people: files, tables, the terminal's chart and the page.

pub(crate) mod files;
pub(crate) mod jobs_csv;
pub(crate) mod pack;
pub(crate) mod page;
pub(crate) mod report;
pub(crate) mod sweep_page;
pub(crate) mod table;
pub(crate) mod terminal;
