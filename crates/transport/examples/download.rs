//! What a connection of its own costs a download: the kernel's TCP on each path, with and without
//! TLS 1.3, beside a fresh connection of ours over all of them, all by the same program.
//!
//! `cargo run --release -p weftline --example download -- serve DIR ADDRESS...` answers at these
//! addresses, with its certificate in DIR. `download get DIR BYTES REPEATS LOCAL=ADDRESS...`, with
//! the local address and the server's of each path, prints medians in ms from the call of connect
//! to the last byte. `scripts/sizes` runs both over a lab's links.
#![allow(clippy::missing_errors_doc, reason = "an example")]

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use weftline::{
    Bind, Client, ClientSecurity, ClientTls, Identity, PathConfig, Server, ServerSecurity,
    ServerTls, Trust,
};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Where the server listens at each address: TCP, TLS over TCP, and ours without and with TLS.
const PORTS: [u16; 4] = [9000, 9443, 7000, 7443];

/// Sends as many bytes as the eight at the beginning ask for, and waits for the other's end.
pub async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> Result<()> {
    let block = vec![0; 1 << 20];
    let mut left = usize::try_from(stream.read_u64().await?)?;
    while left > 0 {
        let n = left.min(block.len());
        stream.write_all(&block[..n]).await?;
        left -= n;
    }
    stream.flush().await?;
    stream.read_to_end(&mut Vec::new()).await?;
    stream.shutdown().await?;
    Ok(())
}

/// Asks for `size` bytes; when the last of them came.
pub async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin, size: usize) -> Result<Instant> {
    let mut block = vec![0; size.clamp(1, 1 << 20)];
    stream.write_u64(size as u64).await?;
    stream.flush().await?;
    let mut left = size;
    while left > 0 {
        let n = left.min(block.len());
        left -= stream.read_exact(&mut block[..n]).await?;
    }
    let end = Instant::now();
    stream.shutdown().await?;
    let _ = stream.read_to_end(&mut Vec::new()).await;
    Ok(end)
}

/// A path's two addresses.
#[derive(Clone, Copy)]
struct Ends {
    local: IpAddr,
    server: IpAddr,
}

impl Ends {
    fn parse(text: &str) -> Result<Self> {
        let (local, server) = text.split_once('=').ok_or("a path is LOCAL=ADDRESS")?;
        Ok(Self { local: local.parse()?, server: server.parse()? })
    }

    async fn connect(self, port: u16) -> Result<TcpStream> {
        let socket = if self.local.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.bind((self.local, 0).into())?;
        let stream = socket.connect((self.server, port).into()).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// A way to download.
enum Way {
    Tcp(Ends),
    Tls(Ends, TlsConnector),
    Weftline(Client),
}

impl Way {
    async fn download(&self, size: usize) -> Result<Duration> {
        let start = Instant::now();
        let end = match self {
            Self::Tcp(ends) => ask(ends.connect(PORTS[0]).await?, size).await?,
            Self::Tls(ends, connector) => {
                let stream = ends.connect(PORTS[1]).await?;
                let name = ServerName::try_from("weftline")?;
                ask(connector.connect(name, stream).await?, size).await?
            }
            Self::Weftline(client) => ask(client.open().await?, size).await?,
        };
        Ok(end - start)
    }
}

/// All ways to the server over `paths`, whose certificate is in `dir`, with their names.
fn ways(dir: &Path, paths: &[Ends]) -> Result<Vec<(String, Way)>> {
    let file = dir.join("identity.pem");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&file)?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let tcp = paths.iter().map(|&ends| (format!("tcp {}", ends.local), Way::Tcp(ends)));
    let tls = paths.iter();
    let tls = tls.map(|&ends| (format!("tls {}", ends.local), Way::Tls(ends, connector.clone())));
    let trust = Trust::Pinned(Identity::from_files(&file, &file)?.fingerprint());
    let pinned = ClientSecurity::Tls(ClientTls::new(&trust, None)?);
    let ours = [
        ("weftline", ClientSecurity::InsecurePlaintext, PORTS[2]),
        ("weftline tls", pinned, PORTS[3]),
    ];
    let mut all: Vec<_> = tcp.chain(tls).collect();
    for (name, security, port) in ours {
        let mut client = Client::builder().security(security);
        for ends in paths {
            client =
                client.path(PathConfig::new(ends.local.to_string(), Bind::Address(ends.local)));
            client = client.server(SocketAddr::from((ends.server, port)));
        }
        all.push((name.to_owned(), Way::Weftline(client.build()?)));
    }
    Ok(all)
}

/// Prints the medians of so many downloads in every way, which take turns.
async fn get(dir: &Path, size: usize, repeats: usize, paths: &[Ends]) -> Result<()> {
    let ways = ways(dir, paths)?;
    let mut times = vec![Vec::new(); ways.len()];
    // The first of each makes what the later ones find.
    for repeat in 0..=repeats {
        for ((_, way), times) in ways.iter().zip(&mut times) {
            let time = way.download(size).await?;
            if repeat > 0 {
                times.push(time);
            }
        }
    }
    for ((name, _), mut times) in ways.iter().zip(times) {
        times.sort();
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        println!("{size} {name}: {:.2} ms, least {:.2}", ms(times[repeats / 2]), ms(times[0]));
    }
    Ok(())
}

/// Answers in all ways at these addresses.
async fn serve(dir: &Path, addresses: &[IpAddr]) -> Result<()> {
    let identity = Identity::from_state_dir(dir)?;
    let file = dir.join("identity.pem");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_file(&file)?],
            PrivateKeyDer::from_pem_file(&file)?,
        )?;
    let acceptor = TlsAcceptor::from(Arc::new(config));
    for &address in addresses {
        let [tcp, tls] = [PORTS[0], PORTS[1]].map(|port| TcpListener::bind((address, port)));
        let (tcp, tls, acceptor) = (tcp.await?, tls.await?, acceptor.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = tcp.accept().await {
                let _ = stream.set_nodelay(true);
                tokio::spawn(answer(stream));
            }
        });
        tokio::spawn(async move {
            while let Ok((stream, _)) = tls.accept().await {
                let _ = stream.set_nodelay(true);
                let acceptor = acceptor.clone();
                tokio::spawn(async move { answer(acceptor.accept(stream).await?).await });
            }
        });
    }
    let tls = ServerSecurity::Tls(ServerTls::new(&identity, None)?);
    let ours = [(ServerSecurity::InsecurePlaintext, PORTS[2]), (tls, PORTS[3])];
    let mut serving = tokio::task::JoinSet::new();
    for (security, port) in ours {
        let at: Vec<_> = addresses.iter().map(|&address| (address, port).into()).collect();
        let mut server = Server::builder().security(security).bind(&at)?;
        serving.spawn(async move {
            loop {
                tokio::spawn(answer(server.accept().await));
            }
        });
    }
    println!("ready");
    serving.join_all().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match &args[..] {
        ["serve", dir, addresses @ ..] if !addresses.is_empty() => {
            let parsed: std::result::Result<Vec<_>, _> =
                addresses.iter().map(|address| address.parse()).collect();
            serve(Path::new(dir), &parsed?).await
        }
        ["get", dir, size, repeats, paths @ ..] if !paths.is_empty() => {
            let paths: Result<Vec<Ends>> = paths.iter().map(|path| Ends::parse(path)).collect();
            get(Path::new(dir), size.parse()?, repeats.parse()?, &paths?).await
        }
        _ => Err("download serve DIR ADDRESS... | get DIR BYTES REPEATS LOCAL=ADDRESS...".into()),
    }
}
