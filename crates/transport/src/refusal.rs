//! Why a server refuses a hello or a join, as the numbers that go over the wire
//! (docs/protocol.md).

/// The server is at one of its limits; trying again later may help.
pub const BUSY: u64 = 1;
/// The server has no such congestion control.
pub const CONGESTION: u64 = 2;
/// The connection is unknown or the proof is wrong; the two are not told apart.
pub const JOIN: u64 = 3;
/// The client sent something else than a hello or a join.
pub const PROTOCOL: u64 = 4;
/// The server has no such scheduler.
pub const SCHEDULER: u64 = 5;
/// The number of the new subflow has been used before in the connection.
pub const SUBFLOW: u64 = 6;
/// The server wants TLS and the client came without.
pub const TLS_WANTED: u64 = 7;
/// The server wants a token and the client's is missing or wrong.
pub const TOKEN: u64 = 8;
/// The client wants a connection of messages and the server takes byte streams only.
pub const MESSAGES: u64 = 9;
/// The client's token is right and its time is over.
pub const EXPIRED: u64 = 10;

/// `text` from a peer, made fit for one line of a terminal: without controls, and without what
/// reorders or hides the text around it.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || is_format(c) { '?' } else { c }).collect()
}

/// Whether a character changes how others are shown and shows nothing itself: the controls of
/// direction (UAX #9 §2), line and paragraph separators, zero-width ones and tags.
const fn is_format(c: char) -> bool {
    matches!(
        c,
        '\u{61c}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_peers_say_cannot_change_how_a_line_is_shown() {
        assert_eq!(printable("a\u{1b}[2J\nb"), "a?[2J?b");
        // In a terminal that knows directions this would read "refused: let in".
        assert_eq!(printable("x\u{202e}ni tel\u{2066}y\u{200f}"), "x?ni tel?y?");
        assert_eq!(printable("\u{feff}a\u{200b}b\u{2028}\u{e0041}"), "?a?b??");
        assert_eq!(printable("Grüße, 世界, שלום"), "Grüße, 世界, שלום");
    }
}
