//! Setting a key of a scenario's TOML by its dotted name.

use toml::{Table, Value};

/// Sets `key`. A path or flow is named, not numbered: `path.wifi.rate`. A table is merged into one
/// that is there. A rate takes the place of a trace, and a trace that of a rate.
pub(crate) fn set(table: &mut Table, key: &str, value: Value) -> Result<(), String> {
    let parts: Vec<&str> = key.split('.').collect();
    let (mut at, rest) = match parts[..] {
        ["path" | "flow", name, ref rest @ ..] => (entry(table, parts[0], name)?, rest),
        _ => (table, &parts[..]),
    };
    let Some((last, folders)) = rest.split_last() else {
        // The whole path or flow.
        return match value {
            Value::Table(new) => {
                merge(at, new);
                Ok(())
            }
            _ => Err(format!("key '{key}': wants a table, or a longer key")),
        };
    };
    for folder in folders {
        let inner = at.entry(*folder).or_insert_with(|| Value::Table(Table::new()));
        let wrong = format!("key '{key}': '{folder}' is no table there");
        at = inner.as_table_mut().ok_or(wrong)?;
    }
    merge(at, Table::from_iter([((*last).to_owned(), value)]));
    Ok(())
}

/// Keeps the first `count` paths. Returns the names of the others.
pub(super) fn keep(table: &mut Table, count: &Value) -> Result<Vec<String>, String> {
    let paths = table.get_mut("path").and_then(Value::as_array_mut);
    let there = paths.as_ref().map_or(0, |paths| paths.len());
    let count = count.as_integer().and_then(|count| usize::try_from(count).ok());
    let (Some(count @ 1..), Some(paths)) = (count.filter(|&count| count <= there), paths) else {
        return Err(format!("key 'paths': wants whole numbers from 1 to {there}, the scenario's"));
    };
    let names =
        paths.drain(count..).filter_map(|path| Some(path.get("name")?.as_str()?.to_owned()));
    Ok(names.collect())
}

/// Whether `key` is of the path called `name`.
pub(super) fn is_of_path(key: &str, name: &str) -> bool {
    let rest = key.strip_prefix("path.").and_then(|rest| rest.strip_prefix(name));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The table called `name` in the array `list`.
fn entry<'a>(table: &'a mut Table, list: &str, name: &str) -> Result<&'a mut Table, String> {
    let entries = table.get_mut(list).and_then(Value::as_array_mut);
    let entries = entries.into_iter().flatten().filter_map(Value::as_table_mut);
    let mut known = Vec::new();
    for entry in entries {
        match entry.get("name").and_then(Value::as_str) {
            Some(found) if found == name => return Ok(entry),
            found => known.push(found.unwrap_or_default().to_owned()),
        }
    }
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Err(format!("key '{list}.{name}': the scenario has no {list} '{name}'; there are: {known}"))
}

fn merge(into: &mut Table, new: Table) {
    for (key, value) in new {
        match key.as_str() {
            "rate" => drop(into.remove("trace")),
            "trace" => drop(into.remove("rate")),
            // Settings beside the kind belong to it.
            "kind" if into.get("kind") != Some(&value) => into.clear(),
            _ => {}
        }
        match (into.get_mut(&key), value) {
            // A generator's settings belong together; other tables are extended.
            (Some(Value::Table(old)), Value::Table(new)) if key != "trace" && key != "loss" => {
                merge(old, new);
            }
            (_, value) => drop(into.insert(key, value)),
        }
    }
}

/// Whether an error's message is about `key` or something in it.
pub(super) fn names(table: &Table, key: &str, message: &str) -> bool {
    let mut parts: Vec<String> = key.split('.').map(str::to_owned).collect();
    if let [list, name, ..] = &parts[..]
        && let Some(entries) = table.get(list.as_str()).and_then(Value::as_array)
    {
        let named = |entry: &Value| entry.get("name").and_then(Value::as_str) == Some(name);
        if let Some(index) = entries.iter().position(named) {
            parts.splice(..2, [format!("{list}[{index}]")]);
        }
    }
    let Some(rest) = message.strip_prefix("key '") else { return false };
    let Some(rest) = rest.strip_prefix(&parts.join(".")) else { return false };
    rest.starts_with(['\'', '.', '['])
}
