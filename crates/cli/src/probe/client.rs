//! `weftline probe run`: measures, shows and writes.

use std::io::{self, IsTerminal as _};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use weftline::Bind;
use weftline_core::{Bitrate, Instant};
use weftline_tunnel::probe::wire::Reason;
use weftline_tunnel::probe::{
    Ask, Client, ClientConfig, Direction, Ended, Event, ProbeSocket, Source, run as measure,
};

use super::way::{Line, Way};
use super::{PORT, PURPOSE, RunArgs, beside, random, stop_flag};
use crate::daemon::parse_duration;
use crate::failure::Failure;
use crate::{output, secrets};

/// How often a terminal shows what is, and a plain output a line.
const REDRAW: Duration = Duration::from_millis(100);
const TELL: Duration = Duration::from_secs(1);

/// Measures as `args` say.
pub(super) fn run(args: &RunArgs) -> Result<(), Failure> {
    let ask = args.ask()?;
    let server = resolve(&args.server, args.interface.as_deref())?;
    let source = source(args.interface.as_deref())?;
    let token = args.token_file.as_deref().map(secrets::token).transpose()?;
    let secret = token.map(|token| token.derive_key(PURPOSE));
    let session = u64::from_be_bytes(random()?);
    let mut socket = ProbeSocket::connect(server, &source)
        .map_err(|error| Failure::failed(format!("no way to {server}: {error}")))?;
    let mut screen = Screen::new(args, &ask)?;
    let stop = stop_flag()?;
    let config = ClientConfig { ask, server, secret, session };
    let mut client = Client::new(config, weftline_tunnel::probe::now());
    let mut failed = None;
    let (mut ends, mut ended) = (None, None);
    let result = measure(&mut socket, server, &mut client, &stop, |client, now, event| {
        let result = match event {
            Some(Event::Ended(how)) => {
                ended = Some(how);
                Ok(())
            }
            Some(Event::Sample(direction, sample)) => {
                screen.on_sample(direction, &sample, client.rtt(), now)
            }
            Some(Event::Started) => {
                ends = Some(now + ask.duration);
                Ok(())
            }
            // What comes after the time is no part of it.
            None if ends.is_some_and(|ends| now >= ends) => Ok(()),
            None => screen.refresh(client.rtt(), now),
        };
        if let Err(error) = result
            && failed.is_none()
        {
            failed = Some(error);
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    });
    let rtt = screen.rtt;
    let now = weftline_tunnel::probe::now();
    let finished = screen.finish(ends.map_or(now, |ends: Instant| ends.min(now)));
    if let Some(failed) = failed {
        return Err(failed);
    }
    result.map_err(|error| explain(&error, server, &ask))?;
    finished?;
    match ended {
        Some(Ended::Server(reason)) => Err(refusal(reason, server, args)),
        Some(Ended::NoAnswer) => Err(Failure::failed(format!(
            "{server} does not answer; is 'weftline probe serve' running there, and the UDP port open?"
        ))),
        Some(Ended::Silent) => Err(Failure::failed(format!("{server} has been silent for 30 s"))),
        Some(Ended::Done) | None => screen.verdict(&ask, rtt),
    }
}

impl RunArgs {
    fn ask(&self) -> Result<Ask, Failure> {
        let ask = Ask {
            direction: self.direction.into(),
            train: self.train,
            size: self.size,
            every: parse_duration("--every", &self.every)?,
            duration: parse_duration("--duration", &self.duration)?,
        };
        ask.check().map_err(Failure::wrong_use)?;
        Ok(ask)
    }
}

/// The server's address, of the family of the address that is measured from.
fn resolve(text: &str, from: Option<&str>) -> Result<SocketAddr, Failure> {
    let text = text.trim();
    let family = from.and_then(|from| from.parse::<std::net::IpAddr>().ok());
    let fits = |address: &SocketAddr| family.is_none_or(|own| own.is_ipv4() == address.is_ipv4());
    // An address without a port, HOST:PORT, and HOST.
    let found = if let Ok(ip) = text.trim_matches(['[', ']']).parse() {
        vec![SocketAddr::new(ip, PORT)]
    } else {
        let has_port = text.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let whole = if has_port { text.to_owned() } else { format!("{text}:{PORT}") };
        let wrong = |error| Failure::failed(format!("cannot resolve '{text}': {error}"));
        whole.to_socket_addrs().map_err(wrong)?.collect()
    };
    found.into_iter().find(fits).ok_or_else(|| {
        Failure::failed(format!("'{text}' has no address of the family of --interface"))
    })
}

fn source(from: Option<&str>) -> Result<Source, Failure> {
    let Some(from) = from else { return Ok(Source::Any) };
    let Ok(bind) = from.parse::<Bind>();
    bind.check()?;
    Ok(match bind {
        Bind::Any => Source::Any,
        Bind::Address(address) => Source::Address(address),
        Bind::Interface(name) => Source::Interface(name),
    })
}

/// What an error of the socket means.
fn explain(error: &io::Error, server: SocketAddr, ask: &Ask) -> Failure {
    let size = ask.size;
    if error.kind() == io::ErrorKind::ConnectionRefused {
        return Failure::failed(format!(
            "nobody listens at {server} (UDP); start 'weftline probe serve' there"
        ));
    }
    // EMSGSIZE has no kind of its own.
    if error.raw_os_error() == Some(rustix::io::Errno::MSGSIZE.raw_os_error()) {
        return Failure::failed(format!(
            "packets of {size} bytes are larger than the interface takes; give a smaller --size"
        ));
    }
    Failure::failed(format!("measuring to {server}: {error}"))
}

/// Why the server does not let us measure, or no longer.
fn refusal(reason: Reason, server: SocketAddr, args: &RunArgs) -> Failure {
    let what = match reason {
        Reason::Busy => "it has as many clients as it may have; try again later".to_owned(),
        Reason::Done => "it says that the time is over".to_owned(),
        Reason::Duration(seconds) => {
            format!("at most {seconds} s may be measured; give a shorter --duration")
        }
        Reason::Rate(kbps) => format!(
            "trains may take at most {} Mb/s; give fewer packets (--train), smaller ones (--size) \
             or a longer time between them (--every)",
            f64::from(kbps) / 1e3
        ),
        Reason::Silent => "it has not heard us for 30 s".to_owned(),
        Reason::Size(_) => format!(
            "packets of {} bytes are larger than its interface takes; give a smaller --size",
            args.size
        ),
        Reason::Stopped => "it was stopped".to_owned(),
        Reason::Token if args.token_file.is_some() => "it does not know the token".to_owned(),
        Reason::Token => "it wants a token; give --token-file FILE".to_owned(),
    };
    Failure::failed(format!("the server {server}: {what}"))
}

/// What is shown and written while it is measured.
struct Screen {
    ways: Vec<(Direction, Way)>,
    json: bool,
    bars: Vec<ProgressBar>,
    /// When something was shown last, and when the first was.
    shown: Option<Instant>,
    begun: Option<Instant>,
    rtt: Option<Duration>,
    highest: Bitrate,
}

impl Screen {
    fn new(args: &RunArgs, ask: &Ask) -> Result<Self, Failure> {
        let both = ask.direction == Direction::Both;
        let mut ways = Vec::new();
        for (direction, name, is_on) in [
            (Direction::Down, "down", ask.direction.has_down()),
            (Direction::Up, "up", ask.direction.has_up()),
        ] {
            if is_on {
                let file = match &args.out {
                    Some(file) if both => Some(beside(file, name)),
                    file => file.clone(),
                };
                ways.push((direction, Way::new(name, file.as_deref())?));
            }
        }
        let live = !args.json && io::stdout().is_terminal();
        let group = MultiProgress::with_draw_target(ProgressDrawTarget::stdout());
        let style = ProgressStyle::with_template("{prefix:>4} {bar:24} {msg}")
            .expect("the template is well formed");
        let bar = |name: &'static str| {
            let bar = group.add(ProgressBar::new(1).with_style(style.clone()));
            bar.set_prefix(name);
            bar
        };
        let bars = if live { ways.iter().map(|(_, way)| bar(way.name)).collect() } else { vec![] };
        let (json, highest) = (args.json, Bitrate::mbps(1));
        Ok(Self { ways, json, bars, shown: None, begun: None, rtt: None, highest })
    }

    fn on_sample(
        &mut self,
        direction: Direction,
        sample: &weftline_tunnel::probe::Sample,
        rtt: Option<Duration>,
        now: Instant,
    ) -> Result<(), Failure> {
        let way = self.ways.iter_mut().find(|(of, _)| *of == direction).map(|(_, way)| way);
        let Some(way) = way else { return Ok(()) };
        let lines = way.on_sample(sample, rtt, now)?;
        self.highest = self.highest.max(sample.rate().unwrap_or_default());
        self.begun.get_or_insert(now);
        self.write(&lines)
    }

    fn write(&self, lines: &[Line]) -> Result<(), Failure> {
        if !self.json {
            return Ok(());
        }
        let mut text = String::new();
        for line in lines {
            text += &serde_json::to_string(line).map_err(Failure::failed)?;
            text.push('\n');
        }
        output::print(&text)
    }

    /// Shows what is, when it is time.
    fn refresh(&mut self, rtt: Option<Duration>, now: Instant) -> Result<(), Failure> {
        self.rtt = rtt.or(self.rtt);
        let Some(begun) = self.begun else { return Ok(()) };
        let interval = if self.bars.is_empty() { TELL } else { REDRAW };
        let shown = *self.shown.get_or_insert(begun);
        if now.since(shown) < interval {
            return Ok(());
        }
        self.shown = Some(shown + interval * whole(now.since(shown), interval));
        for (_, way) in &mut self.ways {
            way.flush()?;
        }
        if self.json {
            return Ok(());
        }
        let mut text = String::new();
        for (index, (_, way)) in self.ways.iter().enumerate() {
            let rate = match way.row {
                Some(row) if !way.is_silent(now) => row.rate,
                _ => Bitrate::ZERO,
            };
            let (mbps, rates, path) = (rate.as_mbps_f64(), way.rates(), way.path(self.rtt));
            if let Some(bar) = self.bars.get(index) {
                bar.set_length(self.highest.as_bps());
                bar.set_position(rate.as_bps());
                bar.set_message(format!("{mbps:7.1} Mb/s, {path}\n     {rates}"));
            } else {
                let (name, seconds) = (way.name, now.since(begun).as_secs());
                text += &format!("{seconds} s {name}: {mbps:.1} Mb/s; {rates}, {path}\n");
            }
        }
        output::print(&text)
    }

    /// Ends the traces.
    fn finish(&mut self, now: Instant) -> Result<(), Failure> {
        self.bars.iter().for_each(ProgressBar::finish_and_clear);
        for index in 0..self.ways.len() {
            let lines = self.ways[index].1.finish(now)?;
            self.write(&lines)?;
        }
        Ok(())
    }

    /// Says what was found, if anything was.
    fn verdict(&self, ask: &Ask, rtt: Option<Duration>) -> Result<(), Failure> {
        let mut text = String::new();
        for (_, way) in &self.ways {
            if way.rows == 0 {
                return Err(nothing(way, ask, rtt));
            }
            let (name, rates, path) = (way.name, way.rates(), way.path(rtt));
            text += &format!("{name}: {rates}, {path}; {}\n", way.tally());
            if let Some(file) = way.file() {
                text += &format!("{}: {} rows written to {}\n", way.name, way.rows, file.display());
            }
        }
        match self.json {
            true => text.lines().for_each(output::remark),
            false => output::print(&text)?,
        }
        Ok(())
    }
}

/// Why nothing was measured, as far as can be told.
fn nothing(way: &Way, ask: &Ask, rtt: Option<Duration>) -> Failure {
    let name = way.name;
    if way.trains > 0 {
        let tally = way.tally();
        return Failure::failed(format!(
            "{name}: no train can be used: {tally}; longer trains (--train) may help"
        ));
    }
    let size = ask.size;
    let hint = match rtt {
        Some(_) => format!(
            "small packets come: packets of {size} bytes may be too large for the path; give a smaller --size"
        ),
        None => "the path carried nothing that way".to_owned(),
    };
    Failure::failed(format!("{name}: no train has come; {hint}"))
}

/// How often `interval` is in `time`.
fn whole(time: Duration, interval: Duration) -> u32 {
    u32::try_from(time.as_nanos() / interval.as_nanos()).unwrap_or(u32::MAX)
}
