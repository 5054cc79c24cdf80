//! Round trips and hostile bytes.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

fn program() -> impl Strategy<Value = Program> {
    let (path, wdir) = (proptest::option::of("[a-z:]{0,9}"), any::<Option<Vec<u8>>>());
    let environment = vec(("[A-Z]{1,5}", any::<String>()), 0..3);
    (any::<Vec<u8>>(), path, wdir, vec(any::<Vec<u8>>(), 0..4), environment).prop_map(
        |(name, path, wdir, arguments, environment)| Program { name, path, wdir, arguments, environment },
    )
}

fn prepare() -> impl Strategy<Value = Prepare> {
    let rank = any::<(u32, u32, u32, bool)>().prop_map(|(slot, rank, program, reads)| RankHere {
        slot,
        rank,
        program,
        reads,
    });
    let numbers = any::<(u32, u32, bool, u8, u8, bool, u32, Option<(u16, u16)>, u8)>();
    let environment = vec(any::<(Vec<u8>, Vec<u8>)>(), 0..4);
    let texts = ("[a-z]{0,9}", any::<Vec<u8>>(), proptest::option::of("[a-z]{0,9}"));
    (numbers, texts, environment, vec(program(), 0..3), vec(rank, 0..5)).prop_map(
        |(numbers, texts, environment, programs, ranks)| Prepare {
            world: numbers.0,
            id: texts.0,
            size: numbers.1,
            several: numbers.5,
            spawned: numbers.2,
            directory: texts.1,
            environment,
            errhandler: texts.2,
            map_by: numbers.3,
            bind_to: numbers.4,
            records: numbers.8,
            before: numbers.6,
            terminal: numbers.7,
            programs,
            ranks,
        },
    )
}

fn to_daemon() -> impl Strategy<Value = ToDaemon> {
    prop_oneof![
        ("[a-z]{0,9}", "[a-z]{0,9}", any::<(u32, u64, u64)>()).prop_map(|(job, name, n)| {
            ToDaemon::Setup(Setup { job, name, fan_out: n.0, silence_ms: n.1, window_bytes: n.2 })
        }),
        (any::<u32>(), "[a-z]{0,9}", vec(any::<Vec<u8>>(), 0..4), any::<bool>())
            .prop_map(|(host, name, words, copy_self)| ToDaemon::Launch { host, name, words, copy_self }),
        prepare().prop_map(|p| ToDaemon::Prepare(Box::new(p))),
        any::<u32>().prop_map(|world| ToDaemon::Start { world }),
        any::<(u32, Vec<u8>)>().prop_map(|(slot, bytes)| ToDaemon::Control { slot, bytes }),
        any::<(Vec<u32>, i32)>().prop_map(|(worlds, signal)| ToDaemon::Signal { worlds, signal }),
        any::<(u32, Vec<u8>)>().prop_map(|(slot, bytes)| ToDaemon::Input { slot, bytes }),
        (any::<u32>(), 0..2u8).prop_map(|(slot, stream)| ToDaemon::Deaf { slot, stream }),
        any::<u64>().prop_map(|bytes| ToDaemon::Credit { bytes }),
        any::<u64>().prop_map(|nanos| ToDaemon::Ping { nanos }),
        Just(ToDaemon::Quit),
    ]
}

fn from_daemon() -> impl Strategy<Value = FromDaemon> {
    prop_oneof![
        ("[a-z]{0,9}", any::<u32>()).prop_map(|(name, pid)| FromDaemon::Ready { name, pid }),
        any::<(u32, u32, Vec<u32>, bool)>().prop_map(|(world, processors, own, segment)| {
            FromDaemon::Prepared { world, processors, own, segment }
        }),
        any::<(u32, i32, String)>().prop_map(|(world, status, reason)| FromDaemon::Refused {
            world,
            status,
            reason
        }),
        any::<(u32, u32, Vec<u32>)>().prop_map(|(slot, pid, processors)| FromDaemon::Started {
            slot,
            pid,
            processors
        }),
        any::<(u32, Vec<u8>)>().prop_map(|(slot, bytes)| FromDaemon::Control { slot, bytes }),
        (any::<u32>(), 0..2u8, any::<Vec<u8>>()).prop_map(|(slot, stream, bytes)| FromDaemon::Output {
            slot,
            stream,
            bytes
        }),
        any::<(u32, Option<i32>, i32)>().prop_map(|(slot, signal, code)| FromDaemon::Ended {
            slot,
            signal,
            code
        }),
        any::<(u32, u64)>().prop_map(|(slot, bytes)| FromDaemon::Taken { slot, bytes }),
        any::<(u32, Vec<u8>)>().prop_map(|(host, bytes)| FromDaemon::Says { host, bytes }),
        any::<(u32, String)>().prop_map(|(host, reason)| FromDaemon::Lost { host, reason }),
        any::<(u64, u64)>().prop_map(|(asked, nanos)| FromDaemon::Pong { asked, nanos }),
        any::<(u32, Vec<u8>)>().prop_map(|(slot, bytes)| FromDaemon::Records { slot, bytes }),
    ]
}

fn body(bytes: &[u8]) -> (u32, Vec<u8>) {
    let mut frames = Frames::up_to(crate::limits::DAEMON_FRAME_MAX_BYTES);
    frames.push(bytes);
    let (host, message) = host_of(frames.pop().unwrap().unwrap()).unwrap();
    (host, message.to_vec())
}

proptest! {
    #[test]
    fn round_trip(host: u32, down in to_daemon(), up in from_daemon()) {
        let mut out = Vec::new();
        down.encode(host, &mut out);
        let (to, message) = body(&out);
        prop_assert_eq!((to, ToDaemon::decode(&message)), (host, Ok(down)));
        let mut passed = Vec::new();
        pass_on(&out[4..], &mut passed);
        prop_assert_eq!(&passed, &out);
        out.clear();
        up.encode(host, &mut out);
        let (from, message) = body(&out);
        prop_assert_eq!((from, FromDaemon::decode(&message)), (host, Ok(up)));
    }

    #[test]
    fn hostile_bytes_never_panic(bytes: Vec<u8>, kind: u8) {
        for bytes in [bytes.clone(), [vec![kind], bytes].concat()] {
            let _ = ToDaemon::decode(&bytes);
            let _ = FromDaemon::decode(&bytes);
            let _ = host_of(&bytes);
        }
    }
}
