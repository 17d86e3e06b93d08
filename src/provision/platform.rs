//! What fetching needs from the operating system, behind one interface: a child that can be ended with all that it started.

#[cfg(unix)]
#[path = "platform/unix.rs"]
mod system;
#[cfg(windows)]
#[path = "platform/windows.rs"]
mod system;

pub use system::{end_child, own_group};
