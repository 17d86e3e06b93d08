//! Fetching, end to end: the real binary on an empty home folder, with the real pip, and with stand-ins for Python that
//! fail in chosen ways.
//!
//! Where real wheels are needed, pip takes them from a folder below `target` that is filled from the registry once.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod home;

mod faults;
mod interruption;
mod real;
