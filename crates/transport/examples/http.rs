//! HTTP over several paths: hyper on both ends, a connection of ours below it.
//!
//! `cargo run -p weftline --example http` starts a server and fetches a page from it over two
//! loopback addresses that stand for two paths.
#![allow(clippy::missing_errors_doc, reason = "an example")]

use std::convert::Infallible;
use std::error::Error;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use weftline::{
    Bind, Client, ClientSecurity, ClientTls, Connection, Identity, PathConfig, Server,
    ServerSecurity, ServerTls, Trust,
};

/// Answers the requests of one connection.
pub async fn serve(connection: Connection) -> hyper::Result<()> {
    let answer = hyper::service::service_fn(async |request: Request<hyper::body::Incoming>| {
        let page = format!("this is {}, over several paths\n", request.uri().path());
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(page))))
    });
    hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(connection), answer)
        .await
}

/// Fetches `path` over `connection`.
pub async fn fetch(connection: Connection, path: &str) -> Result<Bytes, Box<dyn Error>> {
    let io = TokioIo::new(connection);
    let (mut sender, driver) = hyper::client::conn::http1::handshake(io).await?;
    let driving = tokio::spawn(driver);
    let request = Request::get(path).header("host", "weftline").body(Empty::<Bytes>::new())?;
    let page = sender.send_request(request).await?.into_body().collect().await?.to_bytes();
    drop(sender);
    driving.await??;
    Ok(page)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let state = tempfile::tempdir()?;
    let tls = ServerTls::new(&Identity::from_state_dir(state.path())?, None)?;
    let trust = Trust::Pinned(tls.fingerprint());
    let mut server =
        Server::builder().security(ServerSecurity::Tls(tls)).bind(&["127.0.0.1:0".parse()?])?;
    let client = Client::builder()
        .server(server.local_addrs()[0])
        .path(PathConfig::new("one", Bind::Address("127.0.0.1".parse()?)))
        .path(PathConfig::new("two", Bind::Address("127.0.0.2".parse()?)))
        .security(ClientSecurity::Tls(ClientTls::new(&trust, None)?))
        .build()?;
    tokio::spawn(async move { serve(server.accept().await).await });
    let page = fetch(client.connect().await?, "/page").await?;
    print!("{}", String::from_utf8_lossy(&page));
    Ok(())
}
