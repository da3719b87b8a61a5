//! Looks at what carries UDP, ICMP and DNS of a whole machine: whether each link lets UDP through to the
//! server.

use std::net::IpAddr;

use weftline::{Client, InternetOffer, LaneControl};
use weftline_tunnel::bond::{LaneLink, LaneReach, LaneSecret, LaneSession, reach};

use super::finding::{Check, Finding};

/// What is sent past the server where a link or all of them let no UDP through.
const WHAT: &str = "UDP, DNS and ICMP";
/// Bytes of a link's packet around the longest of a bond: by IPv4 and by IPv6.
const AROUND: [usize; 2] = [72, 92];
/// The longest packet of a bond.
const LONGEST: usize = 1400;

/// All that can be found. What is wrong with the server itself has been found on its paths.
pub(super) async fn examine(
    client: Client,
    links: Vec<LaneLink>,
    udp_over_tcp: bool,
) -> Vec<Finding> {
    let Ok(offer) = InternetOffer::ask(&client).await else { return Vec::new() };
    if !offer.lanes {
        let found = format!("the server carries TCP only: {WHAT} go past it");
        let remedy = "it needs a newer version, and the capability CAP_NET_ADMIN; its log says what \
                      it lacks";
        return vec![Finding::warning(Check::Forward, "lanes", found, remedy)];
    }
    let (control, grant) = match LaneControl::open(&client).await {
        Ok(granted) => granted,
        Err(error) => {
            let found = format!("{WHAT} go past the server: {error}");
            let remedy = "do what it says; the server's log may say more";
            return vec![Finding::warning(Check::Forward, "lanes", found, remedy)];
        }
    };
    let session = LaneSession {
        number: grant.session,
        secret: LaneSecret::new(grant.secret),
        addresses: Vec::<IpAddr>::new(),
        has_ipv6: grant.ipv6,
    };
    let seen = tokio::task::spawn_blocking(move || reach(&session, &links)).await;
    let seen = seen.unwrap_or_default();
    let is_any = seen.iter().any(|one| one.round_trip.is_some());
    let instead = match (is_any, udp_over_tcp && control.takes_tcp()) {
        (true, _) => Instead::OtherLinks,
        (false, true) => Instead::Tcp,
        (false, false) => Instead::Past,
    };
    seen.iter().map(|one| judge(one, instead)).collect()
}

/// Where packets go that a link lets not through.
#[derive(Clone, Copy, Debug)]
enum Instead {
    OtherLinks,
    Tcp,
    Past,
}

/// What it means that a link carries so much.
fn judge(seen: &LaneReach, instead: Instead) -> Finding {
    let LaneLink { name, server, .. } = &seen.link;
    let subject = format!("lane {name}");
    let Some(round_trip) = seen.round_trip else {
        let then = match instead {
            Instead::OtherLinks => format!("{WHAT} go to the server over the other links"),
            Instead::Tcp => format!("{WHAT} go to the server over TCP, where they may come late"),
            Instead::Past => format!("{WHAT} go past the server, by the machine's default route"),
        };
        let found = format!("no answer by UDP from {server}: {then}");
        let remedy = format!(
            "have UDP to port {} let through, at the server's firewall and in this link's network",
            server.port()
        );
        return Finding::warning(Check::Blocked, subject, found, remedy);
    };
    let ms = round_trip.as_secs_f64() * 1e3;
    if seen.carries_long {
        let found = format!("UDP reaches {server}, an answer takes {ms:.1} ms");
        return Finding::ok(Check::Path, subject, found);
    }
    let needed = LONGEST + AROUND[usize::from(server.is_ipv6())];
    let found = format!(
        "UDP reaches {server} ({ms:.1} ms), but no packets of {LONGEST} bytes do: these go over other \
         links, where there are any"
    );
    let remedy =
        format!("the link has to carry {needed} bytes; 'ip link' shows what it says (mtu)");
    Finding::warning(Check::Mtu, subject, found, remedy)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weftline_core::Role;
    use weftline_tunnel::Via;

    use super::super::finding::Level;
    use super::*;

    #[test]
    fn what_a_link_carries_is_said_with_what_to_do() {
        let link = LaneLink {
            name: "wifi".to_owned(),
            via: Via::Interface("wlan0".to_owned()),
            server: ([203, 0, 113, 5], 4433).into(),
            role: Role::Active,
            mark: None,
        };
        let round_trip = Some(Duration::from_micros(12_340));
        let seen =
            |round_trip, carries_long| LaneReach { link: link.clone(), round_trip, carries_long };
        let good = judge(&seen(round_trip, true), Instead::OtherLinks);
        assert_eq!(good.level, Level::Ok);
        assert_eq!(good.found, "UDP reaches 203.0.113.5:4433, an answer takes 12.3 ms");
        let short = judge(&seen(round_trip, false), Instead::OtherLinks);
        assert_eq!((short.level, short.check), (Level::Warning, Check::Mtu));
        assert!(short.remedy.unwrap().contains("1472 bytes"));
        for (instead, then) in [
            (Instead::OtherLinks, "the other links"),
            (Instead::Tcp, "over TCP"),
            (Instead::Past, "past the server"),
        ] {
            let none = judge(&seen(None, false), instead);
            assert_eq!((none.level, none.check), (Level::Warning, Check::Blocked));
            assert!(none.found.contains(then) && none.remedy.unwrap().contains("port 4433"));
        }
    }
}
