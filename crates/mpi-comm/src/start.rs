//! From nothing to a world: environment, launcher, transports, engine, predefined communicators.

use crate::control;
use crate::core::{Node, Predefined};
use crate::directory::{self, Card, KEY, World};
use crate::dynamic::{Beyond, Foreign, Identity, Wide};
use crate::process::{Process, ThreadLevel};
use crate::settings::{self, SettingError};
use mpi_btl::{Addresses, Btl, Ep, OpenEnv, OpenError, Opened, SelectError};
use mpi_coll::Settings;
use mpi_node::faults::{self, FaultsError};
use mpi_p2p::{Engine, EngineConfig, Error, Limits, SpinPolicy, record};
use mpi_pmi::{Bootstrap, Kind, PmiError, variables};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The start-up failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error(transparent)]
    Setting(#[from] SettingError),
    #[error(transparent)]
    Faults(#[from] FaultsError),
    #[error(transparent)]
    Collective(#[from] mpi_coll::SettingError),
    #[error(transparent)]
    Select(#[from] SelectError),
    #[error(transparent)]
    Launcher(#[from] PmiError),
    /// No transport opens; each with its reason.
    #[error("no transport that reaches all ranks can be opened: {0}")]
    Transports(String),
    /// A transport's setting.
    #[error("{0}")]
    Transport(String),
    #[error(transparent)]
    Engine(#[from] Error),
}

pub(crate) fn start(level: ThreadLevel, backends: &[&'static dyn Btl]) -> Result<Process, StartError> {
    settings::check_all(settings::lookup)?;
    backends.iter().try_for_each(|b| b.check(settings::lookup)).map_err(StartError::Transport)?;
    let handler = settings::initial_handler(settings::lookup);
    let algorithms = algorithms()?;
    let wanted = settings::lookup(settings::BTL);
    let selection = select(backends, wanted.as_deref())?;
    let boot = mpi_pmi::bootstrap()?;
    faults(boot.rank)?;
    records(&boot);
    let _recording = record::op(const { record::ops::Op::named("init") }, || None);
    let env = OpenEnv {
        job: boot.job.clone(),
        secret: boot.secret,
        world_rank: boot.rank,
        world_size: boot.size,
        node_slot: boot.node_slot,
        segment: boot.segment,
        // Also of a world on one host others may come to know, that run on another.
        multihost: boot.multihost || settings::lookup(variables::MULTIHOST).is_some_and(|on| on == "1"),
        settings: settings::lookup,
    };
    let opened = open(&boot, &env, &selection)?;
    let wide = wide(&boot, &opened, &selection);
    let segment = directory::segment_number(boot.segment);
    let unpublished = publish(&boot, &opened, segment)?;
    let me = Ep(boot.rank);
    let all_here = !boot.multihost && boot.node_size == boot.size;
    let foreign = Arc::new(Foreign::new(boot.size));
    let directory = World {
        job: boot.job.clone(),
        host: boot.host.clone(),
        segment,
        size: boot.size,
        unpublished,
        client: boot.client.clone(),
        foreign: foreign.clone(),
        nodes: Mutex::default(),
    };
    let engine = Engine::new(EngineConfig {
        me,
        backends: opened,
        directory: Arc::new(directory),
        spin: SpinPolicy::new(boot.processors as usize, boot.node_size.max(1) as usize),
        limits: limits(),
        hooks: control::hooks(&boot, foreign.clone()),
    });
    if level == ThreadLevel::Multiple {
        engine.set_threads_multiple();
    }
    if settings::recovery(settings::lookup) {
        // Others need this process to agree among each other, whatever it does.
        engine.keep_serving();
    }
    let node = Node { number: directory::node_number(&boot.host, segment), all_here };
    let own = Identity { job: boot.job.clone(), rank: boot.rank };
    let report = settings::blocked_report_after(settings::lookup);
    let (client, kind) = (boot.client.clone(), boot.kind);
    let beyond = Arc::new(Beyond::new(own, foreign, client, kind, engine.clone(), env, report, wide));
    let others = Some(beyond.clone());
    let predefined = Predefined::with_others(engine.clone(), me, boot.size, node, algorithms, others)?;
    predefined.world.set_error_handler(handler.clone());
    predefined.self_comm.set_error_handler(handler.clone());
    control::start(&boot.client, &engine, &beyond.foreign);
    boot.client.started()?;
    // The parents wait for this, once all have started.
    let parent = boot.parent.as_ref().map(|port| predefined.world.join_parent(&beyond, port)).transpose()?;
    if let Some(parent) = &parent {
        parent.set_error_handler(handler);
    }
    Ok(Process {
        predefined,
        engine,
        client: boot.client,
        rank: boot.rank,
        level,
        main: std::thread::current().id(),
        parent: Mutex::new(parent),
        appnum: boot.appnum,
        universe_size: boot.universe_size,
        finalize_report: settings::finalize_report_after(settings::lookup),
    })
}

/// Lets faults happen on purpose from here on, where the user wants them: the first rank says which, with the seed.
fn faults(rank: u32) -> Result<(), FaultsError> {
    let setting = settings::lookup(faults::VARIABLE);
    if let (Some(plan), 0) = (faults::install(setting.as_deref(), rank.into())?, rank) {
        eprintln!("mpi: {}={plan}", faults::VARIABLE);
    }
    Ok(())
}

/// Begins to record, where the launcher wants that. Without records the program runs as well.
fn records(boot: &Bootstrap) {
    let Some(number) = settings::lookup(variables::RECORD_FD).filter(|_| boot.kind == Kind::Native) else {
        return;
    };
    let begun = number
        .parse()
        .map_err(|_| format!("{number:?} is no number of a descriptor"))
        .and_then(|fd| mpi_node::spawn::inherited(fd).map_err(|e| format!("descriptor {fd}: {e}")))
        .and_then(|fd| record::attach(fd, boot.rank).map_err(|e| e.to_string()));
    if let Err(why) = begun {
        eprintln!("mpi: rank {}: nothing is recorded ({}: {why})", boot.rank, variables::RECORD_FD);
    }
}

/// The collective algorithms that the user forces.
fn algorithms() -> Result<Settings, StartError> {
    let mut forced = Settings::default();
    for name in Settings::NAMES {
        if let Some(value) = settings::lookup(&format!("MPI_COLL_{name}")) {
            forced.set(name, &value)?;
        }
    }
    let on = |name: &str| settings::lookup(name).is_some_and(|value| value.trim() == "1");
    let tell: fn(&str) = |line| eprintln!("mpi: {line}");
    Ok(forced.checked(on(settings::CHECK)).told(on(settings::COLL_VERBOSE).then_some(tell)))
}

fn limits() -> Limits {
    // A rank that never reports waits for longer than any job runs.
    const NEVER: Duration = Duration::from_secs(u32::MAX as u64);
    let blocked_report = settings::blocked_report_after(settings::lookup).unwrap_or(NEVER);
    let recovery = settings::recovery(settings::lookup);
    Limits { blocked_report, recovery, ..Limits::default() }
}

/// Opens the transports, best first, until every peer is sure to be reached.
fn open(
    boot: &Bootstrap,
    env: &OpenEnv,
    selection: &[&'static dyn Btl],
) -> Result<Vec<(&'static str, Opened)>, StartError> {
    let mut opened = Vec::new();
    let mut refused = Vec::new();
    // A world of one sends to itself only, which needs no transport.
    let selection = if boot.size == 1 { &[] } else { selection };
    for backend in selection {
        match backend.open(env) {
            Ok(open) => {
                // What needs no address reaches the whole node; others are then needed only for
                // other nodes.
                let whole_node = open.address.is_none();
                opened.push((backend.name(), open));
                if whole_node && !boot.multihost && boot.node_size == boot.size {
                    break;
                }
            }
            Err(OpenError::Unavailable { reason, .. }) => {
                // Where one rank has no such transport, usually no rank has: one line is enough.
                // A rank that is alone on its host misses nothing.
                if boot.rank == 0 && boot.kind == Kind::Native && boot.node_size > 1 {
                    eprintln!("mpi: {} is not available ({reason})", backend.name());
                }
                refused.push(format!("{}: {reason}", backend.name()));
            }
            Err(OpenError::Failed { reason, .. }) => {
                refused.push(format!("{}: {reason}", backend.name()));
                // The peers do not know, and would wait for this process where it is not.
                if !boot.multihost && boot.node_size == boot.size {
                    break;
                }
            }
        }
    }
    // What has no address ends at the node. Better said here, with the reason, than by the first send.
    let leaves_node = opened.iter().any(|(_, open)| open.address.is_some());
    if boot.node_size < boot.size && !leaves_node {
        refused
            .insert(0, format!("{} of {} ranks are on other hosts", boot.size - boot.node_size, boot.size));
    }
    match boot.size > 1 && (opened.is_empty() || (boot.node_size < boot.size && !leaves_node)) {
        true => Err(StartError::Transports(refused.join("; "))),
        false => Ok(opened),
    }
}

/// The backends that the user wants, best first.
fn select(backends: &[&'static dyn Btl], wanted: Option<&str>) -> Result<Vec<&'static dyn Btl>, SelectError> {
    let chosen = mpi_btl::select(backends, wanted)?;
    let is_chosen = |backend: &&&'static dyn Btl| chosen.iter().any(|c| c.name() == backend.name());
    let mut all: Vec<&'static dyn Btl> = backends.iter().filter(is_chosen).copied().collect();
    all.sort_by_key(|backend| std::cmp::Reverse(backend.priority()));
    Ok(all)
}

/// What other worlds can be told of this process, and the backends to open when they ask.
fn wide(boot: &Bootstrap, opened: &[(&'static str, Opened)], selection: &[&'static dyn Btl]) -> Wide {
    let mut addresses = Addresses::new();
    opened.iter().for_each(|(name, open)| open.publish(name, &mut addresses));
    let is_open = |backend: &&'static dyn Btl| opened.iter().any(|(name, _)| *name == backend.name());
    let unopened = selection.iter().filter(|backend| !is_open(backend)).copied().collect();
    let segment = directory::segment_number(boot.segment);
    let card = Card { host: boot.host.clone(), node_slot: boot.node_slot, segment, addresses };
    Wide { unopened, card }
}

/// The slot by which the peers of this node reach this process, if a transport serves it: one without an address.
fn slot(boot: &Bootstrap, opened: &[(&'static str, Opened)]) -> Option<u32> {
    boot.node_slot.filter(|_| opened.iter().any(|(_, open)| open.address.is_none()))
}

/// Publishes where this process is. `true`: there is nothing that a peer needs to be told.
fn publish(boot: &Bootstrap, opened: &[(&'static str, Opened)], segment: u64) -> Result<bool, StartError> {
    let mut addresses = Addresses::new();
    for (name, open) in opened {
        open.publish(name, &mut addresses);
    }
    if addresses.is_empty() && !boot.multihost {
        return Ok(true);
    }
    let card = Card { host: boot.host.clone(), node_slot: slot(boot, opened), segment, addresses };
    boot.client.put(KEY, &card.encode())?;
    if matches!(boot.kind, Kind::Pmi1 | Kind::Pmi2) {
        boot.client.fence()?;
    }
    Ok(false)
}
