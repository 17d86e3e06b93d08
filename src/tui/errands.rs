//! Work for the composer that takes its time: each errand has a thread of its own, and its event when it is done.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use super::attach;
use super::backend::Backend;
use super::composer::Inset;
use super::event::Event;
use super::history_file::HistoryFile;

/// Sends an event to the driver.
pub trait Report: Fn(Event) + Clone + Send + 'static {}
impl<F: Fn(Event) + Clone + Send + 'static> Report for F {}

pub struct Errands {
    start: Box<dyn Fn(&'static str, Errand) -> io::Result<()>>,
    history: Option<HistoryFile>,
}

/// What a thread does; nothing is reported where there is nothing to say.
type Errand = Box<dyn FnOnce() -> Option<Event> + Send>;

impl Errands {
    /// Reads the history, too, where there is to be one.
    pub fn new(report: impl Report, history: Option<PathBuf>) -> io::Result<Self> {
        let (loaded, failed) = (report.clone(), report.clone());
        let open = |path| {
            HistoryFile::open(
                path,
                move |earlier| loaded(Event::HistoryLoaded(earlier)),
                move |error| failed(Event::HistoryLost(error)),
            )
        };
        let history = history.map(open).transpose()?;
        let start = move |name: &str, errand: Errand| {
            let report = report.clone();
            std::thread::Builder::new().name(name.into()).spawn(move || {
                // What breaks is in the log.
                if let Ok(Some(event)) = catch_unwind(AssertUnwindSafe(errand)) {
                    report(event);
                }
            })?;
            Ok(())
        };
        Ok(Self { start: Box::new(start), history })
    }

    pub fn count(&self, backend: Option<&Arc<dyn Backend>>, inset: Arc<Inset>) -> io::Result<()> {
        let Some(backend) = backend.cloned() else { return Ok(()) };
        let count = move || Some(Event::Counted { id: inset.id, tokens: backend.count_tokens(&inset.content)? });
        (self.start)("count", Box::new(count))
    }

    pub fn list(&self, folder: String) -> io::Result<()> {
        (self.start)("list", Box::new(move || Some(Event::FolderListed { paths: attach::list(&folder), folder })))
    }

    pub fn read(&self, mentioned: String) -> io::Result<()> {
        (self.start)("read", Box::new(move || Some(Event::FileRead { result: attach::read(&mentioned), mentioned })))
    }

    pub fn remember(&self, message: String) {
        self.history.iter().for_each(|history| history.remember(message.clone()));
    }
}
