//! What the kernel knows of a terminal and no safe wrapper asks it.

use std::os::fd::{AsRawFd, BorrowedFd};

/// Rows and columns of a terminal; `None` where `fd` is none, or does not know.
#[must_use]
pub fn size(fd: BorrowedFd<'_>) -> Option<(u16, u16)> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the request fills a whole winsize, which lives here; an fd that is no terminal gives ENOTTY.
    let asked = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    (asked == 0 && size.ws_row > 0 && size.ws_col > 0).then_some((size.ws_row, size.ws_col))
}

/// Gives a terminal so many rows and columns; the kernel tells the programs in it. An `fd` that is no terminal
/// stays as it is.
pub fn set_size(fd: BorrowedFd<'_>, (rows, columns): (u16, u16)) {
    let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the request reads a whole winsize, which lives here; an fd that is no terminal gives ENOTTY.
    let _ = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    #[test]
    fn a_file_has_no_size() {
        assert_eq!(super::size(std::fs::File::open("/dev/null").unwrap().as_fd()), None);
    }
}
