//! `ortalk pull`, `ortalk models` and models' names, with the real binary against a server that speaks the Hub's protocol on
//! this machine and fails in chosen ways.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod end_to_end;
mod faults;
mod interop;
mod models;
mod pull;
mod server;
mod user;
