//! `#[mpi::test]`: tests that start themselves on ranks.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use mpi::ext::prelude::*;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;

/// The launcher of this very workspace, built now if need be.
fn launcher() -> PathBuf {
    static BUILT: LazyLock<PathBuf> = LazyLock::new(|| {
        let me = std::env::current_exe().unwrap();
        let profile = me.parent().and_then(Path::parent).unwrap();
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "-p", "mpiexec", "--target-dir"]).arg(profile.parent().unwrap());
        if profile.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap().success());
        profile.join("mpiexec")
    });
    BUILT.clone()
}

mod cases {
    use super::*;

    #[mpi::test(np = 4, launcher = launcher)]
    fn with_the_world(world: &SimpleCommunicator) {
        assert_eq!(world.size(), 4);
        let all = world.all_reduce_with(&1, mpi::ext::Operands::InAnyOrder, |a, b| a + b);
        assert_eq!(all, 4);
    }

    #[mpi::test(np = 2, timeout_seconds = 30, launcher = launcher)]
    fn with_a_universe_of_its_own() {
        let universe = mpi::initialize().unwrap();
        assert_eq!(universe.world().size(), 2);
        universe.world().barrier();
    }

    #[mpi::test(np = 2, launcher = launcher)]
    fn with_a_result(world: &SimpleCommunicator) -> Result<(), mpi::ext::Error> {
        let peer = world.process_at_rank(1 - world.rank());
        peer.try_send(&world.rank())?;
        let (got, _) = peer.try_receive::<i32>()?;
        assert_eq!(got, peer.rank());
        Ok(())
    }
}

/// What fails on a rank fails the test, and says why.
mod failing {
    use super::*;

    #[mpi::test(np = 3, launcher = launcher)]
    #[should_panic(expected = "the heat is off")]
    fn panics_on_rank_1(world: &SimpleCommunicator) {
        if world.rank() == 1 {
            panic!("the heat is off");
        }
        world.barrier();
    }

    #[mpi::test(np = 2, launcher = launcher)]
    #[should_panic(expected = "ended with status 101")]
    fn panics_without_mpi() {
        panic!("before anything began");
    }

    #[mpi::test(np = 2, launcher = launcher)]
    #[should_panic(expected = "the test returned an error: send on \"MPI_COMM_WORLD\" to rank ")]
    fn returns_an_error(world: &SimpleCommunicator) -> Result<(), mpi::ext::Error> {
        world.this_process().try_send_with_tag(&1, -5)
    }

    /// The picture of who waits for whom names the tag.
    #[mpi::test(np = 2, timeout_seconds = 2, launcher = launcher)]
    #[should_panic(expected = "tag 77")]
    fn hangs(world: &SimpleCommunicator) {
        let peer = world.process_at_rank(1 - world.rank());
        peer.receive_with_tag::<i32>(77);
    }

    #[mpi::test(np = 2, launcher = no_launcher)]
    #[should_panic(expected = "the launcher /nowhere/mpiexec cannot be started")]
    fn has_no_launcher() {}

    fn no_launcher() -> PathBuf {
        PathBuf::from("/nowhere/mpiexec")
    }
}
