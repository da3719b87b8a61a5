//! Who may see the dashboard.
//!
//! Any program and any user of the machine can connect to a loopback address, and so can any page in
//! the user's browser. Hence:
//!
//! - a request names this server (`Host`), so that a foreign name that leads here (DNS rebinding) is
//!   of no use;
//! - what is under `/api/` wants a session. It is had for the token that the daemon prints, and kept
//!   in a cookie that scripts cannot read and that other sites' pages do not send;
//! - requests that other pages make are refused by what browsers say of them (`Origin`,
//!   `Sec-Fetch-Site`); no answer allows another origin to read it;
//! - pages run only the scripts of this server, and stand in no frame ([`seal`]).

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr as _;

use hyper::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, HOST, HeaderMap, HeaderName,
    HeaderValue, ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{StatusCode, Uri};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::Deserialize;
use subtle::ConstantTimeEq as _;

/// What the page may do: run and show what this server has, and ask it; nothing else. Scripts come
/// to the page's markup through two policies, lit-html's and our own.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types lit-html weftline";
/// Other origins cannot load what is here, nor keep a handle on its window.
pub(crate) const OWN_RESOURCES: HeaderName =
    HeaderName::from_static("cross-origin-resource-policy");
const OWN_WINDOW: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
/// What a browser says of the page that makes a request (W3C Fetch Metadata).
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The longest name of a host, in bytes (RFC 1035 §2.3.4).
const MAX_NAME: usize = 253;
/// How the cookies of all our programs begin, and how many of them a browser may keep for one host: a
/// request has to have room for all.
const COOKIES: &str = "weftline-";
const MAX_COOKIES: usize = 16;

/// A name that no host can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no host's name; give the name that browsers use, such as weft.example, without http:// and port"
)]
pub struct WrongName(pub String);

/// Why a request is not answered as it was meant.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    /// What is wrong and what to do.
    pub(crate) text: String,
    /// The methods there are, where it was another.
    pub(crate) allowed: Option<&'static str>,
    /// What is to be spoken here, where it was HTTP.
    pub(crate) upgrade: Option<&'static str>,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), allowed: None, upgrade: None }
    }

    /// Of a method that is none of the `allowed`.
    pub(crate) fn method(allowed: &'static str) -> Self {
        let text = format!("this takes {allowed} only");
        Self { allowed: Some(allowed), ..Self::new(StatusCode::METHOD_NOT_ALLOWED, text) }
    }

    fn forbidden(text: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, text)
    }
}

/// 128 random bits as text.
struct Secret(String);

/// So many random bytes as text.
fn draw<const N: usize>() -> Result<String, ring::error::Unspecified> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl Secret {
    fn draw() -> Result<Self, ring::error::Unspecified> {
        draw::<16>().map(Self)
    }

    /// Whether `given` is it. How long that takes says nothing of how much of it is right.
    fn is(&self, given: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(given).into()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// What a page sends for a session.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Token {
    token: String,
}

/// What offers a page: it says in which words requests are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// A daemon whose control socket tells the address.
    Daemon,
    /// A daemon without a control socket.
    Server,
    /// A program that shows its runs, and takes no names of proxies.
    Runs,
    /// A player.
    Player,
}

/// What is guarded, in the words of refusals.
#[derive(Clone, Copy, Debug)]
struct Words {
    /// What the page is.
    page: &'static str,
    /// What offers it, and has printed its address.
    program: &'static str,
    /// How to see the address again, in a sentence.
    again: &'static str,
    /// Whether it can be told the name of a proxy.
    takes_names: bool,
}

impl Program {
    const fn words(self) -> Words {
        let (page, program, again, takes_names) = match self {
            Self::Daemon => {
                ("dashboard", "daemon", "`weftline status --url` shows the present address", true)
            }
            Self::Server => (
                "dashboard",
                "daemon",
                "the address is where it was started, or in its journal; if it is lost, start it anew",
                true,
            ),
            Self::Runs => (
                "page",
                "program",
                "the address is where it was started; if it is lost, start it anew",
                false,
            ),
            Self::Player => (
                "player",
                "player",
                "the address is where `weftline vr play` was started; if it is lost, start that anew",
                true,
            ),
        };
        Words { page, program, again, takes_names }
    }
}

/// Judges requests.
#[derive(Debug)]
pub(crate) struct Guard {
    address: SocketAddr,
    /// Whether the server itself speaks TLS.
    has_tls: bool,
    /// Names it is reached by through a proxy, in small letters.
    names: Vec<String>,
    words: Words,
    token: Secret,
    session: Secret,
    /// The name of the session's cookie. Cookies are shared by all ports of a host, and daemons of
    /// several machines may have one port there, by `ssh -L`: so each process has a name of its own.
    cookie: String,
}

impl Guard {
    /// A guard of the server at `address`, which a proxy may offer under `names`, which is
    /// of this `program`.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub(crate) fn new(
        address: SocketAddr,
        has_tls: bool,
        names: &[String],
        program: Program,
    ) -> Result<Self, ring::error::Unspecified> {
        let words = program.words();
        let names = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        let cookie = format!("{COOKIES}{}", draw::<4>()?);
        let (token, session) = (Secret::draw()?, Secret::draw()?);
        Ok(Self { address, has_tls, names, words, token, session, cookie })
    }

    /// Where to open the page, with the token, which browsers do not send with it.
    pub(crate) fn url(&self) -> String {
        let token = &self.token.0;
        match self.names.first() {
            // That of the certificate.
            Some(name) if self.has_tls => {
                format!("https://{name}:{}/#k={token}", self.address.port())
            }
            Some(name) => format!("https://{name}/#k={token}"),
            None if self.has_tls => format!("https://{}/#k={token}", self.address),
            None => format!("http://{}/#k={token}", self.address),
        }
    }

    /// Refuses a request that does not name this server.
    pub(crate) fn check_host(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), Refusal> {
        let mut hosts = headers.get_all(HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok());
        let (Some(host), None) = (host, hosts.next()) else {
            let text = "a request has one Host header, and this one has none or several";
            return Err(Refusal::new(StatusCode::BAD_REQUEST, text));
        };
        let of_uri = uri.authority().map(hyper::http::uri::Authority::as_str);
        for named in [Some(host), of_uri].into_iter().flatten() {
            let name = without_port(named).to_ascii_lowercase();
            if !self.answers_to(&name) {
                let shown: String = name.chars().take(MAX_NAME).collect();
                let Words { page, program, takes_names, .. } = self.words;
                let by_proxy = format!(
                    ", or start the {program} with --behind-proxy {shown} if a proxy offers it by that name"
                );
                let by_proxy = if takes_names { by_proxy } else { String::new() };
                return Err(Refusal::forbidden(format!(
                    "this {page} does not answer to the name '{shown}'; open it by the address \
                     that the {program} printed{by_proxy}"
                )));
            }
        }
        Ok(())
    }

    /// Whether a request to `name` is meant for this server. An address cannot be made to lead
    /// elsewhere, as names can; any of this machine's own does, for those who come by a tunnel.
    fn answers_to(&self, name: &str) -> bool {
        let address = IpAddr::from_str(name.trim_start_matches('[').trim_end_matches(']'));
        let is_own = |ip: IpAddr| ip.is_loopback() || ip == self.address.ip();
        name == "localhost"
            || address.is_ok_and(is_own)
            || self.names.iter().any(|known| known == name)
    }

    /// Refuses what a page of another origin asks for, as its browser says.
    pub(crate) fn check_site(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        match headers.get(FETCH_SITE).map(HeaderValue::as_bytes) {
            None | Some(b"same-origin" | b"none") => Ok(()),
            Some(_) => {
                let page = self.words.page;
                Err(Refusal::forbidden(format!("only the {page}'s own page may ask for this")))
            }
        }
    }

    /// Refuses a request that changes something and does not say that it comes from this server's own
    /// page.
    pub(crate) fn check_origin(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let text = |name: HeaderName| {
            headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok())
        };
        let origin = text(ORIGIN).unwrap_or_default();
        // Of a server with TLS nobody has a page without.
        let schemes = if self.has_tls { &["https://"][..] } else { &["http://", "https://"] };
        let authority = schemes.iter().find_map(|scheme| origin.strip_prefix(scheme));
        let is_own = text(HOST).is_some_and(|host| {
            authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host))
        });
        if is_own {
            return Ok(());
        }
        let page = self.words.page;
        Err(Refusal::forbidden(format!(
            "only the {page}'s own page may ask for this: the Origin header is not this server; a \
             proxy has to pass the Host header on as it came"
        )))
    }

    /// Refuses a request that shows neither a session nor the token.
    pub(crate) fn check_session(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let name = format!("{}=", self.cookie);
        let mut given = cookies(headers).filter_map(|pair| pair.strip_prefix(name.as_bytes()));
        let bearer = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
        let bearer = bearer.and_then(|value| value.strip_prefix(b"Bearer "));
        if given.any(|given| self.session.is(given)) || bearer.is_some_and(|it| self.token.is(it)) {
            return Ok(());
        }
        let Words { program, again, .. } = self.words;
        Err(Refusal::new(
            StatusCode::UNAUTHORIZED,
            format!(
                "open the address that the {program} printed when it started: it has the token; {again}"
            ),
        ))
    }

    /// The cookie for a session, if `body` has the token, and before it what makes the browser forget
    /// the oldest of such cookies, where it has many: those of processes that have ended stay for as long
    /// as the browser runs.
    pub(crate) fn exchange(
        &self,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<Vec<HeaderValue>, Refusal> {
        let given: Token = serde_json::from_slice(body).map_err(|error| {
            let text = format!("the body is not {{\"token\":\"…\"}}: {error}");
            Refusal::new(StatusCode::BAD_REQUEST, text)
        })?;
        if !self.token.is(given.token.as_bytes()) {
            let Words { program, again, .. } = self.words;
            return Err(Refusal::forbidden(format!(
                "that token is not this {program}'s: a {program} makes a new one at each start; {again}"
            )));
        }
        let is_https =
            headers.get(ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(b"https://"));
        let secure = if is_https { "; Secure" } else { "" };
        let rest = format!("Path=/api/1; HttpOnly; SameSite=Strict{secure}");
        // The oldest come first (RFC 6265 §5.4).
        let kept: Vec<_> = cookies(headers).filter_map(name_of_ours).collect();
        let over = kept.len().saturating_sub(MAX_COOKIES - 1);
        let forget = kept[..over].iter().map(|name| format!("{name}=; Max-Age=0; {rest}"));
        let own = format!("{}={}; {rest}", self.cookie, self.session.0);
        let all = forget.chain([own]).map(|cookie| HeaderValue::from_str(&cookie));
        all.collect::<Result<_, _>>()
            .map_err(|error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
    }
}

/// The cookies of a request, each with its name.
fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let all = headers.get_all(COOKIE).iter();
    all.flat_map(|all| all.as_bytes().split(|byte| *byte == b';')).map(<[u8]>::trim_ascii)
}

/// The name of a cookie, if it is one of our programs'.
fn name_of_ours(pair: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(pair.split(|byte| *byte == b'=').next()?).ok()?;
    let drawn = name.strip_prefix(COOKIES)?;
    (drawn.len() == 8 && drawn.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(name)
}

/// Says on every answer what browsers may do with it.
pub(crate) fn seal(headers: &mut HeaderMap) {
    let mut set = |name, value| headers.insert(name, HeaderValue::from_static(value));
    set(CONTENT_SECURITY_POLICY, CONTENT_POLICY);
    set(X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(X_FRAME_OPTIONS, "DENY");
    set(REFERRER_POLICY, "no-referrer");
    set(OWN_RESOURCES, "same-origin");
    set(OWN_WINDOW, "same-origin");
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

/// Whether a host can have this name.
///
/// # Errors
/// When it cannot.
pub(crate) fn check_name(name: &str) -> Result<(), WrongName> {
    let is_label = |label: &str| {
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        !label.is_empty() && label.bytes().all(is_fine)
    };
    match name.len() <= MAX_NAME && name.split('.').all(is_label) {
        true => Ok(()),
        false => Err(WrongName(name.chars().take(MAX_NAME).collect())),
    }
}

/// The host of `host:port`, where there may be no port.
pub(crate) fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|byte| byte.is_ascii_digit())
                && (!name.contains(':') || name.ends_with(']')) =>
        {
            name
        }
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard_of(names: &[&str]) -> Guard {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Guard::new("127.0.0.1:9471".parse().unwrap(), false, &names, Program::Daemon).unwrap()
    }

    fn headers(all: &[(HeaderName, &str)]) -> HeaderMap {
        let one = |(name, value): &(HeaderName, &str)| (name.clone(), value.parse().unwrap());
        all.iter().map(one).collect()
    }

    fn host(guard: &Guard, name: &str) -> Result<(), Refusal> {
        guard.check_host(&headers(&[(HOST, name)]), &Uri::from_static("/"))
    }

    #[test]
    fn only_its_own_names_are_answered_and_the_refusal_says_the_remedy() {
        let guard = guard_of(&["Weft.Example"]);
        for name in [
            "127.0.0.1:9471",
            "127.0.0.1",
            "localhost",
            "LOCALHOST:8000",
            "[::1]:9471",
            "[::1]",
            "weft.example",
            "weft.example:443",
        ] {
            assert_eq!(host(&guard, name), Ok(()), "{name}");
        }
        for name in [
            "evil.example",
            "evil.example:9471",
            "127.0.0.1.evil.example",
            "192.0.2.1",
            "localhost.",
            "localhost@evil",
            "",
            ":9471",
            "[::2]",
            "127.0.0.1:9471:1",
            "weft.example:x",
        ] {
            let refusal = host(&guard, name).unwrap_err();
            assert_eq!(refusal.status, StatusCode::FORBIDDEN, "{name}");
            assert!(refusal.text.contains("--behind-proxy "), "{}", refusal.text);
        }
        let refusal = host(&guard, "evil.example:80").unwrap_err();
        assert!(refusal.text.contains("--behind-proxy evil.example if"), "{}", refusal.text);
        let none = guard.check_host(&HeaderMap::new(), &Uri::from_static("/"));
        assert_eq!(none.unwrap_err().status, StatusCode::BAD_REQUEST);
        // What the line of the request says counts, too.
        let own = headers(&[(HOST, "localhost")]);
        let uri = Uri::from_static("http://evil.example/");
        assert_eq!(guard.check_host(&own, &uri).unwrap_err().status, StatusCode::FORBIDDEN);
        let mut twice = own.clone();
        twice.append(HOST, HeaderValue::from_static("evil.example"));
        assert!(guard.check_host(&twice, &Uri::from_static("/")).is_err());
    }

    #[test]
    fn a_post_of_another_origin_is_refused() {
        let guard = guard_of(&["weft.example"]);
        let check = |host: &str, origin: Option<&str>| {
            let mut headers = headers(&[(HOST, host)]);
            if let Some(origin) = origin {
                headers.insert(ORIGIN, origin.parse().unwrap());
            }
            guard.check_origin(&headers).map_err(|refusal| refusal.status)
        };
        assert_eq!(check("127.0.0.1:9471", Some("http://127.0.0.1:9471")), Ok(()));
        assert_eq!(check("weft.example", Some("https://Weft.example")), Ok(()));
        for origin in [
            None,
            Some("null"),
            Some("http://127.0.0.1:8000"),
            Some("http://localhost:9471"),
            Some("https://evil.example"),
            Some("127.0.0.1:9471"),
            Some("http://127.0.0.1:9471.evil.example"),
        ] {
            assert_eq!(check("127.0.0.1:9471", origin), Err(StatusCode::FORBIDDEN), "{origin:?}");
        }
    }

    #[test]
    fn with_tls_of_its_own_a_page_without_is_none_of_ours() {
        let names = ["weft.example".to_owned()];
        let guard =
            Guard::new("192.0.2.1:9471".parse().unwrap(), true, &names, Program::Player).unwrap();
        assert!(guard.url().starts_with("https://weft.example:9471/#k="), "{}", guard.url());
        let check = |origin: &str| {
            guard.check_origin(&headers(&[(HOST, "192.0.2.1:9471"), (ORIGIN, origin)])).is_ok()
        };
        assert!(check("https://192.0.2.1:9471") && !check("http://192.0.2.1:9471"));
    }

    #[test]
    fn each_program_names_remedies_that_it_has() {
        let refusals = |program: Program| {
            let guard = Guard::new("127.0.0.1:9471".parse().unwrap(), false, &[], program).unwrap();
            let name = host(&guard, "evil.example").unwrap_err().text;
            let token = guard.exchange(&HeaderMap::new(), br#"{"token":"old"}"#).unwrap_err().text;
            (name, token, guard.check_session(&HeaderMap::new()).unwrap_err().text)
        };
        for (program, takes_names, is_told) in [
            (Program::Daemon, true, true),
            (Program::Server, true, false),
            (Program::Runs, false, false),
            (Program::Player, true, false),
        ] {
            let (name, token, session) = refusals(program);
            assert_eq!(name.contains("--behind-proxy evil.example"), takes_names, "{name}");
            for text in [token, session] {
                assert_eq!(text.contains("weftline status --url"), is_told, "{text}");
            }
        }
    }

    #[test]
    fn other_pages_of_the_browser_get_nothing() {
        let guard = guard_of(&[]);
        let check = |site: &str| guard.check_site(&headers(&[(FETCH_SITE, site)]));
        assert!(check("same-origin").is_ok() && check("none").is_ok());
        // Another port of the same host is the same site, and is not us.
        assert!(check("same-site").is_err() && check("cross-site").is_err() && check("").is_err());
        assert!(guard.check_site(&HeaderMap::new()).is_ok(), "programs say nothing of it");
    }

    #[test]
    fn a_session_is_had_for_the_token_and_for_nothing_else() {
        let guard = guard_of(&[]);
        let url = guard.url();
        let token = url.strip_prefix("http://127.0.0.1:9471/#k=").unwrap();
        assert_eq!(token.len(), 32);
        let own = headers(&[(HOST, "127.0.0.1:9471"), (ORIGIN, "http://127.0.0.1:9471")]);
        let exchange = |body: &str| guard.exchange(&own, body.as_bytes());
        let cookies = exchange(&format!("{{\"token\":\"{token}\"}}")).unwrap();
        let [cookie] = &cookies[..] else { panic!("{cookies:?}") };
        let cookie = cookie.to_str().unwrap();
        assert!(cookie.ends_with("; Path=/api/1; HttpOnly; SameSite=Strict"), "{cookie}");
        let pair = cookie.split(';').next().unwrap();
        assert!(pair.starts_with("weftline-") && !pair.contains(token), "{cookie}");
        let session = |name: HeaderName, value: &str| {
            guard.check_session(&headers(&[(name, value)])).map_err(|refusal| refusal.status)
        };
        assert_eq!(session(COOKIE, pair), Ok(()));
        assert_eq!(session(COOKIE, &format!("a=b;{pair}; c=d")), Ok(()));
        assert_eq!(session(AUTHORIZATION, &format!("Bearer {token}")), Ok(()));

        let wrong = Err(StatusCode::UNAUTHORIZED);
        let (name, session_itself) = pair.split_once('=').unwrap();
        for (name, value) in [
            (COOKIE, format!("{name}0={session_itself}")),
            (COOKIE, pair[..pair.len() - 1].to_owned()),
            (COOKIE, format!("{name}=")),
            (COOKIE, format!("{name}={token}")),
            (AUTHORIZATION, format!("Bearer {session_itself}")),
            (AUTHORIZATION, format!("Bearer {}", &token[1..])),
            (AUTHORIZATION, "Bearer ".to_owned()),
        ] {
            assert_eq!(session(name.clone(), &value), wrong, "{name}: {value}");
        }
        assert_eq!(guard.check_session(&HeaderMap::new()).unwrap_err().status.as_u16(), 401);
        for body in ["", "{}", "{\"token\":5}", "{\"token\":\"x\",\"more\":1}", "\u{0}"] {
            assert_eq!(exchange(body).unwrap_err().status, StatusCode::BAD_REQUEST, "{body}");
        }
        for body in ["{\"token\":\"\"}", "{\"token\":\"00000000000000000000000000000000\"}"] {
            let refusal = exchange(body).unwrap_err();
            assert_eq!(refusal.status, StatusCode::FORBIDDEN, "{body}");
            assert!(refusal.text.contains("weftline status --url"), "{}", refusal.text);
        }
        // Two daemons have two.
        assert_ne!(guard_of(&[]).url(), url);
        assert!(!format!("{guard:?}").contains(token), "it is in no log");
    }

    #[test]
    fn behind_a_proxy_the_address_is_the_proxys_and_the_cookie_is_for_tls() {
        let guard = guard_of(&["weft.example"]);
        let url = guard.url();
        let token = url.strip_prefix("https://weft.example/#k=").unwrap();
        let own = headers(&[(HOST, "weft.example"), (ORIGIN, "https://weft.example")]);
        let body = format!("{{\"token\":\"{token}\"}}");
        let cookies = guard.exchange(&own, body.as_bytes()).unwrap();
        assert!(cookies[0].to_str().unwrap().ends_with("; SameSite=Strict; Secure"), "{cookies:?}");
    }

    /// Name, value and the rest of each cookie that a guard sets for its token in a browser that has
    /// `kept`.
    fn set(guard: &Guard, kept: &str) -> Vec<(String, String, String)> {
        let mut own = headers(&[(HOST, "127.0.0.1:9471"), (ORIGIN, "http://127.0.0.1:9471")]);
        own.insert(COOKIE, kept.parse().unwrap());
        let body = format!("{{\"token\":\"{}\"}}", guard.token.0);
        let set = guard.exchange(&own, body.as_bytes()).unwrap();
        let parts = |cookie: &HeaderValue| {
            let (pair, rest) = cookie.to_str().unwrap().split_once("; ").unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            (name.to_owned(), value.to_owned(), rest.to_owned())
        };
        set.iter().map(parts).collect()
    }

    /// As where one of them is another machine's, reached by `ssh -L`: a browser keeps one cookie of a
    /// name, whatever the port.
    #[test]
    fn two_daemons_at_one_port_keep_their_sessions() {
        let guards = [guard_of(&[]), guard_of(&[])];
        let mut kept = std::collections::BTreeMap::new();
        for guard in &guards {
            kept.extend(set(guard, "").into_iter().map(|(name, value, _)| (name, value)));
        }
        let all: Vec<_> = kept.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let sent = headers(&[(COOKIE, &all.join("; "))]);
        for guard in &guards {
            assert_eq!(guard.check_session(&sent), Ok(()), "{all:?}");
        }
    }

    #[test]
    fn a_browser_keeps_the_cookies_of_so_many_processes_and_forgets_the_oldest() {
        let guard = guard_of(&[]);
        let kept = |count| {
            let names: Vec<_> =
                (0..count).map(|n| format!("weftline-{n:08x}=5; other{n}=x")).collect();
            names.join("; ")
        };
        assert_eq!(set(&guard, &kept(MAX_COOKIES - 1)).len(), 1);
        let set = set(&guard, &kept(MAX_COOKIES + 1));
        let names: Vec<_> = set.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, ["weftline-00000000", "weftline-00000001", &guard.cookie]);
        for (_, value, rest) in &set[..2] {
            assert!(value.is_empty() && rest.starts_with("Max-Age=0; Path=/api/1; "), "{rest}");
        }
        assert!(!set[2].1.is_empty() && set[2].2.starts_with("Path=/api/1; "), "{set:?}");
    }

    #[test]
    fn names_are_names() {
        for name in ["weft.example", "box", "10.0.0.7", "a-b_c.example"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        let long = "a".repeat(300);
        for name in ["", "https://x", "x:443", "a..b", "a b", "é.example", ".", &long] {
            let error = check_name(name).unwrap_err().to_string();
            assert!(error.contains("is no host's name; give the name"), "{error}");
        }
    }

    #[test]
    fn every_answer_is_sealed() {
        let mut headers = HeaderMap::new();
        seal(&mut headers);
        let policy = headers[CONTENT_SECURITY_POLICY].to_str().unwrap();
        for part in [
            "default-src 'none';",
            "script-src 'self';",
            "connect-src 'self';",
            "frame-ancestors 'none';",
            "trusted-types lit-html weftline",
            "require-trusted-types-for 'script';",
        ] {
            assert!(policy.contains(part), "{part}: {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
        assert_eq!(headers[X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(headers[REFERRER_POLICY], "no-referrer");
        assert_eq!(headers[X_FRAME_OPTIONS], "DENY");
    }
}
