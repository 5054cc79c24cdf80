//! The addresses that a process publishes: a list of socket addresses as bytes.

use crate::limits::ADDRESSES_MAX;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const VERSION: u8 = 1;
const V4: u8 = 4;
const V6: u8 = 6;

/// A published list cannot be read. The peer's fault.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AddressError {
    /// Another format.
    #[error("address list of version {0:?}, expected {VERSION}")]
    Version(Option<u8>),
    /// It ends in the middle of an address, or names an unknown family.
    #[error("address list malformed at byte {at} of {len}")]
    Malformed {
        /// Where reading stopped.
        at: usize,
        /// Length of the list in bytes.
        len: usize,
    },
}

/// The list as bytes: version, then per address its family (4 or 6), the address, and the port in
/// little-endian. At most [`ADDRESSES_MAX`] are written.
pub fn encode(addresses: &[SocketAddr]) -> Vec<u8> {
    let mut out = vec![VERSION];
    for address in addresses.iter().take(ADDRESSES_MAX) {
        match address.ip() {
            IpAddr::V4(ip) => {
                out.push(V4);
                out.extend_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                out.push(V6);
                out.extend_from_slice(&ip.octets());
            }
        }
        out.extend_from_slice(&address.port().to_le_bytes());
    }
    out
}

/// Reads a list; addresses beyond [`ADDRESSES_MAX`] are ignored.
///
/// # Errors
/// [`AddressError`].
pub fn decode(bytes: &[u8]) -> Result<Vec<SocketAddr>, AddressError> {
    let (&version, mut rest) = bytes.split_first().ok_or(AddressError::Version(None))?;
    if version != VERSION {
        return Err(AddressError::Version(Some(version)));
    }
    let mut out = Vec::new();
    while !rest.is_empty() && out.len() < ADDRESSES_MAX {
        let (address, behind) =
            one(rest).ok_or(AddressError::Malformed { at: bytes.len() - rest.len(), len: bytes.len() })?;
        out.push(address);
        rest = behind;
    }
    Ok(out)
}

fn one(bytes: &[u8]) -> Option<(SocketAddr, &[u8])> {
    let (&family, rest) = bytes.split_first()?;
    let (ip, rest) = match family {
        V4 => {
            let (ip, rest) = rest.split_first_chunk::<4>()?;
            (IpAddr::V4(Ipv4Addr::from(*ip)), rest)
        }
        V6 => {
            let (ip, rest) = rest.split_first_chunk::<16>()?;
            (IpAddr::V6(Ipv6Addr::from(*ip)), rest)
        }
        _ => return None,
    };
    let (port, rest) = rest.split_first_chunk::<2>()?;
    Some((SocketAddr::new(ip, u16::from_le_bytes(*port)), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn round_trip(list: Vec<(IpAddr, u16)>) {
            let list: Vec<SocketAddr> =
                list.into_iter().take(ADDRESSES_MAX).map(SocketAddr::from).collect();
            prop_assert_eq!(decode(&encode(&list)), Ok(list));
        }

        #[test]
        fn hostile_bytes_never_panic(bytes: Vec<u8>, versioned: bool) {
            let mut bytes = bytes;
            if versioned {
                bytes.insert(0, VERSION);
            }
            let _ = decode(&bytes);
        }
    }

    #[test]
    fn a_cut_list_names_the_place() {
        let list = encode(&[SocketAddr::from(([127, 0, 0, 1], 80))]);
        assert_eq!(decode(&list[..5]), Err(AddressError::Malformed { at: 1, len: 5 }));
        assert_eq!(decode(&[]), Err(AddressError::Version(None)));
    }
}
