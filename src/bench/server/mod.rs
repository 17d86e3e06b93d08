//! Loads a server that speaks OpenAI's HTTP interface with real prompts over its streaming chat, as so many clients at once
//! would, and reports what they saw.
//!
//! A **level** is one number of clients. Each of them asks, reads the answer to its end, and asks again, until the level's
//! requests are used up (a closed loop): so the server is never given more at once than that. All requests of a run differ,
//! and differ in their first words, so that no prefix cache answers what it has seen. Answers are greedy, and end where the
//! model ends them or at the plan's tokens.
//!
//! | number | definition |
//! | --- | --- |
//! | TTFT | from sending the request to its first piece with text: what a client waits, queue and network included |
//! | inter-token latency | the time between two pieces with text; a server may put several tokens into one |
//! | TPOT | the time from the first piece to the last by one token less than the answer has |
//! | request | from sending it to the end of its answer |
//! | tokens/s | the answers' tokens of a level by its time: from its first request to the end of its last |
//! | requests/s | its completed requests by that time |
//!
//! Tokens are counted by the server (`usage`); where it does not say, pieces are counted, and the number is an estimate.
//! Requests that failed count as errors, by kind, and nowhere else.

mod load;
mod prompts;
mod report;

pub use load::{ServerError, load};
pub use report::{Asker, ErrorCount, Failure, Level, ServerPlan, ServerReport, Shot};
