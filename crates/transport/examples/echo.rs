//! A server that sends back what it gets.
//!
//! `cargo run -p weftline --example echo -- 127.0.0.1:4433` prints the fingerprint that clients
//! pin, and the address.
#![allow(clippy::missing_errors_doc, reason = "an example")]

use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;

use tokio::io::AsyncWriteExt as _;
use weftline::{Connection, Identity, Server, ServerSecurity, ServerTls, default_state_dir};

/// A server on `address`, known by the certificate kept in `state_dir`, which is made at first.
pub fn server(address: SocketAddr, state_dir: &Path) -> Result<Server, weftline::Error> {
    let tls = ServerTls::new(&Identity::from_state_dir(state_dir)?, None)?;
    println!("fingerprint {}", tls.fingerprint());
    let server = Server::builder().security(ServerSecurity::Tls(tls)).bind(&[address])?;
    println!("listening on {}", server.local_addrs()[0]);
    Ok(server)
}

/// Serves one connection to its end.
pub async fn echo(connection: Connection) -> std::io::Result<u64> {
    let control = connection.control();
    let (mut from, mut to) = connection.into_split();
    let bytes = tokio::io::copy_buf(&mut from, &mut to).await?;
    to.shutdown().await?;
    // The client has everything when this is over.
    control.closed().await.map_err(std::io::Error::other)?;
    Ok(bytes)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:4433".to_owned());
    let mut server = server(address.parse()?, &default_state_dir()?)?;
    loop {
        let connection = server.accept().await;
        let peer = connection.peer_addr();
        tokio::spawn(async move {
            match echo(connection).await {
                Ok(bytes) => println!("{peer}: {bytes} bytes"),
                Err(error) => println!("{peer}: {error}"),
            }
        });
    }
}
