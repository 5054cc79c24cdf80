//! The addresses of this host by which others may reach it.

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::SockaddrStorage;
use std::io;
use std::net::IpAddr;

/// One address of one interface, or an interface without any.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// It is switched on.
    pub is_up: bool,
    /// An internet address of it.
    pub address: Option<IpAddr>,
}

/// All interfaces, in the system's order; one that has several addresses is there several times.
///
/// # Errors
/// The errno of `getifaddrs`.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let one = |found: nix::ifaddrs::InterfaceAddress| Interface {
        is_up: found.flags.contains(InterfaceFlags::IFF_UP),
        address: found.address.as_ref().and_then(ip_of),
        name: found.interface_name,
    };
    Ok(getifaddrs()?.map(one).collect())
}

/// The names, each once.
#[must_use]
pub fn names(all: &[Interface]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for one in all {
        if !names.contains(&one.name) {
            names.push(one.name.clone());
        }
    }
    names
}

/// The addresses worth offering to another host, each once, of all interfaces or of the one called `only`: no
/// loopback ones, none that are valid on one link only.
#[must_use]
pub fn usable(all: &[Interface], only: Option<&str>) -> Vec<IpAddr> {
    let mut found = Vec::new();
    let wanted = all.iter().filter(|one| one.is_up && only.is_none_or(|name| name == one.name));
    for ip in wanted.filter_map(|one| one.address).filter(|ip| is_usable(*ip)) {
        if !found.contains(&ip) {
            found.push(ip);
        }
    }
    found
}

fn ip_of(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|a| IpAddr::V4(a.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::V6(a.ip())))
}

fn is_usable(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_link_local() && !ip.is_unspecified(),
        IpAddr::V6(ip) => {
            let is_link_local = ip.segments()[0] & 0xffc0 == 0xfe80;
            !ip.is_loopback() && !is_link_local && !ip.is_unspecified()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_host_cannot_use_is_not_offered() {
        let one = |name: &str, is_up, address: &str| Interface {
            name: name.to_owned(),
            is_up,
            address: Some(address.parse().unwrap()),
        };
        let all = [
            one("lo", true, "127.0.0.1"),
            one("lo", true, "::1"),
            one("eth0", true, "10.0.0.1"),
            one("eth0", true, "fe80::1"),
            one("eth0", true, "fd00::1"),
            one("eth1", true, "169.254.0.7"),
            one("eth1", false, "10.1.0.1"),
            one("br0", true, "172.17.0.1"),
            one("br1", true, "172.17.0.1"),
        ];
        let show = |only| usable(&all, only).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!(show(None), "10.0.0.1 fd00::1 172.17.0.1");
        assert_eq!(show(Some("br1")), "172.17.0.1");
        assert_eq!(show(Some("eth1")), "");
        assert_eq!(names(&all), ["lo", "eth0", "eth1", "br0", "br1"]);
    }

    #[test]
    fn every_host_has_loopback() {
        assert!(interfaces().unwrap().iter().any(|one| one.name == "lo"));
    }
}
