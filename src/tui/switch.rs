//! The driver's part in changing the model: asks for the list, loads another one beside or in place of the old one.
//!
//! The old engine answers until the new one is there, and finishes its answer even then; only where there is no room for
//! both is it given up first.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use tokio::sync::mpsc::UnboundedSender;

use super::backend::{Backend, Models, OpenedModel, RefusedModel, Tell};
use super::driver::Message;
use super::event::Event;

/// An engine that is to be dropped where nobody waits for it: its threads may take a moment to end.
type Engine = Option<Arc<dyn Backend>>;

/// What the thread that loads a model says.
pub enum Switch {
    /// It needs the memory of the engine that answers, which is to be sent there.
    Release(Sender<Engine>),
    Opened(OpenedModel),
    Refused(RefusedModel),
}

pub struct Switcher {
    models: Option<Arc<dyn Models>>,
    /// Has lent its place and finishes its answer.
    retiring: Engine,
    opening: Option<JoinHandle<()>>,
}

impl Switcher {
    pub fn new(models: Option<Arc<dyn Models>>) -> Self {
        Self { models, retiring: None, opening: None }
    }

    pub fn list(&self, sender: UnboundedSender<Message>) -> io::Result<()> {
        let Some(models) = self.models.clone() else { return Ok(()) };
        std::thread::Builder::new().name("models".into()).spawn(move || {
            let listed = catch_unwind(AssertUnwindSafe(|| models.list()))
                .unwrap_or_else(|_| Err("looking for models broke; the log says where".to_string()));
            let _ = sender.send(Message::Event(Event::ModelsListed(listed)));
        })?;
        Ok(())
    }

    pub fn open(&mut self, name: String, sender: UnboundedSender<Message>) -> io::Result<()> {
        let Some(models) = self.models.clone() else { return Ok(()) };
        let thread = std::thread::Builder::new().name("load".into()).spawn(move || {
            let release = || {
                let (give, given) = channel();
                let _ = sender.send(Message::Switch(Switch::Release(give)));
                drop(given.recv());
            };
            let heard = sender.clone();
            let tell: Tell = Arc::new(move |stage| {
                let _ = heard.send(Message::Event(Event::ModelStage(stage)));
            });
            let opened = catch_unwind(AssertUnwindSafe(|| models.open(&name, &tell, &release))).unwrap_or_else(|_| {
                Err(RefusedModel { error: "loading the model broke; the log says where".to_string(), instead: None })
            });
            let _ = sender.send(Message::Switch(match opened {
                Ok(opened) => Switch::Opened(opened),
                Err(refused) => Switch::Refused(refused),
            }));
        })?;
        self.opening = Some(thread);
        Ok(())
    }

    /// Keeps an engine whose place was taken until its answer is over.
    pub fn retire(&mut self, old: Engine, is_answering: bool) {
        self.retiring = old;
        if !is_answering {
            self.end_of_answer();
        }
    }

    pub fn end_of_answer(&mut self) {
        if let Some(old) = self.retiring.take() {
            // Without a thread it is dropped here, which takes longer and does the same.
            let _ = std::thread::Builder::new().name("unload".into()).spawn(move || drop(old));
        }
    }

    /// The thread that loads a model, if one does.
    pub fn into_loading(self) -> Option<JoinHandle<()>> {
        self.opening
    }
}
