//! The tree in which daemons stand: computed from the number of a host, known to everybody.

use crate::limits::HOSTS_MAX;

/// The next daemon on the way from host `from` (`None`: the launcher itself) to host `to`: hosts
/// below `fan_out` are started by the launcher, the others stand below them as in a heap. `None`:
/// `to` does not stand below `from`.
///
/// ```
/// use mpi_wire::daemon::next_hop;
/// assert_eq!(next_hop(None, 1, 2), Some(1));
/// assert_eq!(next_hop(None, 7, 2), Some(0)); // 7 stands below 2, which stands below 0
/// assert_eq!(next_hop(Some(0), 7, 2), Some(2));
/// assert_eq!(next_hop(Some(1), 7, 2), None);
/// ```
#[must_use]
pub fn next_hop(from: Option<u32>, to: u32, fan_out: u32) -> Option<u32> {
    let mut at = to;
    while at as usize <= HOSTS_MAX {
        let above = parent(at, fan_out);
        if above == from {
            return Some(at);
        }
        at = above?;
    }
    None
}

/// The host whose daemon starts that of `host`; `None`: the launcher does.
#[must_use]
pub fn parent(host: u32, fan_out: u32) -> Option<u32> {
    let fan_out = fan_out.max(1);
    host.checked_sub(fan_out).map(|beyond| beyond / fan_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_is_reached() {
        for fan_out in [1, 2, 3, 8] {
            for to in 0..100 {
                let mut at = None;
                let mut hops = 0;
                while at != Some(to) {
                    at = Some(next_hop(at, to, fan_out).unwrap());
                    hops += 1;
                    assert!(hops <= 100);
                }
            }
        }
        assert_eq!(next_hop(None, u32::MAX, 2), None);
    }
}
