//! What goes on around the composer: files that are offered, being read, or to be sent as what was typed.

use super::offer::Offer;

#[derive(Debug, Default)]
pub struct Writing {
    /// Paths that are offered.
    pub offer: Option<Offer>,
    /// The place of an `@` at which nothing is offered any more: the reader did not want it.
    pub dismissed: Option<usize>,
    /// Files that are being read.
    pub reading: Vec<String>,
    /// The message is to be sent as soon as they are.
    pub sending: bool,
    /// Why the message is not sent: files that could not be read meanwhile.
    pub refused: Vec<String>,
    /// What looks like a file and is sent as it was typed.
    pub literal: Vec<String>,
}

impl Writing {
    /// There are paths to choose from.
    pub fn offers(&self) -> bool {
        self.offer.as_ref().is_some_and(Offer::offers)
    }
}
