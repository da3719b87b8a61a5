//! Access points and devices as they stand on the command line and in configuration files.

use std::net::{SocketAddr, ToSocketAddrs as _};

use serde::Deserialize;
use weftline_core::Bitrate;
use weftline_tunnel::{
    AccessPointPeer, DevicePeer, GatewayDevice, GatewayPeer, Pace, Prefix, PublicKey, Via,
};

use crate::failure::Failure;

/// An access point as a table of a gateway's configuration file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct GatewayAp {
    name: String,
    key: String,
    rate: Option<String>,
}

/// An access point as a table of a device's configuration file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct DeviceAp {
    name: String,
    address: String,
    key: String,
    via: Option<String>,
}

/// A device as a table of a gateway's, or an access point's, configuration file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct DeviceEntry {
    name: String,
    key: String,
    #[serde(default)]
    address: Vec<String>,
}

impl DeviceEntry {
    /// Reads NAME=KEY[,address=PREFIX]….
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let mut parts = Parts::of("--device", text, "NAME=KEY[,address=PREFIX]")?;
        let (name, key) = (parts.name.clone(), parts.first.clone());
        let address = std::iter::from_fn(|| parts.take("address")).collect();
        parts.finish("there is address=PREFIX")?;
        Ok(Self { name, key, address })
    }

    /// The only device, with this key.
    pub(crate) fn only(key: String) -> Self {
        Self { name: "device".to_owned(), key, address: Vec::new() }
    }

    fn public(&self) -> Result<PublicKey, Failure> {
        let wrong = |error| Failure::wrong_use(format!("device '{}': {error}", self.name));
        self.key.parse().map_err(wrong)
    }

    /// As a gateway knows it.
    pub(crate) fn at_gateway(&self) -> Result<GatewayDevice, Failure> {
        let address = |text: &String| -> Result<Prefix, Failure> {
            let wrong = |error| Failure::wrong_use(format!("device '{}': {error}", self.name));
            // An address alone is that address.
            let bits = if text.contains(':') { "/128" } else { "/32" };
            let text = if text.contains('/') { text.clone() } else { format!("{text}{bits}") };
            text.parse().map_err(wrong)
        };
        let addresses = self.address.iter().map(address).collect::<Result<_, _>>()?;
        Ok(GatewayDevice { name: self.name.clone(), key: self.public()?, addresses })
    }

    /// As an access point knows it.
    pub(crate) fn at_access_point(&self) -> Result<AccessPointPeer, Failure> {
        if !self.address.is_empty() {
            return Err(Failure::wrong_use(format!(
                "device '{}' has an address; an access point needs none, the gateway does",
                self.name
            )));
        }
        Ok(AccessPointPeer { name: self.name.clone(), key: self.public()? })
    }
}

/// The devices that are given: on the command line, or else in the file, or one key alone.
pub(crate) fn devices(
    given: &[String],
    mut file: Vec<DeviceEntry>,
    only: Option<String>,
) -> Result<Vec<DeviceEntry>, Failure> {
    let mut devices: Vec<_> =
        given.iter().map(|text| DeviceEntry::parse(text)).collect::<Result<_, _>>()?;
    if devices.is_empty() {
        devices.append(&mut file);
    }
    match only {
        Some(_) if !devices.is_empty() => Err(Failure::wrong_use(
            "--device-key is for one device alone; give its key by --device NAME=KEY as the others'",
        )),
        Some(key) => Ok(vec![DeviceEntry::only(key)]),
        None => Ok(devices),
    }
}

impl GatewayAp {
    /// Reads NAME=KEY[,rate=RATE].
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let mut parts = Parts::of("--ap", text, "NAME=KEY[,rate=RATE]")?;
        let (name, key) = (parts.name.clone(), parts.first.clone());
        let rate = parts.take("rate");
        parts.finish("there is rate=RATE")?;
        Ok(Self { name, key, rate })
    }

    pub(crate) fn peer(&self) -> Result<GatewayPeer, Failure> {
        let what = format!("access point '{}': rate", self.name);
        let pace = parse_pace(&what, self.rate.as_deref())?;
        Ok(GatewayPeer { name: self.name.clone(), key: key(&self.name, &self.key)?, pace })
    }
}

impl DeviceAp {
    /// Reads NAME=ADDR,key=KEY[,via=INTERFACE|ADDRESS].
    pub(crate) fn parse(text: &str) -> Result<Self, Failure> {
        let form = "NAME=ADDR,key=KEY[,via=INTERFACE]";
        let mut parts = Parts::of("--ap", text, form)?;
        let (name, address) = (parts.name.clone(), parts.first.clone());
        let (key, via) = (parts.take("key"), parts.take("via"));
        parts.finish("there are key=KEY and via=INTERFACE")?;
        let missing = || Failure::wrong_use(format!("--ap '{text}' has no key; write {form}"));
        Ok(Self { name, address, key: key.ok_or_else(missing)?, via })
    }

    pub(crate) fn peer(&self) -> Result<DevicePeer, Failure> {
        let Ok(via) = self.via.as_ref().map(|via| via.parse::<Via>()).transpose();
        let address = resolve(&format!("access point '{}'", self.name), &self.address)?;
        Ok(DevicePeer { name: self.name.clone(), key: key(&self.name, &self.key)?, address, via })
    }
}

fn key(name: &str, text: &str) -> Result<PublicKey, Failure> {
    text.parse().map_err(|error| Failure::wrong_use(format!("access point '{name}': {error}")))
}

/// Reads what a link carries: a rate such as 300Mbps, `auto`, or nothing.
pub(crate) fn parse_pace(what: &str, text: Option<&str>) -> Result<Pace, Failure> {
    let text = match text {
        None => return Ok(Pace::Interface),
        Some("auto") => return Ok(Pace::Measured),
        Some(text) => text,
    };
    let rate: Bitrate = text.parse().map_err(|error| {
        Failure::wrong_use(format!("{what}: {error}; or give auto: it is measured"))
    })?;
    if rate == Bitrate::ZERO {
        return Err(Failure::wrong_use(format!(
            "{what} {text}: nothing ever goes at that; give a rate"
        )));
    }
    Ok(Pace::Fixed(rate))
}

/// The address of a host and port, looked up once.
pub(crate) fn resolve(what: &str, text: &str) -> Result<SocketAddr, Failure> {
    if !text.contains(':') {
        return Err(Failure::wrong_use(format!(
            "{what}: '{text}' has no port; write one such as {text}:7200"
        )));
    }
    let found = text.to_socket_addrs();
    let mut found = found.map_err(|error| {
        Failure::failed(format!("{what}: the address of '{text}' is not found: {error}"))
    })?;
    found.next().ok_or_else(|| Failure::failed(format!("{what}: '{text}' has no address")))
}

/// NAME=FIRST,key=value,…
struct Parts<'a> {
    option: &'a str,
    text: &'a str,
    name: String,
    first: String,
    options: Vec<(&'a str, &'a str)>,
}

impl<'a> Parts<'a> {
    fn of(option: &'a str, text: &'a str, form: &str) -> Result<Self, Failure> {
        let what = if option == "--ap" { "access point" } else { "device" };
        let wrong = || Failure::wrong_use(format!("{option} '{text}' is no {what}; write {form}"));
        let mut parts = text.split(',');
        let first = parts.next().unwrap_or_default();
        let (name, first) = first.split_once('=').ok_or_else(wrong)?;
        if name.is_empty() || first.is_empty() {
            return Err(wrong());
        }
        let options = parts.map(|part| part.split_once('=').ok_or_else(wrong));
        let options: Vec<_> = options.collect::<Result<_, _>>()?;
        Ok(Self { option, text, name: name.to_owned(), first: first.to_owned(), options })
    }

    /// The value of an option; the first if it is there twice, so that the other one is left.
    fn take(&mut self, key: &str) -> Option<String> {
        let at = self.options.iter().position(|(name, _)| *name == key)?;
        Some(self.options.remove(at).1.to_owned())
    }

    fn finish(self, known: &str) -> Result<(), Failure> {
        let Some((key, _)) = self.options.first() else { return Ok(()) };
        let Self { option, text, .. } = self;
        Err(Failure::wrong_use(format!("{option} '{text}': '{key}' is unknown or twice; {known}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "public:0000000000000000000000000000000000000000000000000000000000000001";

    #[test]
    fn access_points_are_read_and_what_is_wrong_is_told() {
        let peer = GatewayAp::parse(&format!("a={KEY},rate=300Mbps")).unwrap().peer().unwrap();
        assert_eq!((&peer.name[..], peer.pace), ("a", Pace::Fixed(Bitrate::mbps(300))));
        let peer = GatewayAp::parse(&format!("a={KEY},rate=auto")).unwrap().peer().unwrap();
        assert_eq!(peer.pace, Pace::Measured);
        let peer = DeviceAp::parse(&format!("b=127.0.0.1:7200,key={KEY},via=lo")).unwrap();
        let peer = peer.peer().unwrap();
        assert_eq!(peer.via, Some(Via::Interface("lo".to_owned())));
        for (bad, part) in [
            ("a", "is no access point"),
            ("a=x", "is no public key"),
            (&format!("a={KEY},rate=0bps"), "nothing ever goes"),
            (&format!("a={KEY},rate=fast"), "or give auto"),
            (&format!("a={KEY},speed=1Mbps"), "'speed' is unknown"),
            (&format!("a={KEY},rate=1Mbps,rate=2Mbps"), "twice"),
        ] {
            let error = GatewayAp::parse(bad).and_then(|ap| ap.peer()).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
        let text = format!("c={KEY},address=10.9.0.2,address=fd09::/64");
        let device = DeviceEntry::parse(&text).unwrap().at_gateway().unwrap();
        let prefixes = ["10.9.0.2/32", "fd09::/64"].map(|text| text.parse().unwrap());
        assert_eq!((&device.name[..], &device.addresses[..]), ("c", &prefixes[..]));
        for (bad, part) in [
            ("c".to_owned(), "is no device; write NAME=KEY"),
            ("c=x".to_owned(), "device 'c': 'x' is no public key"),
            (format!("c={KEY},address=ten"), "is no address with a prefix"),
            (format!("c={KEY},speed=1"), "'speed' is unknown"),
        ] {
            let error = DeviceEntry::parse(&bad).and_then(|device| device.at_gateway());
            let error = error.unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        let error = DeviceEntry::parse(&text).unwrap().at_access_point().unwrap_err();
        assert!(error.to_string().contains("needs none"), "{error}");
        let both = devices(&[format!("c={KEY}")], Vec::new(), Some(KEY.to_owned())).unwrap_err();
        assert!(both.to_string().contains("for one device alone"), "{both}");
        for (bad, part) in [("b=127.0.0.1:1", "no key"), ("b=host,key=x", "no port")] {
            let error = DeviceAp::parse(bad).and_then(|ap| ap.peer()).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
