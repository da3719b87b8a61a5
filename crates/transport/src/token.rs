//! Tokens: secrets that a server shares with its clients, one with each, so that each can be told
//! from the others and be revoked.
//!
//! A token is never sent. A client proves that it has it by a keyed hash over its TLS channel's
//! keying material, which is worth nothing on another channel.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use ring::hmac;

use crate::channel::Channel;
use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::limits::ClientId;

/// The exporter label (RFC 8446 §7.5) under which a token's proof is bound to its channel.
const LABEL: &str = "EXPORTER-weftline-token";
/// The shortest secret, in bytes: a shorter one can be guessed.
const MIN_SECRET: usize = 16;
const MAX_SECRET: usize = 512;
const MAX_NAME: usize = 64;
/// The most tokens of a server: all of them are tried for each client.
const MAX_TOKENS: usize = 1024;
/// What a token without a name is called.
const UNNAMED: &str = "default";

/// A secret that a client shares with its server, and the client's name.
#[derive(Clone)]
pub struct Token {
    name: Arc<str>,
    key: hmac::Key,
    /// Tells secrets of one name apart.
    digest: Fingerprint,
    /// When it expires, as the time since 1970.
    until: Option<Duration>,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Token {
    /// A token without a name, from its text. White space around it does not count.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is shorter than 16 bytes, as such a secret can be guessed, or
    /// longer than 512.
    pub fn new(secret: &str) -> Result<Self, Error> {
        Self::named(UNNAMED, secret)
    }

    /// The token of the client `name`.
    ///
    /// # Errors
    /// As [`Token::new`]; and if the name is empty, longer than 64 bytes or has other characters
    /// than letters, digits and `-_.@`.
    pub fn named(name: &str, secret: &str) -> Result<Self, Error> {
        let secret = secret.trim();
        let length = secret.len();
        if !is_name(name) {
            let message = "a client's name has 1 to 64 letters, digits or -_.@";
            return Err(Error::Invalid(message.to_owned()));
        }
        if !(MIN_SECRET..=MAX_SECRET).contains(&length) {
            let message =
                format!("a token needs {MIN_SECRET} characters or more, this one has {length}");
            let too_long = format!("a token has at most {MAX_SECRET} bytes, this one has {length}");
            return Err(Error::Invalid(if length < MIN_SECRET { message } else { too_long }));
        }
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        Ok(Self { name: name.into(), key, digest: Fingerprint::of(secret.as_bytes()), until: None })
    }

    /// The tokens in the text of a file: one on each line, with or without a name and a colon
    /// before it, and with a name perhaps ` until ` and a date: `phone until 2026-12-03T10:00:00Z:
    /// SECRET`. Empty lines and lines that begin with `#` do not count. A name may stand on several
    /// lines: while a client changes its secret, both are valid.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the number of the line that is wrong; never with what is in it.
    pub fn read_all(text: &str) -> Result<Vec<Self>, Error> {
        let mut tokens: Vec<Self> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let wrong =
                |reason: &dyn fmt::Display| Error::Invalid(format!("line {number}: {reason}"));
            let Some(line) = TokenLine::read(line).map_err(|error| wrong(&error))? else {
                continue;
            };
            let token = Self::named(line.name.unwrap_or(UNNAMED), line.secret);
            let mut token = token.map_err(|error| wrong(&error))?;
            token.until = line.until;
            if let Some(other) = tokens.iter().find(|other| other.digest == token.digest) {
                return Err(wrong(&format!("the same secret as that of '{}'", other.name)));
            }
            if tokens.len() == MAX_TOKENS {
                return Err(wrong(&format!("more than {MAX_TOKENS} tokens")));
            }
            tokens.push(token);
        }
        if tokens.is_empty() {
            return Err(Error::Invalid("there is no token in it".to_owned()));
        }
        Ok(tokens)
    }

    /// The client's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether its time is over at `now`, the time since 1970.
    pub(crate) fn is_over(&self, now: Duration) -> bool {
        self.until.is_some_and(|until| now >= until)
    }

    /// A key for something else than a connection, such as `weftline probe`: both ends with the token
    /// have the same, which tells nothing of the token, of keys for other purposes or of proofs.
    pub fn derive_key(&self, purpose: &str) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.key);
        // No keying material of a channel begins like this but by a chance of 2^-128.
        context.update(b"weftline derive ");
        context.update(purpose.as_bytes());
        let mut key = [0; 32];
        key.copy_from_slice(context.sign().as_ref());
        key
    }

    /// Who its holder is.
    pub(crate) fn id(&self) -> ClientId {
        ClientId::Token(Arc::clone(&self.name), self.digest)
    }

    /// The proof that the holder is at the other end of `channel`.
    pub(crate) fn prove(&self, channel: &Channel) -> Result<Vec<u8>, Error> {
        Ok(hmac::sign(&self.key, &channel.keying_material(LABEL)?).as_ref().to_vec())
    }

    /// Whose `proof`, received on `channel`, is. Every token is tried whatever the proof, each in
    /// constant time: how long it takes tells nothing.
    pub(crate) fn find<'a>(
        tokens: &'a [Self],
        channel: &Channel,
        proof: &[u8],
    ) -> Result<Option<&'a Self>, Error> {
        let material = channel.keying_material(LABEL)?;
        let fits = |token: &Self| hmac::verify(&token.key, &material, proof).is_ok();
        Ok(tokens.iter().fold(None, |found, token| if fits(token) { Some(token) } else { found }))
    }
}

/// What stands between a name and a date.
const UNTIL: &str = " until ";

/// A line of a file of tokens, in its parts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TokenLine<'a> {
    /// The client's name.
    pub name: Option<&'a str>,
    /// When the token expires, as the time since 1970.
    pub until: Option<Duration>,
    /// The secret.
    pub secret: &'a str,
}

/// Nothing of the secret.
impl fmt::Debug for TokenLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenLine").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The line as it is read again.
impl fmt::Display for TokenLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.name {
            f.write_str(name)?;
            if let Some(until) = self.until {
                write!(f, "{UNTIL}{}", humantime::format_rfc3339_seconds(UNIX_EPOCH + until))?;
            }
            f.write_str(": ")?;
        }
        f.write_str(self.secret)
    }
}

impl<'a> TokenLine<'a> {
    /// The parts of a line; `None` for one that is empty or a comment.
    ///
    /// # Errors
    /// [`Error::Invalid`] when there is no date where one should be.
    pub fn read(line: &'a str) -> Result<Option<Self>, Error> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        // Without a colon it is a secret of several words that has no name.
        let dated =
            line.split_once(UNTIL).filter(|(name, rest)| is_name(name) && rest.contains(':'));
        if let Some((name, rest)) = dated {
            // A date has colons itself, and ends with the letter for its time zone.
            let parts = rest.split_once('Z').and_then(|(date, secret)| {
                let until = humantime::parse_rfc3339(&format!("{}Z", date.trim())).ok()?;
                let secret = secret.trim_start().strip_prefix(':')?;
                Some((until.duration_since(UNIX_EPOCH).ok()?, secret.trim()))
            });
            let (until, secret) = parts.ok_or_else(|| {
                let message = "no date after 'until'; write it like 2026-12-03T10:00:00Z";
                Error::Invalid(message.to_owned())
            })?;
            return Ok(Some(Self { name: Some(name), until: Some(until), secret }));
        }
        Ok(Some(match line.split_once(':') {
            Some((name, secret)) if is_name(name.trim()) => {
                Self { name: Some(name.trim()), until: None, secret: secret.trim() }
            }
            _ => Self { name: None, until: None, secret: line },
        }))
    }
}

fn is_name(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"-_.@".contains(&b);
    (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        Token::read_all(text).unwrap().iter().map(|token| token.name().to_owned()).collect()
    }

    #[test]
    fn files_of_one_and_of_many_are_read() {
        assert_eq!(names("correct horse battery\n"), ["default"]);
        let many = "# who may come\n\nalice: 0123456789abcdef\nbob:fedcba9876543210\r\n";
        assert_eq!(names(many), ["alice", "bob"]);
        // Both while she changes it.
        assert_eq!(names("alice: 0123456789abcdef\nalice: 1123456789abcdef"), ["alice", "alice"]);
        // What is no name is part of the secret.
        assert_eq!(names("two words: and the rest of it"), ["default"]);
    }

    #[test]
    fn a_date_ends_a_token_and_changes_nothing_else() {
        let text = "alice until 2026-12-03T10:00:00Z: 0123456789abcdef";
        let one = &Token::read_all(text).unwrap()[0];
        assert_eq!(one.digest, Token::new("0123456789abcdef").unwrap().digest);
        let at = |text: &str| {
            humantime::parse_rfc3339(text).unwrap().duration_since(UNIX_EPOCH).unwrap()
        };
        assert!(
            !one.is_over(at("2026-12-03T09:59:59Z")) && one.is_over(at("2026-12-03T10:00:00Z"))
        );
        assert!(!Token::new("0123456789abcdef").unwrap().is_over(at("9999-01-01T00:00:00Z")));
        assert_eq!(TokenLine::read(text).unwrap().unwrap().to_string(), text);
    }

    #[test]
    fn the_word_until_in_a_secret_is_no_date() {
        let secret = "sesame until the end of days";
        let one = &Token::read_all(secret).unwrap()[0];
        assert_eq!((one.name(), one.digest), ("default", Token::new(secret).unwrap().digest));
        assert!(!one.is_over(Duration::MAX));
        for (line, secret) in [
            ("alice: bob until 2020-01-01T00:00:00Z: x", "bob until 2020-01-01T00:00:00Z: x"),
            ("alice: until 2020-01-01T00:00:00Z: 0123", "until 2020-01-01T00:00:00Z: 0123"),
        ] {
            let read = TokenLine::read(line).unwrap().unwrap();
            assert_eq!((read.name, read.until, read.secret), (Some("alice"), None, secret));
        }
        let dated = "alice until 2020-01-01T00:00:00Z : bob until 2030-01-01T00:00:00Z: 0123";
        let read = TokenLine::read(dated).unwrap().unwrap();
        assert_eq!(read.secret, "bob until 2030-01-01T00:00:00Z: 0123");
        assert!(Token::named("alice until 2020-01-01T00:00:00Z", secret).is_err());
    }

    #[test]
    fn a_name_changes_nothing_in_the_secret() {
        let one = &Token::read_all("alice: 0123456789abcdef").unwrap()[0];
        assert_eq!(one.digest, Token::new("0123456789abcdef").unwrap().digest);
    }

    #[test]
    fn derived_keys_differ_by_token_and_purpose() {
        let [one, other] = ["0123456789abcdef", "0123456789abcdeg"].map(|s| Token::new(s).unwrap());
        assert_eq!(one.derive_key("probe"), one.clone().derive_key("probe"));
        assert_ne!(one.derive_key("probe"), one.derive_key("tunnel"));
        assert_ne!(one.derive_key("probe"), other.derive_key("probe"));
    }

    #[test]
    fn what_is_wrong_is_told_by_line_and_without_the_secret() {
        for (text, message) in [
            ("", "there is no token in it"),
            ("# nothing\n", "there is no token in it"),
            ("alice: tooshort!", "line 1: a token needs 16 characters or more, this one has 9"),
            ("a: 0123456789abcdef\nb: 0123456789abcdef", "line 2: the same secret as that of 'a'"),
            (
                "a until tomorrow: 0123456789abcdef",
                "line 1: no date after 'until'; write it like 2026-12-03T10:00:00Z",
            ),
        ] {
            let error = Token::read_all(text).unwrap_err().to_string();
            assert_eq!(error, message);
        }
        let long = Token::new(&"x".repeat(513)).unwrap_err().to_string();
        assert!(long.contains("at most 512"), "{long}");
        assert!(Token::named("a b", "0123456789abcdef").is_err());
        let shown = format!("{:?}", Token::named("alice", "0123456789abcdef").unwrap());
        assert_eq!(shown, "Token { name: \"alice\", .. }");
    }
}
