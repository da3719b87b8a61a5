//! `weftline vr http`: the files of a package for any player of DASH.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use weftline_vr::package::{MANIFEST, Package};

#[cfg_attr(not(feature = "web"), path = "http/server_off.rs")]
mod server;

use crate::daemon::{end, runtime};
use crate::failure::Failure;
use crate::ops::log;
use crate::output;
use crate::signals::Stop;

/// Options of `vr http`.
#[derive(Debug, Args)]
pub(crate) struct HttpArgs {
    /// A package of `weftline vr package`
    package: PathBuf,
    /// Where to listen (port 0: one of the system's choice); what is reached from elsewhere may be read by
    /// anybody there
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The origin whose pages may read the package, such as https://player.example, or * for all
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Option<String>,
}

/// Serves until a signal comes.
pub(super) fn run(args: &HttpArgs) -> Result<(), Failure> {
    log::start(None, None)?;
    let package = Package::open(&args.package)?;
    let runtime = runtime()?;
    let served = runtime.block_on(serve(args, &package));
    end(runtime);
    served
}

async fn serve(args: &HttpArgs, package: &Package) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let (_server, address) = server::open(args).await?;
    if package.description().whole_qps().is_empty() {
        let dir = args.package.display();
        output::warn(format_args!(
            "{dir} has tiles only, of which players that know nothing of them show one; the same weftline \
             vr package with --whole 32 adds the whole sphere"
        ));
    }
    output::print(&format!("manifest http://{address}/{MANIFEST}\n"))?;
    stop.nth(1).await;
    Ok(())
}
