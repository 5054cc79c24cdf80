//! Parts of arrays: `subarray` and `distributed_array`.

use crate::build::{Part, build, finish, fit};
use crate::datatype::Bounds;
use crate::{ArrayOrder, Constructor, Datatype, DatatypeError, Distribution};

type Result<T> = std::result::Result<T, DatatypeError>;

impl Datatype {
    /// The part `subsizes` from `starts` of an array of `sizes` elements (`MPI_Type_create_subarray`).
    /// The extent is that of the whole array.
    ///
    /// # Errors
    /// Arrays of different lengths or empty, a part that does not lie inside the whole, and see
    /// [`contiguous`](Datatype::contiguous).
    pub fn subarray(
        sizes: &[usize],
        subsizes: &[usize],
        starts: &[usize],
        order: ArrayOrder,
        of: &Datatype,
    ) -> Result<Datatype> {
        const WHAT: &str = "subarray";
        dimensions(WHAT, sizes, &[("subsizes", subsizes.len()), ("starts", starts.len())])?;
        for d in 0..sizes.len() {
            let inside =
                subsizes[d] >= 1 && starts[d].checked_add(subsizes[d]).is_some_and(|e| e <= sizes[d]);
            if !inside {
                let detail =
                    format!("dimension {d}: {} elements from {} of {}", subsizes[d], starts[d], sizes[d]);
                return Err(DatatypeError::Argument { what: WHAT, detail });
            }
        }
        let made = Constructor::Subarray {
            sizes: sizes.to_vec(),
            subsizes: subsizes.to_vec(),
            starts: starts.to_vec(),
            order,
            of: of.clone(),
        };
        let mut inner = of.clone();
        let mut extent = of.extent() as i128;
        for d in inner_to_outer(sizes.len(), order) {
            let start = fit(starts[d] as i128 * extent, "displacement in a subarray")?;
            let row = Datatype::hvector(subsizes[d], 1, fit(extent, "extent of a subarray")?, &inner)?;
            inner = Datatype::hindexed_block(1, &[start], &row)?;
            extent = extent.saturating_mul(sizes[d] as i128);
        }
        whole(&inner, extent, made)
    }

    /// What process `rank` of `size` holds of an array of `sizes` elements dealt out over a grid of
    /// `processes` (`MPI_Type_create_darray`); ranks in the grid are in C order, whatever `order`
    /// says of the elements.
    ///
    /// # Errors
    /// Arrays of different lengths or empty, a grid that is not of `size` processes, a rank outside,
    /// blocks that do not reach, and see [`contiguous`](Datatype::contiguous).
    pub fn distributed_array(
        size: usize,
        rank: usize,
        sizes: &[usize],
        distributions: &[Distribution],
        processes: &[usize],
        order: ArrayOrder,
        of: &Datatype,
    ) -> Result<Datatype> {
        const WHAT: &str = "distributed array";
        let bad = |detail: String| Err(DatatypeError::Argument { what: WHAT, detail });
        dimensions(WHAT, sizes, &[("distributions", distributions.len()), ("processes", processes.len())])?;
        let grid = processes.iter().try_fold(1usize, |n, p| n.checked_mul(*p));
        if grid != Some(size) || rank >= size {
            return bad(format!("rank {rank} of {size} on a grid of {processes:?}"));
        }
        let mut coordinates = vec![0; sizes.len()];
        let mut rest = rank;
        for d in (0..sizes.len()).rev() {
            coordinates[d] = rest % processes[d];
            rest /= processes[d];
        }
        let mut inner = of.clone();
        let mut extent = of.extent() as i128;
        for d in inner_to_outer(sizes.len(), order) {
            let (n, p) = (sizes[d], processes[d]);
            let block = match distributions[d] {
                Distribution::Whole if p == 1 => n.max(1),
                Distribution::Block(None) => n.div_ceil(p).max(1),
                Distribution::Block(Some(b)) if b >= 1 && b.checked_mul(p).is_none_or(|all| all >= n) => b,
                Distribution::Cyclic(None) => 1,
                Distribution::Cyclic(Some(b)) if b >= 1 => b,
                other => return bad(format!("dimension {d}: {other:?} of {n} elements over {p} processes")),
            };
            inner = dealt(n, p, coordinates[d], block, extent, &inner)?;
            extent = extent.saturating_mul(n as i128);
        }
        let made = Constructor::DistributedArray {
            size,
            rank,
            sizes: sizes.to_vec(),
            distributions: distributions.to_vec(),
            processes: processes.to_vec(),
            order,
            of: of.clone(),
        };
        whole(&inner, extent, made)
    }
}

/// The elements of one dimension (`n` of `extent` bytes) that process `me` of `p` gets when blocks of `block` are
/// dealt out in turn.
fn dealt(n: usize, p: usize, me: usize, block: usize, extent: i128, of: &Datatype) -> Result<Datatype> {
    let fit = |v: i128| fit(v, "displacement in a distributed array");
    let row = |count: usize| Datatype::hvector(count, 1, fit(extent)?, of);
    let (first, round) = (me as u128 * block as u128, p as u128 * block as u128);
    let left = (n as u128).saturating_sub(first);
    // Whole blocks, then at most one that the end of the dimension cuts.
    let full = (left / round) + u128::from(left % round >= block as u128);
    let cut = if left % round < block as u128 { (left % round) as usize } else { 0 };
    let at = |k: u128| fit((first + k * round) as i128 * extent);
    let blocks = Datatype::hvector(full as usize, 1, fit(round as i128 * extent)?, &row(block.min(n))?)?;
    let tail = row(cut)?;
    let mut parts = Vec::new();
    if full > 0 {
        parts.push(Part { block: 1, displacement: at(0)?, of: &blocks });
    }
    if cut > 0 {
        parts.push(Part { block: 1, displacement: at(full)?, of: &tail });
    }
    build(&parts, Constructor::Contiguous { count: 1, of: of.clone() })
}

fn dimensions(what: &'static str, sizes: &[usize], others: &[(&'static str, usize)]) -> Result<()> {
    if sizes.is_empty() {
        return Err(DatatypeError::Argument { what, detail: "no dimensions".to_owned() });
    }
    if let Some(&(right_name, right)) = others.iter().find(|o| o.1 != sizes.len()) {
        return Err(DatatypeError::Lengths {
            what,
            left: sizes.len(),
            left_name: "sizes",
            right,
            right_name,
        });
    }
    Ok(())
}

fn inner_to_outer(dimensions: usize, order: ArrayOrder) -> impl Iterator<Item = usize> {
    (0..dimensions).map(move |i| if order == ArrayOrder::C { dimensions - 1 - i } else { i })
}

/// `part` with the bounds of the whole array.
fn whole(part: &Datatype, extent: i128, made: Constructor) -> Result<Datatype> {
    let ub = fit(extent, "extent of an array")?;
    finish(Bounds { lb: 0, ub, lb_set: true, ub_set: true, ..part.bounds() }, part, made)
}
