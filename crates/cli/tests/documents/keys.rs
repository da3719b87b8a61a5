//! The keys of scenarios and sweeps: the reference has those that the parser knows, each in its table.

use std::collections::BTreeSet;

use weftline_scenario::{Scenario, Sweep};

use crate::markdown::documents;

/// A key that no table has.
const UNKNOWN: &str = "no-such-key = 1";

/// Whose keys these are, as the reference calls it, and a document in which `?` is a place for another
/// key. What begins with `scheme` is a sweep.
const TABLES: [(&str, &str); 23] = [
    ("the scenario", "?\n{top}\n[[path]]\n{path}"),
    ("`[[path]]`", "{top}\n[[path]]\n{path}\n?"),
    ("`up`", "{top}\n[[path]]\n{path}\nup = { ? }"),
    ("`loss`: Gilbert–Elliott", "{top}\n[[path]]\n{path}\nloss = { {gilbert}, ? }"),
    ("`loss`: these packets", "{top}\n[[path]]\n{path}\nloss = { nth = [3], ? }"),
    ("`loss`: a schedule", "{top}\n[[path]]\n{path}\nloss = [{ at = \"0s\", rate = 0, ? }]"),
    ("`unplugged`", "{top}\n[[path]]\n{path}\nunplugged = [{ at = \"0s\", for = \"0s\", ? }]"),
    (
        "`trace`: a file",
        "{top}\n[[path]]\nname = \"x\"\ntrace = { file = \"x\", format = \"csv\", ? }",
    ),
    ("`trace`: `blockage`", "{top}\n[[path]]\nname = \"x\"\ntrace = { {blockage}, ? }"),
    ("`trace`: `outage`", "{top}\n[[path]]\nname = \"x\"\ntrace = { {outage}, ? }"),
    ("`trace`: `headset`", "{top}\n[[path]]\nname = \"x\"\ntrace = { {headset}, ? }"),
    ("`[workload]`", "{top}\n[[path]]\n{path}\n[workload]\nkind = \"bulk\"\n?"),
    ("`[workload]` of a clip", "{top}\n[[path]]\n{path}\n[workload]\nkind = \"video\"\n?"),
    ("`[scheduler]`", "{top}\n[[path]]\n{path}\n[scheduler]\n?"),
    ("`[backend]`", "{top}\n[[path]]\n{path}\n[backend]\n?"),
    ("`[gateway]`", "{top}\ntopology = \"gateway-aps\"\n[[path]]\n{path}\n[gateway]\n?"),
    ("`[cotag]`", "{top}\ntopology = \"gateway-aps\"\n[[path]]\n{path}\n[cotag]\n?"),
    ("`[[flow]]`", "{top}\n[[path]]\n{path}\n[[flow]]\nname = \"x\"\n?"),
    ("a sweep", "{sweep}\n?"),
    ("a sweep's `seed`", "{base}\nseed = { from = 1, to = 2, ? }"),
    ("a range in `[set]`", "{sweep}\n[set]\n\"path.dsl.rate\" = { {range}, steps = 2, ? }"),
    ("`[random]`", "{sweep}\n[random]\nruns = 1\n{random}\n?"),
    (
        "a range in `[random.set]`",
        "{sweep}\n[random]\nruns = 1\n[random.set]\n\"path.dsl.rate\" = { {range}, ? }",
    ),
];

/// What is needed for there to be nothing else wrong.
const PARTS: [(&str, &str); 10] = [
    ("{top}", "name = \"x\"\nduration = \"1s\""),
    ("{path}", "name = \"x\"\nrate = \"1Mbps\""),
    ("{gilbert}", "good_to_bad = 0, bad_to_good = 0, loss_good = 0, loss_bad = 0"),
    (
        "{blockage}",
        "generator = \"blockage\", los = \"2Mbps\", nlos = \"1Mbps\", blocked = \"0bps\"",
    ),
    (
        "{outage}",
        "generator = \"outage\", rate = \"1Mbps\", up = [\"1s\", \"2s\"], down = [\"1s\", \"2s\"]",
    ),
    ("{headset}", "generator = \"headset\", peak = \"1Mbps\""),
    ("{sweep}", "{base}\nseed = 1"),
    ("{base}", "scheme = \"fbdt\"\nscenario = \"bond\""),
    ("{range}", "from = \"1Mbps\", to = \"2Mbps\""),
    ("{random}", "set = { \"path.dsl.rate\" = [\"1Mbps\"] }"),
];

/// The keys that the parser knows there, in the order in which it asks for them.
fn known(document: &str) -> Vec<String> {
    let filled =
        PARTS.iter().fold(document.to_owned(), |text, (name, part)| text.replace(name, part));
    let text = filled.replace('?', UNKNOWN);
    let error = match text.starts_with("scheme") {
        true => Sweep::parse("x", &text, None).map(drop).unwrap_err().to_string(),
        false => {
            let trace = |_: &std::path::Path| Ok("time_s,rate_mbps\n0,1\n".to_owned());
            Scenario::parse("x", &text, &trace).map(drop).unwrap_err().to_string()
        }
    };
    let (_, keys) = error.split_once("no-such-key' is not known here; known keys: ").expect(&error);
    keys.split(", ").map(str::to_owned).collect()
}

#[test]
fn the_reference_of_scenarios_has_every_key_and_no_other() {
    let all = documents();
    let page = all.iter().find(|one| one.name == "docs/scenarios.md").unwrap();
    let (mut wanted, mut explained) = (Vec::new(), BTreeSet::new());
    for (name, document) in TABLES {
        let keys = known(document);
        let spans: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
        explained.extend(keys);
        wanted.push(format!("| {name} | {} |", spans.join(", ")));
    }
    let heading = page.prose.iter().position(|(_, text)| text == "## Every key").unwrap();
    let rows = page.prose[heading..].iter().map(|(_, text)| text);
    let rows: Vec<&String> = rows.filter(|text| text.starts_with("| ")).skip(1).collect();
    assert!(rows.iter().copied().eq(&wanted), "they are:\n{}", wanted.join("\n"));

    // Above that, the page says what each one is.
    let prose = page.prose[..heading].iter().map(|(_, text)| text.as_str());
    let blocks = page.blocks.iter().map(|block| block.text.as_str());
    let text = prose.chain(blocks).collect::<Vec<_>>().join("\n");
    let words: BTreeSet<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let missing: Vec<_> = explained.iter().filter(|key| !words.contains(key.as_str())).collect();
    assert!(missing.is_empty(), "not explained: {missing:?}");
}
