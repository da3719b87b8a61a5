//! When and where the runs of a report were made, and how.

use weftline_scenario::Provenance;

use crate::data::Data;
use crate::format::{escape, put};
use crate::quantity::shorten;

/// One line: the last day, the machine and the version.
pub(crate) fn line(data: &Data) -> String {
    let mut versions: Vec<&str> = data.records.iter().map(|run| run.version.as_str()).collect();
    versions.sort_unstable();
    versions.dedup();
    let mut text = format!("weftline {}", versions.join(", "));
    if let Some(Provenance { date, kernel, machine, .. }) = data.made.last() {
        let day = date.split('T').next().unwrap_or_default();
        for part in [day, machine, kernel].into_iter().filter(|part| !part.is_empty()) {
            text += &format!("; {}", shorten(part, 100));
        }
    }
    text
}

/// A table with every process that wrote runs; empty where nobody has kept that.
pub(crate) fn section(data: &Data) -> String {
    if data.made.is_empty() {
        return String::new();
    }
    let mut html = "<details id=\"made\"><summary>When, where and by which command this was made\
                    </summary>\n<div class=\"scroll\"><table class=\"texts\">\n<thead><tr>\
                    <th scope=\"col\">Date <span class=\"unit\">UTC</span></th>\
                    <th scope=\"col\">Version</th><th scope=\"col\">Machine</th>\
                    <th scope=\"col\">Processor</th><th scope=\"col\">Kernel</th>\
                    <th scope=\"col\">Command</th></tr></thead>\n<tbody>\n"
        .to_owned();
    for Provenance { date, command, version, kernel, cpu, machine } in &data.made {
        html.push_str("<tr>");
        let date = date.replace('T', " ").replace('Z', "");
        for text in [&date, version, machine, cpu, kernel] {
            put(&mut html, format_args!("<td>{}</td>", escape(&shorten(text, 100))));
        }
        let command = escape(&shorten(command, 1000));
        put(&mut html, format_args!("<td><code>{command}</code></td></tr>\n"));
    }
    html.push_str("</tbody></table></div>\n</details>\n");
    html
}
