//! The thread that writes the open conversation down, so that no disk stops the screen.
//!
//! Orders are carried out in their order. What cannot be written stays in memory and is tried again with the next order,
//! and the first failure is told once.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use chrono::Utc;

use super::file::Appender;
use super::record::Record;
use super::{Store, StoreError, Stored};

/// How long the last lines may take when the program ends.
const PATIENCE: Duration = Duration::from_secs(2);

enum Order {
    Keep(Record),
    Open(String),
    Close,
    Rename(String, String),
    Delete(String),
    Undelete(String),
}

/// What the thread has to say.
#[derive(Debug, Clone, PartialEq)]
pub enum Report {
    /// The conversation has a file, and this name.
    Begun(String),
    Opened(Box<Opened>),
    /// It could not be opened; the conversation that was open still is.
    NotOpened(String),
    Renamed {
        id: String,
    },
    Deleted {
        id: String,
    },
    Undeleted {
        id: String,
    },
    /// What one of these three came to nothing by.
    Failed(String),
    /// The conversation cannot be written down; said once.
    NotKept(String),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Opened {
    pub stored: Stored,
    /// Another program writes to the conversation: this is a copy, with a name of its own.
    pub is_copy: bool,
}

/// The way to the thread. Dropping it waits until all is written, within reason.
pub struct Keeper {
    orders: Option<Sender<Order>>,
    sent: u64,
    done: Arc<Done>,
    /// A disk that did not answer in time is not waited for again until it has.
    is_late: bool,
    thread: Option<JoinHandle<()>>,
}

/// How many orders were carried out.
#[derive(Default)]
struct Done {
    count: Mutex<u64>,
    changed: Condvar,
}

impl Done {
    fn add_one(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changed.notify_all();
    }

    /// Whether so many are done within this time.
    fn wait(&self, count: u64, limit: Duration) -> bool {
        let done = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(done, limit, |done| *done < count);
        let (done, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *done >= count
    }
}

impl Keeper {
    /// `report` is called on the thread.
    pub fn start(store: Store, report: impl FnMut(Report) + Send + 'static) -> std::io::Result<Self> {
        let (orders, received) = channel();
        let done = Arc::new(Done::default());
        let worker = Worker {
            store,
            report: Box::new(report),
            file: None,
            waiting: Vec::new(),
            complained: false,
            done: done.clone(),
        };
        let thread = std::thread::Builder::new().name("keeper".into()).spawn(move || worker.run(&received))?;
        Ok(Self { orders: Some(orders), sent: 0, done, is_late: false, thread: Some(thread) })
    }

    /// Appends to the open conversation; where there is none, a new one begins.
    pub fn keep(&mut self, record: Record) {
        self.order(Order::Keep(record));
    }

    /// Goes on with this conversation in place of the open one.
    pub fn open(&mut self, id: String) {
        self.order(Order::Open(id));
    }

    /// What comes next begins a new conversation.
    pub fn close(&mut self) {
        self.order(Order::Close);
    }

    /// Another conversation than the open one.
    pub fn rename(&mut self, id: String, title: String) {
        self.order(Order::Rename(id, title));
    }

    /// The open one is closed by it.
    pub fn delete(&mut self, id: String) {
        self.order(Order::Delete(id));
    }

    pub fn undelete(&mut self, id: String) {
        self.order(Order::Undelete(id));
    }

    /// Waits until all orders are carried out: what is shown is then written. False where that takes longer than `limit`;
    /// then nobody waits any more until the thread has caught up.
    pub fn settle(&mut self, limit: Duration) -> bool {
        let limit = if self.is_late { Duration::ZERO } else { limit };
        let settled = self.done.wait(self.sent, limit);
        self.is_late = !settled;
        settled
    }

    fn order(&mut self, order: Order) {
        if let Some(orders) = &self.orders
            && orders.send(order).is_ok()
        {
            self.sent += 1;
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.orders = None;
        if self.done.wait(self.sent, PATIENCE)
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

struct Worker {
    store: Store,
    report: Box<dyn FnMut(Report) + Send>,
    file: Option<Appender>,
    /// Lines that are not written yet.
    waiting: Vec<u8>,
    complained: bool,
    done: Arc<Done>,
}

impl Worker {
    fn run(mut self, orders: &Receiver<Order>) {
        self.store.tidy();
        for order in orders {
            let ends = matches!(order, Order::Keep(Record::End { .. }));
            self.carry_out(order);
            self.done.add_one();
            // Nobody waits for this: a kill loses nothing that was written, only a power cut does.
            if ends {
                let synced = self.sync();
                self.complain(synced);
            }
        }
        self.close();
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Keep(record) => {
                self.waiting.extend(record.line().into_bytes());
                let kept = self.write();
                self.complain(kept);
            }
            Order::Open(id) => match self.open(&id) {
                Ok(opened) => (self.report)(Report::Opened(Box::new(opened))),
                Err(error) => (self.report)(Report::NotOpened(error.to_string())),
            },
            Order::Close => self.close(),
            Order::Rename(id, title) => {
                let renamed = self.store.rename(&id, &title);
                self.tell(renamed, Report::Renamed { id });
            }
            Order::Delete(id) => {
                if self.file.as_ref().is_some_and(|file| file.id() == id) {
                    self.close();
                }
                let deleted = self.store.delete(&id);
                self.tell(deleted, Report::Deleted { id });
            }
            Order::Undelete(id) => {
                let undeleted = self.store.undelete(&id);
                self.tell(undeleted, Report::Undeleted { id });
            }
        }
    }

    fn tell(&mut self, result: Result<(), StoreError>, report: Report) {
        (self.report)(match result {
            Ok(()) => report,
            Err(error) => Report::Failed(error.to_string()),
        });
    }

    fn complain(&mut self, result: Result<(), StoreError>) {
        if let Err(error) = result
            && !std::mem::replace(&mut self.complained, true)
        {
            (self.report)(Report::NotKept(error.to_string()));
        }
    }

    /// What waits, into the open file, or into a new one.
    fn write(&mut self) -> Result<(), StoreError> {
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let now = Utc::now();
                let seed = (now.timestamp_subsec_micros() ^ std::process::id()) as u16;
                let begun = self.store.begin(now, seed)?;
                (self.report)(Report::Begun(begun.id().to_owned()));
                none.insert(begun)
            }
        };
        let path = file.path().to_path_buf();
        file.write(&mut self.waiting).map_err(StoreError::io(&path, "written"))
    }

    fn sync(&self) -> Result<(), StoreError> {
        let Some(file) = &self.file else { return Ok(()) };
        file.sync().map_err(StoreError::io(file.path(), "written"))
    }

    fn close(&mut self) {
        if !self.waiting.is_empty() {
            let written = self.write();
            self.complain(written);
            self.waiting.clear();
        }
        self.file = None;
    }

    fn open(&mut self, id: &str) -> Result<Opened, StoreError> {
        if self.file.as_ref().is_some_and(|file| file.id() == id) {
            return Ok(Opened { stored: self.store.load(id)?, is_copy: false });
        }
        // The lock first: what another program writes after the reading would be missing.
        let locked = self.store.open(id);
        let mut stored = self.store.load(id)?;
        match locked? {
            Some(file) => {
                self.close();
                self.file = Some(file);
                Ok(Opened { stored, is_copy: false })
            }
            None => {
                self.close();
                stored.say_unfinished();
                self.waiting = stored.tree.records().iter().flat_map(|record| record.line().into_bytes()).collect();
                self.write()?;
                let id = self.file.as_ref().map_or_else(String::new, |file| file.id().to_owned());
                Ok(Opened { stored: Stored { id, ..stored }, is_copy: true })
            }
        }
    }
}
