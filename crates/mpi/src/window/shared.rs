//! Windows whose memory every rank of a machine finds in its own address space.

use super::{AtomicElement, Element, WindowError, error, options, rank};
use crate::Rank;
use crate::topology::Communicator;

/// Memory of the ranks of one machine that all of them load from and store to (MPI-4.1 §12.2.3).
///
/// As others may change it at any time, it is never borrowed as plain elements: [`atomics`](SharedWindow::atomics)
/// gives those of types that a processor handles at once, [`part`](SharedWindow::part) the address, for which the
/// program answers. To read and write by the rules of epochs, take [`window`](SharedWindow::window).
#[derive(Debug)]
pub struct SharedWindow<T: Element>(super::Window<T>);

impl<T: Element> SharedWindow<T> {
    /// Memory for `len` elements on this rank, all zero, behind that of the rank before. Collective.
    #[track_caller]
    pub fn allocate<C: Communicator>(comm: &C, len: usize) -> SharedWindow<T> {
        error::ok_on(comm, Self::try_allocate(comm, len))
    }

    /// As [`allocate`](SharedWindow::allocate).
    ///
    /// # Errors
    /// Where not all ranks can share memory; no memory.
    pub fn try_allocate<C: Communicator>(comm: &C, len: usize) -> Result<SharedWindow<T>, WindowError> {
        let core = error::core(comm);
        let options = options::<T>(len)
            .map_err(|e| super::refuse(e, |none| mpi_rma::Window::allocate_shared(&core, none)))?;
        let core = mpi_rma::Window::allocate_shared(&core, &options)?;
        Ok(SharedWindow(super::Window::of(core, None, len)))
    }

    /// Address and number of elements of a rank's part in this process.
    ///
    /// # Errors
    /// No such rank.
    pub fn part(&self, of: Rank) -> Result<(*mut T, usize), WindowError> {
        let found = self.0.core.shared_query(Some(rank(of)))?;
        Ok((found.base.cast(), found.size / size_of::<T>().max(1)))
    }

    /// The window, for epochs.
    pub fn window(&mut self) -> &mut super::Window<T> {
        &mut self.0
    }

    /// Orders plain accesses of this rank with those of others.
    #[track_caller]
    pub fn sync(&self) {
        error::ok_in(&self.0.core, self.0.core.sync().map_err(WindowError::from));
    }

    /// Waits for all ranks; what each wrote before, all read after.
    #[track_caller]
    pub fn barrier(&self) {
        let assert = mpi_rma::Assert { no_succeed: true, ..mpi_rma::Assert::default() };
        error::ok_in(&self.0.core, self.0.core.fence(assert).map_err(WindowError::from));
    }

    /// Frees the window. Collective.
    #[track_caller]
    pub fn free(self) {
        self.0.free();
    }
}

impl<T: AtomicElement> SharedWindow<T> {
    /// A rank's part as atomics.
    ///
    /// # Errors
    /// No such rank; the part is not aligned, since a rank before it has an odd number of bytes.
    pub fn atomics(&self, of: Rank) -> Result<&[T::Atomic], WindowError> {
        let (base, len) = self.part(of)?;
        if len == 0 {
            return Ok(&[]);
        }
        // SAFETY: mapped for as long as the window lives; the same layout by the trait's promise; aligned, as every
        // part is a whole number of elements behind a multiple of 64 bytes. Other processes reach it as atomics too,
        // or by the operations of a window.
        Ok(unsafe { std::slice::from_raw_parts(base.cast(), len) })
    }
}
