//! Calls that differ between ranks: in the collective, its root, count, type or operation.

use super::Form;
use super::elements::Mem;
use mpi_coll::InPlaceOr::Buf;
use mpi_coll::Team;
use mpi_datatype::{Datatype, Op, Primitive};
use mpi_p2p::{Engine, Error};

/// In what the last rank's call differs from that of the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Differs {
    Collective,
    Root,
    Count,
    Type,
    Operation,
}

use Differs::*;

/// A collective, in what its calls can differ, and how it is called.
pub struct Collective {
    pub name: &'static str,
    pub differs: &'static [Differs],
    call: fn(&Engine, &Team, Form, Terms, &mut Buffers) -> Result<(), Error>,
}

/// What all ranks must agree on.
struct Terms {
    root: usize,
    count: usize,
    op: Op,
}

/// Room enough for every call.
struct Buffers {
    own: Mem,
    result: Mem,
    n: usize,
}

macro_rules! calls {
    ($( $name:ident $immediate:ident $init:ident [$($differs:ident),*] |$e:ident, $t:ident, $terms:ident, $b:ident| ($($arg:expr),*) )*) => {
        &[ $( Collective {
            name: stringify!($name),
            differs: &[$($differs),*],
            call: |$e, $t, form, $terms, $b| {
                let _ = (&$terms, $b.n);
                match form {
                    Form::Blocking => mpi_coll::$name($e, $t, $($arg),*),
                    Form::Immediate => $e.wait(mpi_coll::$immediate($e, $t, $($arg),*)?).map(drop),
                    Form::Persistent => {
                        let id = mpi_coll::$init($e, $t, $($arg),*)?;
                        $e.restart(id)?;
                        let result = $e.wait(id).map(drop);
                        result.and($e.free(id))
                    }
                }
            },
        } ),* ]
    };
}

impl Buffers {
    fn all(&mut self, count: usize) -> mpi_datatype::RecvBuf<'_> {
        self.result.recv().part(0, count)
    }
}

/// Every collective whose calls can be compared as a whole.
pub const COLLECTIVES: &[Collective] = calls! {
    barrier ibarrier barrier_init [Collective] |e, t, x, b| ()
    broadcast ibroadcast broadcast_init [Collective, Root, Count, Type] |e, t, x, b| (b.all(x.count), x.root)
    gather igather gather_init [Collective, Root, Count, Type] |e, t, x, b| (
        Buf(b.own.send().part(0, x.count)), Some(b.result.recv().part(0, x.count * b.n)), x.root)
    scatter iscatter scatter_init [Collective, Root, Count, Type] |e, t, x, b| (
        Some(b.own.send().part(0, x.count * b.n)), Buf(b.result.recv().part(0, x.count)), x.root)
    allgather iallgather allgather_init [Collective, Count, Type] |e, t, x, b| (
        Buf(b.own.send().part(0, x.count)), b.result.recv().part(0, x.count * b.n))
    alltoall ialltoall alltoall_init [Collective, Count, Type] |e, t, x, b| (
        Buf(b.own.send().part(0, x.count * b.n)), b.result.recv().part(0, x.count * b.n))
    reduce ireduce reduce_init [Collective, Root, Count, Type, Operation] |e, t, x, b| (
        Buf(b.own.send().part(0, x.count)), Some(b.result.recv().part(0, x.count)), &x.op, x.root)
    allreduce iallreduce allreduce_init [Collective, Count, Type, Operation] |e, t, x, b| (
        Buf(b.own.send().part(0, x.count)), b.result.recv().part(0, x.count), &x.op)
    scan iscan scan_init [Collective, Count, Type, Operation] |e, t, x, b| (
        Buf(b.own.send().part(0, x.count)), b.result.recv().part(0, x.count), &x.op)
    exscan iexscan exscan_init [Collective, Count, Type, Operation] |e, t, x, b| (
        Buf(b.own.send().part(0, x.count)), b.result.recv().part(0, x.count), &x.op)
    reduce_scatter_block ireduce_scatter_block reduce_scatter_block_init [Collective, Count, Type, Operation] |e, t, x, b| (
        Buf(b.own.send().part(0, x.count * b.n)), b.result.recv().part(0, x.count), &x.op)
    reduce_scatter ireduce_scatter reduce_scatter_init [Collective, Count, Type, Operation] |e, t, x, b| (
        Buf(b.own.send().part(0, x.count * b.n)), b.result.recv().part(0, x.count), &vec![x.count; b.n], &x.op)
};

/// Calls it as one rank; differently where `differs` says in what.
pub fn call(
    which: &Collective,
    e: &Engine,
    t: &Team,
    form: Form,
    differs: Option<Differs>,
) -> Result<(), Error> {
    let n = t.size();
    let doubles = Datatype::predefined(Primitive::F64);
    let words = Datatype::predefined(Primitive::I64);
    let datatype = if differs == Some(Type) { &words } else { &doubles };
    let terms = Terms {
        root: usize::from(differs == Some(Root)),
        count: if differs == Some(Count) { 3 } else { 2 },
        op: if differs == Some(Operation) { Op::Max } else { Op::Sum },
    };
    let room = 3 * n;
    let own = Mem::of(datatype, room, &vec![0; room * 8]);
    let mut buffers = Buffers { result: own.clone(), own, n };
    let which = match (differs, which.name) {
        (Some(Collective), "barrier") => &COLLECTIVES[1],
        (Some(Collective), _) => &COLLECTIVES[0],
        _ => which,
    };
    (which.call)(e, t, form, terms, &mut buffers)
}

/// Fails unless the error names both sides.
pub fn names_both_sides(which: &Collective, differs: Differs, n: usize, result: Result<(), Error>) {
    let said = result.expect_err("ranks that disagree get an error").to_string();
    let other = if which.name == "barrier" { "broadcast" } else { "barrier" };
    let theirs = match differs {
        Collective => other.to_owned(),
        Root => format!("{} with root 1", which.name),
        Count => which.name.to_owned(),
        Type => "of i64".to_owned(),
        Operation => "by maximum".to_owned(),
    };
    let expected = [
        format!("the ranks disagree: rank 0 calls {}", which.name),
        format!("rank {} calls ", n - 1),
        theirs,
    ];
    for text in expected {
        assert!(
            said.contains(&text),
            "{} differs in {differs:?}: {said:?} does not say {text:?}",
            which.name
        );
    }
}
