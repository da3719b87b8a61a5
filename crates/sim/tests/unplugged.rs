//! Interfaces that go and come back with another address.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::time::Duration;

use weftline_scenario::{Congestion, RunRecord, Scenario, Unplugged};
use weftline_sim::{SimError, simulate};

/// Two equal paths, the first of which is `unplugged`.
fn scenario(unplugged: &str) -> Scenario {
    let text = format!(
        "name = \"roaming\"\nduration = \"12s\"\n\
         [[path]]\nname = \"wifi\"\nrate = \"20Mbps\"\ndelay = \"10ms\"\nunplugged = {unplugged}\n\
         [[path]]\nname = \"lte\"\nrate = \"20Mbps\"\ndelay = \"10ms\"\n"
    );
    Scenario::parse("roaming.toml", &text, &|_| unreachable!()).unwrap()
}

fn run(unplugged: &str, scheme: &str) -> RunRecord {
    let scheme = scheme.parse().unwrap();
    let outcome = simulate(&scenario(unplugged), &scheme, Congestion::CUBIC, 1, false);
    let record = outcome.unwrap().record;
    assert_eq!(record.error, None, "{unplugged}");
    record
}

/// Mb/s.
fn goodput(unplugged: &str, scheme: &str) -> f64 {
    run(unplugged, scheme).goodput_mbps.unwrap()
}

#[test]
fn a_path_is_used_again_when_its_interface_is_back() {
    for scheme in ["earliest", "fbdt", "linux-mptcp"] {
        let whole = goodput("[]", scheme);
        // Four of twelve seconds without a half of the sum.
        let unplugged = goodput("[{ at = \"3s\", for = \"4s\" }]", scheme);
        assert!((0.78..0.87).contains(&(unplugged / whole)), "{scheme}: {unplugged} of {whole}");
        let never_back = goodput("[{ at = \"3s\", for = \"1h\" }]", scheme);
        assert!((0.58..0.67).contains(&(never_back / whole)), "{scheme}: {never_back} of {whole}");
    }
}

#[test]
fn a_new_address_costs_a_connection_not_the_stream() {
    for scheme in ["earliest", "fbdt", "linux-mptcp"] {
        let [whole, roaming] =
            ["[]", "[{ at = \"4s\", for = \"0s\" }, { at = \"8s\", for = \"0s\" }]"]
                .map(|unplugged| goodput(unplugged, scheme));
        assert!(roaming / whole > 0.9, "{scheme}: {roaming} of {whole}");
        assert!(roaming < whole, "{scheme}: nothing has happened");
    }
}

/// What is on its way to the old address is for nobody: at these rates that is more than a preface.
#[test]
fn what_comes_to_an_address_that_is_gone_opens_nothing() {
    let mut scenario = Scenario::find("fbdt-hotplug").unwrap();
    scenario.duration = Duration::from_secs(1);
    for at_ms in [300, 444, 600] {
        scenario.paths[1].unplugged =
            vec![Unplugged { at: Duration::from_millis(at_ms), time: Duration::ZERO }];
        for scheme in ["earliest", "linux-mptcp"] {
            let scheme = scheme.parse().unwrap();
            let outcome = simulate(&scenario, &scheme, Congestion::CUBIC, 1, false);
            assert_eq!(outcome.unwrap().record.error, None, "{scheme} at {at_ms} ms");
        }
    }
}

#[test]
fn plain_tcp_ends_with_its_address() {
    let whole = goodput("[]", "single:wifi");
    let roaming = goodput("[{ at = \"3s\", for = \"0s\" }]", "single:wifi");
    assert!((0.2..0.27).contains(&(roaming / whole)), "{roaming} of {whole}");
    // The other path is as if nothing had happened.
    let other = goodput("[{ at = \"3s\", for = \"0s\" }]", "single:lte");
    assert!((other / whole - 1.0).abs() < 0.01, "{other}");
}

#[test]
fn a_stream_outlives_the_loss_of_all_its_interfaces() {
    let text = scenario("[{ at = \"3s\", for = \"3s\" }]").to_string();
    let lte = "name = \"lte\"\n";
    assert!(text.contains(lte));
    let text = text.replace(lte, &format!("{lte}unplugged = [{{ at = \"4s\", for = \"3s\" }}]\n"));
    let scenario = Scenario::parse("roaming.toml", &text, &|_| unreachable!()).unwrap();
    let scheme = "earliest".parse().unwrap();
    let record = simulate(&scenario, &scheme, Congestion::CUBIC, 1, false).unwrap().record;
    assert_eq!(record.error, None);
    // Six of 24 link seconds are gone, two of them both.
    let part = record.goodput_mbps.unwrap() / goodput("[]", "earliest");
    assert!((0.68..0.77).contains(&part), "{part}");
    assert!((2_000.0..2_700.0).contains(&record.longest_gap_ms.unwrap()), "{record:?}");
}

#[test]
fn behind_a_gateway_it_is_refused() {
    let mut scenario = Scenario::find("cotag-fig6").unwrap();
    let other = self::scenario("[{ at = \"3s\", for = \"0s\" }]");
    scenario.paths[0].unplugged.clone_from(&other.paths[0].unplugged);
    let scheme = "cotag".parse().unwrap();
    let error = simulate(&scenario, &scheme, Congestion::CUBIC, 1, false).unwrap_err();
    let names_it = |text: &str| text.contains("leave out 'unplugged'");
    assert!(matches!(&error, SimError::WrongUse(text) if names_it(text)), "{error}");
}
