//! Making and freeing windows. Collective over the communicator.

use crate::attributes::Attributes;
use crate::board::{Board, front_bytes};
use crate::epoch::{Epoch, access};
use crate::hints::{forbids_locks, taken};
use crate::hub::{Hub, Node, Postman};
use crate::limits::PART_ALIGN_BYTES;
use crate::window::{Inner, Manners, Window};
use mpi_coll::InPlaceOr;
use mpi_comm::{Comm, Info};
use mpi_datatype::{Datatype, Op, Primitive, RecvBuf, SendBuf};
use mpi_node::block::Handle;
use mpi_node::{cross_copy, membarrier};
use mpi_p2p::{Error, ErrorClass};
use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// How a window was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flavor {
    /// On memory of the user's (`MPI_Win_create`).
    Create,
    /// With memory of its own (`MPI_Win_allocate`).
    Allocate,
    /// The same, to be looked at by all ranks directly (`MPI_Win_allocate_shared`).
    Shared,
    /// Memory comes and goes (`MPI_Win_create_dynamic`).
    Dynamic,
}

/// What a rank brings in.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of this rank's part.
    pub size: usize,
    /// Bytes per unit of displacement. With 0 a rank refuses: it takes part, and nobody gets a window.
    pub unit: usize,
    /// Hints: `alloc_shared_noncontig`, `no_locks`, `accumulate_ordering`, `accumulate_ops`, `same_size`,
    /// `same_disp_unit`, `mpi_accumulate_granularity`. Known ones with possible values are taken, and shown by
    /// [`Window::info`]. The first changes where memory lies, the second has locks refused; order and operations of
    /// accumulates are always the strictest that a program may ask for.
    pub info: Info,
}

impl Options {
    /// A part of `size` bytes with displacements in units of `unit` bytes.
    pub fn new(size: usize, unit: usize) -> Options {
        Options { size, unit, info: Info::new() }
    }
}

/// True everywhere when it is true everywhere.
pub(crate) fn agree(comm: &Comm, mine: bool) -> Result<bool, Error> {
    static BYTE: Datatype = Datatype::predefined(Primitive::U8);
    let (mine, mut all) = (u8::from(mine), 0_u8);
    // SAFETY: two local bytes that outlive the blocking call.
    let (send, recv) =
        unsafe { (SendBuf::new(&raw const mine, 1, &BYTE), RecvBuf::new(&raw mut all, 1, &BYTE)) };
    comm.allreduce(InPlaceOr::Buf(send), recv, &Op::Min)?;
    Ok(all == 1)
}

/// What a rank tells the others of its node.
#[derive(Clone, Copy, Default)]
struct Card {
    size: u64,
    unit: u64,
    address: u64,
    pid: u64,
    rank: u64,
    apart: u64,
    probe: (u64, u64),
    fences: u64,
}

const CARD_BYTES: usize = 72;

impl Card {
    fn encode(self) -> [u8; CARD_BYTES] {
        let words = [
            self.size,
            self.unit,
            self.address,
            self.pid,
            self.rank,
            self.apart,
            self.probe.0,
            self.probe.1,
            self.fences,
        ];
        let mut out = [0; CARD_BYTES];
        out.chunks_exact_mut(8).zip(words).for_each(|(o, w)| o.copy_from_slice(&w.to_ne_bytes()));
        out
    }

    fn decode(bytes: &[u8]) -> Card {
        let mut words = bytes.chunks_exact(8).map(|w| w.try_into().map_or(0, u64::from_ne_bytes));
        let mut next = || words.next().unwrap_or(0);
        Card {
            size: next(),
            unit: next(),
            address: next(),
            pid: next(),
            rank: next(),
            apart: next(),
            probe: (next(), next()),
            fences: next(),
        }
    }
}

/// Where the parts of all ranks of the node lie, and where they end.
fn places(cards: &[Card], flavor: Flavor) -> Option<(Vec<u64>, u64)> {
    let mut at = front_bytes(cards.len()) as u64;
    let own = matches!(flavor, Flavor::Allocate | Flavor::Shared);
    // A shared window is one piece, rank after rank, unless somebody asks otherwise.
    let tight = flavor == Flavor::Shared && cards.iter().all(|c| c.apart == 0);
    let mut offsets = Vec::with_capacity(cards.len());
    for card in cards {
        if !tight {
            at = at.checked_next_multiple_of(PART_ALIGN_BYTES as u64)?;
        }
        offsets.push(at);
        if own {
            at = at.checked_add(card.size)?;
        }
    }
    (at <= isize::MAX as u64).then_some((offsets, at))
}

impl Window {
    /// A window on memory of the user's.
    ///
    /// # Safety
    /// The memory is valid for `options.size` bytes until the window is freed, and looked at and changed
    /// by its owner only as the standard's rules of epochs allow.
    ///
    /// # Errors
    /// `Size`, `Disp`, `NoMem`, `Comm`; those of the collectives.
    pub unsafe fn create(comm: &Comm, base: *mut u8, options: &Options) -> Result<Window, Error> {
        make(comm, Flavor::Create, base, options)
    }

    /// A window with memory of its own, zeroed. Ranks of a node share it.
    ///
    /// # Errors
    /// As [`create`](Window::create).
    pub fn allocate(comm: &Comm, options: &Options) -> Result<Window, Error> {
        make(comm, Flavor::Allocate, std::ptr::null_mut(), options)
    }

    /// A window whose memory every rank finds in its own address space, with
    /// [`shared_query`](Window::shared_query). One piece, rank after rank, unless a rank's hints say
    /// `alloc_shared_noncontig`.
    ///
    /// # Errors
    /// As [`create`](Window::create); `RmaShared` when not all ranks can share memory.
    pub fn allocate_shared(comm: &Comm, options: &Options) -> Result<Window, Error> {
        make(comm, Flavor::Shared, std::ptr::null_mut(), options)
    }

    /// A window without memory; displacements are addresses of what its ranks
    /// [attach](Window::attach).
    ///
    /// # Errors
    /// As [`create`](Window::create).
    pub fn dynamic(comm: &Comm, info: Info) -> Result<Window, Error> {
        make(comm, Flavor::Dynamic, std::ptr::null_mut(), &Options { size: 0, unit: 1, info })
    }

    /// Attaches memory to a dynamic window. Local.
    ///
    /// # Safety
    /// As for [`create`](Window::create), until it is detached.
    ///
    /// # Errors
    /// `RmaFlavor`; `RmaAttach` when it overlaps memory that is attached already, or is null with a size.
    pub unsafe fn attach(&self, base: *mut u8, size: usize) -> Result<(), Error> {
        let w = self.alive("attach")?;
        self.dynamic_only("attach")?;
        let from = base as usize;
        let Some(end) = from.checked_add(size) else {
            return Err(w.error(ErrorClass::RmaAttach, "attach", None, format!("{size} bytes at {from:#x}")));
        };
        if base.is_null() && size > 0 {
            return Err(w.error(
                ErrorClass::RmaAttach,
                "attach",
                None,
                format!("{size} bytes at no address"),
            ));
        }
        let mut all = w.attached.write().unwrap_or_else(PoisonError::into_inner);
        if let Some((a, n)) = all.iter().find(|(a, n)| from < a + n && *a < end) {
            let detail = format!("{size} bytes at {from:#x} overlap {n} attached bytes at {a:#x}");
            return Err(w.error(ErrorClass::RmaAttach, "attach", None, detail));
        }
        all.push((from, size));
        Ok(())
    }

    /// Detaches memory, by the address with which it was attached. Local.
    ///
    /// # Errors
    /// `RmaFlavor`; `RmaAttach` when nothing is attached there.
    pub fn detach(&self, base: *const u8) -> Result<(), Error> {
        let w = self.alive("detach")?;
        self.dynamic_only("detach")?;
        let mut all = w.attached.write().unwrap_or_else(PoisonError::into_inner);
        match all.iter().position(|(a, _)| *a == base as usize) {
            Some(at) => {
                all.swap_remove(at);
                Ok(())
            }
            None => {
                let detail = format!("nothing is attached at {base:?}");
                Err(w.error(ErrorClass::RmaAttach, "detach", None, detail))
            }
        }
    }

    fn dynamic_only(&self, op: &'static str) -> Result<(), Error> {
        match self.0.flavor {
            Flavor::Dynamic => Ok(()),
            _ => Err(self.0.error(ErrorClass::RmaFlavor, op, None, "the window is not dynamic")),
        }
    }

    /// Frees the window. Collective: returns when every rank is here, with nothing of the window under way.
    ///
    /// # Errors
    /// `RmaSync` inside of an epoch; `Win` when it was freed already; what an operation left behind.
    pub fn free(&self) -> Result<(), Error> {
        let w = self.alive("free window")?;
        w.epoch.closed(w, "free window")?;
        self.clear_attributes()?;
        let flushed = w.flush_mail("free window", None);
        w.comm.barrier()?;
        self.forget();
        flushed
    }

    /// The window is not reachable any more.
    fn forget(&self) {
        let w = &*self.0;
        if w.freed.swap(true, Ordering::AcqRel) {
            return;
        }
        w.epoch.set_access(access::NONE);
        w.hub.remove(w.number);
        if w.served {
            w.engine().stop_serving();
        }
        // The last owner may be this list: what it holds goes after the lock of the list.
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let mine = open.iter().position(|other| Arc::ptr_eq(other, &self.0)).map(|at| open.swap_remove(at));
        drop(open);
        drop(mine);
    }
}

/// The windows that are open in this process. A window that somebody still reaches must not go with its
/// last handle: this keeps it until it is freed.
static OPEN: Mutex<Vec<Arc<Inner>>> = Mutex::new(Vec::new());

fn note_open(window: &Arc<Inner>) {
    static ASKED: std::sync::Once = std::sync::Once::new();
    ASKED.call_once(|| {
        mpi_comm::at_finalize(Box::new(|| {
            let open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
            open.iter().map(|window| full_title(window)).collect()
        }));
    });
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).push(window.clone());
}

fn full_title(window: &Inner) -> String {
    match window.comm.name() {
        name if name.is_empty() => format!("{} of communicator {}", window.title(), window.comm.context_id()),
        name => format!("{} of {name}", window.title()),
    }
}

fn make(comm: &Comm, flavor: Flavor, base: *mut u8, options: &Options) -> Result<Window, Error> {
    let op = "create window";
    if comm.is_inter() {
        return Err(Error::new(ErrorClass::Comm, op, "a window needs a communicator of one group"));
    }
    let new_hub = || {
        let hub = Arc::new(Hub::default());
        let any: Arc<dyn Any + Send + Sync> = hub.clone();
        (Box::new(Postman(hub)) as Box<dyn mpi_p2p::Service>, any)
    };
    let (cx, any) = comm.one_sided(&new_hub)?;
    let Ok(hub) = any.clone().downcast::<Hub>() else {
        return Err(Error::new(ErrorClass::Intern, op, "the communicator keeps something else"));
    };
    let number = comm.next_window();
    let node = hub.node(comm)?;
    let built = build(node, flavor, base, options, comm);
    // Everybody is to know whether everybody has it, also where this rank failed.
    let shares = |b: &Built| flavor != Flavor::Shared || b.board.seats() == comm.size();
    let fine = agree(comm, options.unit != 0 && built.as_ref().is_ok_and(shares))?;
    if options.unit == 0 {
        return Err(Error::new(ErrorClass::Disp, op, "displacements are in units of 0 bytes"));
    }
    let built = built.map_err(|error| Error::new(ErrorClass::NoMem, op, error.to_string()))?;
    if !fine {
        let (class, why) = match flavor {
            Flavor::Shared => {
                (ErrorClass::RmaShared, "not all ranks can share memory, or one refused what it was given")
            }
            _ => (ErrorClass::NoMem, "another rank could not get its memory, or refused what it was given"),
        };
        return Err(Error::new(class, op, why).on(comm.name(), comm.context_id()));
    }
    let all_here = built.board.seats() == comm.size();
    let direct =
        matches!(flavor, Flavor::Allocate | Flavor::Shared) || (flavor == Flavor::Create && built.cross);
    let served = comm.size() > 1 && !(all_here && direct);
    let used = taken(&options.info);
    let inner = Inner {
        comm: comm.clone(),
        cx: cx.clone(),
        hub: hub.clone(),
        number,
        flavor,
        me: built.me,
        all_here,
        cross: built.cross,
        full_fence: built.full_fence,
        base: built.base,
        size: if flavor == Flavor::Dynamic { 0 } else { options.size },
        unit: options.unit,
        threads: comm.engine().is_multiple(),
        board: built.board,
        epoch: Epoch::new(all_here && matches!(flavor, Flavor::Allocate | Flavor::Shared)),
        mail: OnceLock::new(),
        attached: RwLock::default(),
        fences: AtomicU64::new(0),
        freed: AtomicBool::new(false),
        losses: comm.engine().losses(),
        served,
        no_locks: AtomicBool::new(forbids_locks(&used)),
        manners: RwLock::new(Manners { handler: comm.error_handler(), name: Box::default(), info: used }),
        attributes: Attributes::default(),
        dirty: AtomicU32::new(0),
    };
    let window = Window(Arc::new(inner));
    hub.add(&window.0);
    note_open(&window.0);
    if served {
        comm.engine().keep_serving();
    }
    // Nobody's first message finds the window unknown.
    comm.barrier()?;
    Ok(window)
}

struct Built {
    board: Board,
    me: u32,
    base: *mut u8,
    cross: bool,
    full_fence: bool,
}

/// The board, with this rank in its seat.
fn build(
    node: &Node,
    flavor: Flavor,
    base: *mut u8,
    options: &Options,
    comm: &Comm,
) -> Result<Built, Box<dyn std::error::Error>> {
    let apart = options.info.get("alloc_shared_noncontig").is_some_and(|v| v == "true");
    let card = Card {
        size: options.size as u64,
        unit: options.unit as u64,
        address: base as u64,
        pid: std::process::id().into(),
        rank: comm.rank().into(),
        apart: apart.into(),
        probe: cross_copy::cookie(),
        fences: membarrier::register().global.into(),
    };
    if let Some(here) = &node.comm {
        if let Some(built) = share(here, flavor, card)? {
            return Ok(built);
        }
    }
    let Some((offsets, end)) = places(&[card], flavor) else { return Err("the size overflows".into()) };
    let board = Board::private(1, end as usize - front_bytes(1))?;
    Ok(sit(board, 0, &card, &offsets, flavor, false, true))
}

/// The board of several ranks; `None` where they cannot share one.
fn share(here: &Comm, flavor: Flavor, card: Card) -> Result<Option<Built>, Box<dyn std::error::Error>> {
    let n = here.size() as usize;
    let mut bytes = vec![0; n * CARD_BYTES];
    let mine = card.encode();
    here.allgather(InPlaceOr::Buf(SendBuf::packed(&mine)), RecvBuf::packed(&mut bytes))?;
    let cards: Vec<Card> = bytes.chunks_exact(CARD_BYTES).map(Card::decode).collect();
    let Some((offsets, end)) = places(&cards, flavor) else { return Err("the sizes overflow".into()) };
    let data = end as usize - front_bytes(n);
    let leads = here.rank() == 0;
    let made = if leads { Board::create(n as u32, data).ok() } else { None };
    let handle = made.as_ref().map_or(Handle::default(), Board::handle);
    let words = [u64::from(handle.pid), handle.descriptor.into(), handle.bytes, handle.cookie];
    let mut told: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
    here.broadcast(RecvBuf::packed(&mut told), 0)?;
    let mut words = told.chunks_exact(8).map(|w| w.try_into().map_or(0, u64::from_ne_bytes));
    let mut next = || words.next().unwrap_or(0);
    let handle = Handle { pid: next() as u32, descriptor: next() as u32, bytes: next(), cookie: next() };
    let board = match made {
        Some(board) => Some(board),
        None if leads || handle.bytes == 0 => None,
        None => Board::open(n as u32, handle).ok().filter(|_| handle.bytes >= end),
    };
    let all = agree(here, board.is_some())?;
    let Some(board) = board.filter(|_| all) else { return Ok(None) };
    board.close();
    // Whether ranks may read each other's memory is asked of one neighbour each.
    let neighbour = (here.rank() as usize + 1) % n;
    let next = &cards[neighbour];
    let allowed = here.group().member(neighbour as u32).is_some_and(|ep| here.engine().reaches_memory(ep));
    let cross = flavor == Flavor::Create
        && agree(here, allowed && cross_copy::probe(next.pid as u32, next.probe.0, next.probe.1))?;
    let fences = cards.iter().all(|c| c.fences == 1);
    let built = sit(board, here.rank(), &card, &offsets, flavor, cross, fences);
    // Nobody looks at a seat before its owner sits.
    here.barrier()?;
    Ok(Some(built))
}

fn sit(
    board: Board,
    me: u32,
    card: &Card,
    offsets: &[u64],
    flavor: Flavor,
    cross: bool,
    fences: bool,
) -> Built {
    let seat = board.seat(me);
    let own = matches!(flavor, Flavor::Allocate | Flavor::Shared);
    seat.offset.store(offsets[me as usize], Ordering::Relaxed);
    seat.size.store(if flavor == Flavor::Dynamic { 0 } else { card.size }, Ordering::Relaxed);
    seat.unit.store(card.unit as u32, Ordering::Relaxed);
    seat.pid.store(card.pid as u32, Ordering::Relaxed);
    seat.rank.store(card.rank as u32, Ordering::Relaxed);
    seat.address.store(card.address, Ordering::Relaxed);
    // Others of the node cannot run processor atomics on memory that is not mapped there.
    let atomics = fences && (own || board.seats() == 1);
    seat.mode.store(u32::from(!atomics), Ordering::Release);
    let base =
        if own { board.part(seat).unwrap_or(card.address as *mut u8) } else { card.address as *mut u8 };
    Built { board, me, base, cross, full_fence: !fences }
}
