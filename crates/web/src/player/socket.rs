//! A page's WebSocket (RFC 6455).

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::body::Incoming;
use hyper::header::{
    CONNECTION, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::message::{MAX_FROM_PAGE, PROTOCOL};
use super::stage::{Next, Stage, VIEWERS, Watching};
use crate::guard::Refusal;

/// How long a page may take nothing, or say nothing: it asks for the time twice a second, and a browser
/// lets pages that are hidden do so once a minute.
const PATIENCE: Duration = Duration::from_secs(90);
/// How long it may take nothing of what is sent.
const STUCK: Duration = Duration::from_secs(30);
/// How long it may take to say good-bye.
const FAREWELL: Duration = Duration::from_secs(2);
/// The longest reason of a good-bye in bytes (RFC 6455 §5.5).
const MAX_REASON: usize = 123;

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// The headers that say that a connection becomes a WebSocket, and what becomes of it then.
pub(crate) struct Opening {
    pub(crate) headers: [(HeaderName, HeaderValue); 4],
    upgrade: OnUpgrade,
    watching: Watching,
}

/// Refuses one more page where enough watch.
///
/// # Errors
/// If it is so.
pub(crate) fn check_room(stage: &Stage) -> Result<(), Refusal> {
    if stage.has_room() { Ok(()) } else { Err(full()) }
}

fn full() -> Refusal {
    let text = format!("{VIEWERS} pages watch this stream already; close one of them");
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text)
}

/// Refuses what is no request for a WebSocket that there can be.
///
/// # Errors
/// Why it is none.
pub(crate) fn check(headers: &HeaderMap, stage: &Stage) -> Result<(), Refusal> {
    let has = |name: HeaderName, token: &str| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        let mut tokens = values.flat_map(|value| value.split(',')).map(str::trim);
        tokens.any(|found| found.eq_ignore_ascii_case(token))
    };
    check_room(stage)?;
    let is_one = has(CONNECTION, "upgrade")
        && has(UPGRADE, "websocket")
        && has(SEC_WEBSOCKET_VERSION, "13")
        && has(SEC_WEBSOCKET_PROTOCOL, PROTOCOL)
        && headers.contains_key(SEC_WEBSOCKET_KEY);
    if is_one {
        return Ok(());
    }
    let text = format!("this is a WebSocket of version 13 that speaks {PROTOCOL}");
    // RFC 9110 §15.5.22 wants it to be named.
    Err(Refusal { upgrade: Some("websocket"), ..Refusal::new(StatusCode::UPGRADE_REQUIRED, text) })
}

/// Takes a page that has passed [`check`].
///
/// # Errors
/// If others have taken the last place meanwhile.
pub(crate) fn open(mut request: Request<Incoming>, stage: &Arc<Stage>) -> Result<Opening, Refusal> {
    let key = request.headers().get(SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes);
    let accept = HeaderValue::from_str(&derive_accept_key(key.unwrap_or_default()));
    let accept =
        accept.map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, error.to_string()))?;
    let watching = stage.watch();
    let watching = watching.ok_or_else(full)?;
    let headers = [
        (CONNECTION, HeaderValue::from_static("Upgrade")),
        (UPGRADE, HeaderValue::from_static("websocket")),
        (SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL)),
        (SEC_WEBSOCKET_ACCEPT, accept),
    ];
    Ok(Opening { headers, upgrade: hyper::upgrade::on(&mut request), watching })
}

/// How a page's connection ends.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// It left, or there is nobody any more.
    Left,
    /// The stream is over.
    Over,
    /// It takes nothing, or says nothing.
    Silent,
    /// It sent what is no message.
    Wrong(String),
}

impl Opening {
    /// Talks with the page until it leaves, the stream is over, or it does what none of ours does.
    pub(crate) async fn run(self) {
        let Self { upgrade, watching, .. } = self;
        let Ok(Ok(upgraded)) = tokio::time::timeout(STUCK, upgrade).await else { return };
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_FROM_PAGE))
            .max_frame_size(Some(MAX_FROM_PAGE));
        let io = TokioIo::new(upgraded);
        let socket = Socket::from_raw_socket(io, Role::Server, Some(config)).await;
        let (mut to, mut from) = socket.split();
        let end = tokio::select! {
            end = tell(&watching, &mut to) => end,
            end = hear(&watching, &mut from) => end,
        };
        drop(watching);
        tracing::debug!("a page of the player: {end:?}");
        let (code, reason) = match end {
            End::Left => return,
            End::Over => (CloseCode::Normal, "the stream is over".to_owned()),
            End::Silent => (CloseCode::Policy, "it takes nothing any more".to_owned()),
            End::Wrong(why) => (CloseCode::Policy, why),
        };
        let farewell = async {
            let end = reason.floor_char_boundary(MAX_REASON);
            let frame = CloseFrame { code, reason: reason[..end].into() };
            let _ = to.send(Message::Close(Some(frame))).await;
            // Until it has heard that.
            while let Some(Ok(_)) = from.next().await {}
        };
        let _ = tokio::time::timeout(FAREWELL, farewell).await;
    }
}

/// Tells a page what comes.
async fn tell(watching: &Watching, to: &mut SplitSink<Socket, Message>) -> End {
    loop {
        let message = match watching.next().await {
            Next::Message(bytes) => Message::Binary(bytes),
            Next::End => return End::Over,
            Next::GivenUp => return End::Silent,
        };
        match tokio::time::timeout(STUCK, to.send(message)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return End::Left,
            Err(_) => return End::Silent,
        }
    }
}

/// Hears what a page says.
async fn hear(watching: &Watching, from: &mut SplitStream<Socket>) -> End {
    loop {
        let message = match tokio::time::timeout(PATIENCE, from.next()).await {
            Ok(Some(Ok(message))) => message,
            Ok(Some(Err(error @ (Error::Capacity(_) | Error::Protocol(_))))) => {
                return End::Wrong(error.to_string());
            }
            Ok(Some(Err(_)) | None) => return End::Left,
            Err(_) => return End::Silent,
        };
        if watching.is_given_up() {
            return End::Silent;
        }
        let bytes = match message {
            Message::Binary(bytes) => bytes,
            Message::Ping(_) | Message::Pong(_) => continue,
            Message::Close(_) => return End::Left,
            Message::Text(_) | Message::Frame(_) => {
                return End::Wrong("messages of this protocol are binary".to_owned());
            }
        };
        if let Err(why) = watching.hear(&bytes) {
            return End::Wrong(why);
        }
    }
}
