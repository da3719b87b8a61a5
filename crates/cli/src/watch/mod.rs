//! Runs that a browser watches: `sim run --watch`, `lab run --watch`, and event files that are played
//! again (docs/web.md). The page is the dashboard's, and its clock is the run's.

pub(crate) mod lab;
pub(crate) mod pace;
#[cfg_attr(not(feature = "web"), path = "page_off.rs")]
mod page;
pub(crate) mod replay;
pub(crate) mod show;
pub(crate) mod sim;

use std::net::SocketAddr;
use std::sync::Arc;

use clap::Args;

use crate::failure::Failure;
use crate::{output, signals};
use pace::Pace;
use page::Page;
use show::Show;

/// Options of what a browser may watch.
#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// Show the runs in a browser, one at a time; prints the address
    #[arg(long, value_name = "ADDR", conflicts_with_all = ["jobs", "weave"])]
    pub(crate) watch: Option<SocketAddr>,
    /// Simulated seconds per second, while it is watched: 0.1 is slow motion; max is as fast as
    /// possible
    #[arg(
        long,
        value_name = "N|max",
        default_value = "1",
        requires = "watch",
        hide_short_help = true
    )]
    pub(crate) pace: Pace,
}

/// A page that shows runs, as long as this lives.
pub(crate) struct Watch {
    _page: Page,
    show: Arc<Show>,
}

impl Watch {
    /// Opens a page at `address` for runs of `what`, such as `sim run`, and prints where it is: on
    /// standard output, unless there are to be records only (`json`).
    ///
    /// # Errors
    /// When the address cannot be had, or is reached from other machines.
    pub(crate) fn open(
        address: SocketAddr,
        what: &'static str,
        pace: Pace,
        json: bool,
    ) -> Result<Self, Failure> {
        let show = Arc::new(Show::new(what, pace.seconds()));
        let page = Page::open(address, &show)?;
        match json {
            true => output::tell(format_args!("watch {}", page.url())),
            false => output::print(&format!("watch {}\n", page.url()))?,
        }
        Ok(Self { _page: page, show })
    }

    /// What is shown.
    pub(crate) fn show(&self) -> &Arc<Show> {
        &self.show
    }

    /// Lets the page show what there was until the user ends that.
    ///
    /// # Errors
    /// When signals cannot be caught.
    pub(crate) fn linger(self) -> Result<(), Failure> {
        self.show.end();
        output::note("all is over; the page shows it until this is interrupted (Ctrl-C)");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            signals::Stop::on_signals()?.nth(1).await;
            Ok(())
        })
    }
}
