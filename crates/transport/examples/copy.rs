//! Copies a file to another machine over all its paths.
//!
//! ```text
//! copy receive 0.0.0.0:4433 FILE
//! copy send HOST:4433 sha256:FINGERPRINT FILE wifi=wlan0 lte=wwan0
//! ```
#![allow(clippy::missing_errors_doc, reason = "an example")]

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use weftline::{
    Bind, Client, ClientSecurity, ClientTls, Connection, Identity, PathConfig, Server, ServerAddr,
    ServerSecurity, ServerTls, Trust, default_state_dir,
};

/// A client of the server with this fingerprint, over the paths given as `NAME=INTERFACE` or
/// `NAME=ADDRESS`.
pub fn client(
    server: ServerAddr,
    fingerprint: &str,
    paths: &[String],
) -> Result<Client, Box<dyn Error>> {
    let tls = ClientTls::new(&Trust::Pinned(fingerprint.parse()?), None)?;
    let mut builder = Client::builder().server(server).security(ClientSecurity::Tls(tls));
    for path in paths {
        let (name, place) = path.split_once('=').ok_or("write a path as NAME=INTERFACE")?;
        let Ok(bind) = place.parse::<Bind>();
        builder = builder.path(PathConfig::new(name, bind));
    }
    Ok(builder.build()?)
}

/// Sends `file`, and waits until the receiver says that it has written it. How many bytes it was.
pub async fn send(mut connection: Connection, file: &Path) -> io::Result<u64> {
    let mut file = File::open(file).await?;
    let bytes = tokio::io::copy(&mut file, &mut connection).await?;
    connection.shutdown().await?;
    let written = connection.read_u64().await?;
    connection.closed().await.map_err(io::Error::other)?;
    if written == bytes {
        Ok(bytes)
    } else {
        Err(io::Error::other("the receiver has another length"))
    }
}

/// Writes what comes to `file`. A sender that breaks off leaves an error, not half a file.
pub async fn receive(mut connection: Connection, file: &Path) -> io::Result<u64> {
    let part = file.with_extension("part");
    let mut out = File::create(&part).await?;
    let bytes = tokio::io::copy_buf(&mut connection, &mut out).await?;
    out.sync_all().await?;
    tokio::fs::rename(&part, file).await?;
    connection.write_u64(bytes).await?;
    connection.shutdown().await?;
    connection.closed().await.map_err(io::Error::other)?;
    Ok(bytes)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let bytes = match words[..] {
        ["receive", address, file] => {
            let tls = ServerTls::new(&Identity::from_state_dir(&default_state_dir()?)?, None)?;
            println!("fingerprint {}", tls.fingerprint());
            let server = Server::builder().security(ServerSecurity::Tls(tls));
            let connection = server.bind(&[address.parse()?])?.accept().await;
            receive(connection, &PathBuf::from(file)).await?
        }
        ["send", server, fingerprint, file, ..] => {
            let client = client(server.parse()?, fingerprint, &args[4..])?;
            send(client.connect().await?, Path::new(file)).await?
        }
        _ => {
            return Err("copy receive ADDR FILE | copy send SERVER FINGERPRINT FILE PATH...".into());
        }
    };
    println!("{bytes} bytes");
    Ok(())
}
