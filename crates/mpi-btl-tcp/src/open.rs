//! Opening the backend: addresses, the listening socket, and the options of every socket.

use crate::address;
use crate::core::Core;
use crate::limits::{
    ADDRESSES_MAX, EAGER_LIMIT_BYTES, EAGER_LIMIT_MAX_BYTES, INLINE_LIMIT_BYTES, KEEPALIVE_IDLE,
    KEEPALIVE_INTERVAL, KEEPALIVE_PROBES, LISTEN_BACKLOG, LOCAL_CONGESTION_CONTROL, SOCKET_BUFFER_BYTES,
    SOCKET_BUFFER_MIN_BYTES, UNACKNOWLEDGED_TIMEOUT,
};
use crate::rx::Rx;
use crate::shared::Shared;
use crate::sys;
use crate::tx::Tx;
use mpi_btl::{Btl, Caps, OpenEnv, OpenError, Opened};
use mpi_node::addresses::{self, Interface};
use mpi_node::faults;
use socket2::{Domain, SockAddr, Socket, TcpKeepalive};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Name in `MPI_BTL` and in published addresses.
pub(crate) const NAME: &str = "tcp";

/// The TCP backend.
///
/// Settings: `MPI_PORT_RANGE` (`a-b`, both included), `MPI_IFACE` (interface name), `MPI_HOST_IP` (the one address
/// to publish), `MPI_TCP_EAGER_BYTES`.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpBtl;

impl Btl for TcpBtl {
    fn name(&self) -> &'static str {
        NAME
    }

    fn priority(&self) -> i32 {
        10
    }

    fn check(&self, settings: Settings) -> Result<(), String> {
        eager_limit(settings)?;
        port_range(settings)?;
        host_ip(settings)?;
        let Some(name) = settings("MPI_IFACE") else { return Ok(()) };
        let names = addresses::names(&interfaces()?);
        match names.contains(&name) {
            true => Ok(()),
            false => Err(format!(
                "MPI_IFACE={name:?}: there is no such interface; there are: {}",
                names.join(", ")
            )),
        }
    }

    fn open(&self, env: &OpenEnv) -> Result<Opened, OpenError> {
        let failed = |reason: String| OpenError::Failed { backend: NAME, reason };
        let setting = (env.settings)(faults::VARIABLE);
        faults::install(setting.as_deref(), env.world_rank.into()).map_err(|e| failed(e.to_string()))?;
        let caps = Caps {
            inline_limit: INLINE_LIMIT_BYTES,
            eager_limit: eager_limit(env.settings).map_err(failed)?,
            frame_limit: usize::MAX >> 1,
            get: false,
            lend: true,
            node: false,
        };
        let ports = port_range(env.settings).map_err(failed)?;
        let hosts = hosts(env).map_err(failed)?;
        let listener = listen(&hosts, ports).map_err(failed)?;
        let port = port_of(&listener).map_err(|e| failed(format!("no port of its own: {e}")))?;
        let own: Vec<SocketAddr> = hosts.into_iter().map(|ip| SocketAddr::new(ip, port)).collect();
        let published = address::encode(&own);
        let me = Core::identity(&env.job, env.world_rank);
        let core = Core::new(me, env.job.clone(), env.secret, listener, own)
            .map_err(|e| failed(format!("epoll: {e}")))?;
        let core = Arc::new(Shared::new(core));
        Ok(Opened {
            tx: Box::new(Tx { core: core.clone(), caps }),
            rx: Box::new(Rx::new(core)),
            address: Some(published),
        })
    }
}

/// Options of every connection, dialled or accepted.
pub(crate) fn prepare(socket: &Socket) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_PROBES);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_TIMEOUT))?;
    // Best effort: smaller ones work too.
    if may_set("wmem_max") {
        let _ = socket.set_send_buffer_size(SOCKET_BUFFER_BYTES);
    }
    if may_set("rmem_max") {
        let _ = socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES);
    }
    Ok(())
}

/// On one host there is no queue to guard: a congestion control that paces (bbr) only pays timers.
pub(crate) fn spare_pacing(socket: &Socket) {
    let ip = |address: io::Result<SockAddr>| address.ok().and_then(|a| a.as_socket()).map(|a| a.ip());
    let (own, theirs) = (ip(socket.local_addr()), ip(socket.peer_addr()));
    if own.is_some() && own == theirs {
        // Best effort: the system's choice works too.
        let _ = socket.set_tcp_congestion(LOCAL_CONGESTION_CONTROL);
    }
}

/// The system lets us set a buffer that is worth setting. A fixed size ends the kernel's own
/// tuning, which reaches further than a low limit would.
fn may_set(limit: &str) -> bool {
    let text = std::fs::read_to_string(format!("/proc/sys/net/core/{limit}")).unwrap_or_default();
    text.trim().parse::<usize>().is_ok_and(|max| max >= SOCKET_BUFFER_MIN_BYTES)
}

/// Looks a variable up.
type Settings = fn(&str) -> Option<String>;

fn eager_limit(settings: Settings) -> Result<usize, String> {
    let Some(text) = settings("MPI_TCP_EAGER_BYTES") else { return Ok(EAGER_LIMIT_BYTES) };
    match text.trim().parse() {
        Ok(bytes) if bytes <= EAGER_LIMIT_MAX_BYTES => Ok(bytes),
        _ => Err(format!("MPI_TCP_EAGER_BYTES={text}: expected bytes, at most {EAGER_LIMIT_MAX_BYTES}")),
    }
}

fn port_range(settings: Settings) -> Result<RangeInclusive<u16>, String> {
    let Some(text) = settings("MPI_PORT_RANGE") else { return Ok(0..=0) };
    let range = text.trim().split_once('-').and_then(|(a, b)| {
        let (a, b) = (a.trim().parse().ok()?, b.trim().parse().ok()?);
        (a > 0 && a <= b).then_some(a..=b)
    });
    range.ok_or_else(|| format!("MPI_PORT_RANGE={text}: expected FIRST-LAST, ports from 1 to 65535"))
}

/// The addresses to publish: loopback for a job on one host, else every usable one of this host.
fn hosts(env: &OpenEnv) -> Result<Vec<IpAddr>, String> {
    if let Some(ip) = host_ip(env.settings)? {
        return Ok(vec![ip]);
    }
    if !env.multihost {
        return Ok(vec![loopback()]);
    }
    let iface = (env.settings)("MPI_IFACE");
    let all = interfaces()?;
    let names = addresses::names(&all);
    let mut hosts = addresses::usable(&all, iface.as_deref());
    hosts.truncate(ADDRESSES_MAX);
    match (hosts.is_empty(), iface) {
        (false, _) => Ok(hosts),
        (true, Some(name)) => Err(format!(
            "MPI_IFACE={name}: no usable address on that interface; there are: {}",
            names.join(", ")
        )),
        (true, None) => Err(format!(
            "the job spans hosts, and no interface that is up has an address other than loopback and \
             link-local; there are: {}",
            names.join(", ")
        )),
    }
}

fn host_ip(settings: Settings) -> Result<Option<IpAddr>, String> {
    let Some(text) = settings("MPI_HOST_IP") else { return Ok(None) };
    text.trim().parse().map(Some).map_err(|_| format!("MPI_HOST_IP={text}: expected an IP address"))
}

fn interfaces() -> Result<Vec<Interface>, String> {
    addresses::interfaces().map_err(|e| format!("the interfaces cannot be listed: {e}"))
}

/// IPv4 loopback, or IPv6 where that is all there is.
fn loopback() -> IpAddr {
    let v4 = IpAddr::V4(Ipv4Addr::LOCALHOST);
    match bind(v4, 0) {
        Ok(_) => v4,
        Err(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
    }
}

/// Listens where `hosts` can be reached: on the one address, or on all.
fn listen(hosts: &[IpAddr], ports: RangeInclusive<u16>) -> Result<Socket, String> {
    let wildcards = [IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::UNSPECIFIED)];
    let binds: &[IpAddr] = if let [one] = hosts { &[*one] } else { &wildcards };
    let mut last = String::new();
    for ip in binds {
        for port in ports.clone() {
            match bind(*ip, port).and_then(|s| s.listen(LISTEN_BACKLOG).map(|()| s)) {
                Ok(socket) => return Ok(socket),
                Err(e) => last = format!("{}: {e}", SocketAddr::new(*ip, port)),
            }
        }
    }
    Err(format!("no port to listen on among {}-{}; the last: {last}", ports.start(), ports.end()))
}

fn bind(ip: IpAddr, port: u16) -> io::Result<Socket> {
    let address = SocketAddr::new(ip, port);
    let socket = sys::socket(Domain::for_address(address))?;
    if ip.is_ipv6() {
        // One socket for both families.
        socket.set_only_v6(false)?;
    }
    socket.set_nonblocking(true)?;
    // Accepted sockets inherit the size, and the window is agreed before they are ours to set.
    if may_set("rmem_max") {
        let _ = socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES);
    }
    socket.bind(&SockAddr::from(address))?;
    Ok(socket)
}

fn port_of(listener: &Socket) -> io::Result<u16> {
    let address = listener.local_addr()?.as_socket();
    address.map(|a| a.port()).ok_or_else(|| io::Error::other("not an internet address"))
}
