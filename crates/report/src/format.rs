//! Numbers and texts for a reader.

use std::fmt::Write as _;

use weftline_scenario::MeanCi;

/// `text` with the characters that HTML and SVG give a meaning to written as references.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(c),
        }
    }
    escaped
}

/// Decimals that leave about three significant digits.
pub(crate) fn decimals(value: f64) -> usize {
    match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    }
}

/// A number with thin spaces between groups of three digits.
pub(crate) fn number(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let (whole, fraction) =
        text.split_once('.').map_or((text.as_str(), None), |(w, f)| (w, Some(f)));
    let digits = whole.trim_start_matches('-');
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 && digits.len() > 4 {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    let sign = if whole.starts_with('-') { "−" } else { "" };
    match fraction {
        Some(fraction) => format!("{sign}{grouped}.{fraction}"),
        None => format!("{sign}{grouped}"),
    }
}

/// A mean with its interval, as a table cell's HTML.
pub(crate) fn mean_ci(value: &MeanCi, decimals: usize) -> String {
    let mean = number(value.mean, decimals);
    match value.half_width {
        Some(width) => format!("{mean}<span class=\"ci\"> ± {}</span>", number(width, decimals)),
        None => mean,
    }
}

/// Appends to a text, which cannot fail.
pub(crate) fn put(html: &mut String, piece: std::fmt::Arguments<'_>) {
    html.write_fmt(piece).expect("a String takes all that is written");
}

/// A note as a paragraph below a table; nothing without one.
pub(crate) fn paragraph(note: Option<String>) -> String {
    note.map_or_else(String::new, |note| format!("<p class=\"facts\">{}</p>\n", escape(&note)))
}
