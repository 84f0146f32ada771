//! The page of a what-if: the answer first, then how far it can be believed, the table, and the waits as curves.

use super::WhatIf;
use super::words::{counted, fidelity_words, table};
use rota_report::wait_distributions;
use std::fmt::Write as _;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#1f2933}\
h1{font-size:1.5rem;line-height:1.3}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}\
th,td{text-align:left;padding:.4rem .8rem .4rem 0;border-bottom:1px solid #d9dee4;vertical-align:top}th{font-weight:600}\
.scroll{overflow-x:auto}ul{padding-left:1.2rem}svg{max-width:100%;height:auto}";

/// The whole page, in one file.
pub fn page(whatif: &WhatIf) -> String {
    let mut text = String::new();
    // Memory takes everything.
    _ = writeln!(text, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">");
    _ = writeln!(text, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>What if</title>");
    _ = writeln!(text, "<style>{STYLE}</style>\n</head>\n<body>");
    _ = writeln!(text, "<h1>{}</h1>", escape(&whatif.answer));
    _ = writeln!(text, "<p>{} from {} on {}.</p>", counted(whatif.jobs, "job"), escape(&whatif.source), escape(&whatif.cluster));
    _ = writeln!(text, "<h2>Does the simulation fit?</h2>\n<p>{}</p>", escape(&fidelity_words(whatif.fidelity.as_ref())));
    _ = writeln!(text, "<h2>The alternatives</h2>\n<div class=\"scroll\"><table>");
    for (position, row) in table(whatif).iter().enumerate() {
        let cell = if position == 0 { "th" } else { "td" };
        text.push_str("<tr>");
        for value in row {
            _ = write!(text, "<{cell}>{}</{cell}>", escape(value));
        }
        text.push_str("</tr>\n");
    }
    _ = writeln!(text, "</table></div>\n<h2>How long jobs waited</h2>\n<div class=\"scroll\">{}</div>", chart(whatif));
    _ = writeln!(text, "<h2>How it was made</h2>\n<ul>");
    for note in &whatif.notes {
        _ = writeln!(text, "<li>{}</li>", escape(note));
    }
    text.push_str("</ul>\n</body>\n</html>\n");
    text
}

/// The part of the jobs that waited at most so long, one line an alternative, and one for what is recorded.
fn chart(whatif: &WhatIf) -> String {
    let recorded = Some(("recorded, until the first start", &whatif.recorded_waits_s)).filter(|(_, waits)| !waits.is_empty());
    let alternatives = whatif.alternatives.iter().map(|outcome| (outcome.name.as_str(), &outcome.waits_s));
    let sorted = |waits: &Vec<f64>| {
        let mut waits = waits.clone();
        waits.sort_by(f64::total_cmp);
        waits
    };
    let (names, waits) =
        recorded.into_iter().chain(alternatives).map(|(name, waits)| (name, sorted(waits))).unzip::<_, _, Vec<_>, Vec<_>>();
    wait_distributions("Waits", "the part of the jobs that waited at most so long", &names, &waits)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
