//! A simulated endpoint as a backend that an engine can open.

use crate::Net;
use mpi_btl::{Btl, OpenEnv, OpenError, Opened};

/// One endpoint of a [`Net`].
pub struct SimBtl {
    pub(crate) net: Net,
    pub(crate) index: usize,
}

impl SimBtl {
    /// The backend's name.
    pub const NAME: &str = "sim";
}

impl Btl for SimBtl {
    fn name(&self) -> &'static str {
        SimBtl::NAME
    }
    fn priority(&self) -> i32 {
        0
    }
    /// # Panics
    /// When the endpoint was taken before.
    fn open(&self, _env: &OpenEnv) -> Result<Opened, OpenError> {
        let (tx, rx) = self.net.endpoint(self.index);
        Ok(Opened { tx, rx, address: Some((self.index as u32).to_le_bytes().to_vec()) })
    }
}
