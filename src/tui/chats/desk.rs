//! Performs the effects that concern kept conversations: writing on the keeper's thread, searching on another.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use chrono::{DateTime, Local, NaiveDate};

use super::{News, Row, Wish};
use crate::store::keeper::{Keeper, Report};
use crate::store::{Found, Library, Store};

/// What is drawn is written before, unless the disk takes longer than this.
const PATIENCE: Duration = Duration::from_millis(250);

/// The driver's way to the kept conversations.
pub struct Shelf {
    store: Store,
    keeper: Keeper,
    searches: Sender<String>,
}

type Tell = dyn Fn(News) + Send + Sync;

impl Shelf {
    /// `tell` is called on other threads.
    pub fn open(store: Store, tell: impl Fn(News) + Send + Sync + 'static) -> io::Result<Self> {
        let tell: std::sync::Arc<Tell> = std::sync::Arc::new(tell);
        let keeper = Keeper::start(store.clone(), {
            let tell = tell.clone();
            move |report| tell(News::Kept(report))
        })?;
        let (searches, asked) = channel();
        let library = Library::new(store.clone());
        std::thread::Builder::new().name("library".into()).spawn(move || search(library, &asked, &*tell))?;
        Ok(Self { store, keeper, searches })
    }

    /// What was done already is told at once.
    pub fn perform(&mut self, wish: Wish) -> Option<News> {
        match wish {
            Wish::Keep(record) => self.keeper.keep(record),
            Wish::Close => self.keeper.close(),
            Wish::Open { id, writes: true } => self.keeper.open(id),
            Wish::Open { id, writes: false } => {
                return Some(News::Kept(match self.store.look(&id) {
                    Ok(stored) => Report::Opened(Box::new(crate::store::keeper::Opened { stored, is_copy: false })),
                    Err(error) => Report::NotOpened(error.to_string()),
                }));
            }
            Wish::Rename { id, title } => self.keeper.rename(id, title),
            Wish::Delete(id) => self.keeper.delete(id),
            Wish::Undelete(id) => self.keeper.undelete(id),
            Wish::Find(words) => drop(self.searches.send(words)),
            Wish::Export { file, text } => return Some(News::Exported(export(Path::new(&file), &text))),
        }
        None
    }

    /// Waits for the disk, within reason: a kill now loses nothing that is on the screen.
    pub fn settle(&mut self) {
        self.keeper.settle(PATIENCE);
    }
}

fn search(mut library: Library, asked: &Receiver<String>, tell: &Tell) {
    while let Ok(mut words) = asked.recv() {
        // Only the latest question counts.
        while let Ok(later) = asked.try_recv() {
            words = later;
        }
        let today = Local::now();
        let row = |found: Found| Row { when: when(found.changed.with_timezone(&Local), today), found };
        let found = library.find(&words);
        let rows = found.map(|all| all.into_iter().map(row).collect()).map_err(|error| error.to_string());
        tell(News::Found { words, rows });
    }
}

/// The day and time as people say it.
fn when<Zone: chrono::TimeZone>(moment: DateTime<Zone>, now: DateTime<Zone>) -> String
where
    Zone::Offset: std::fmt::Display,
{
    let (day, today): (NaiveDate, NaiveDate) = (moment.date_naive(), now.date_naive());
    match (today - day).num_days() {
        0 => moment.format("today %H:%M").to_string(),
        1 => moment.format("yesterday %H:%M").to_string(),
        _ => moment.format("%Y-%m-%d %H:%M").to_string(),
    }
}

/// A new file; one that is there stays as it is.
fn export(file: &Path, text: &str) -> Result<String, String> {
    let whole = whole_path(file);
    let shown = whole.display();
    let mut options = File::options();
    let written = options.write(true).create_new(true).open(&whole).map(|mut file| {
        // A piece of a file would stand in the way of the next try.
        file.write_all(text.as_bytes()).inspect_err(|_| drop(std::fs::remove_file(&whole)))
    });
    match written.flatten() {
        Ok(()) => Ok(shown.to_string()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(format!("'{shown}' is there already; give another name"))
        }
        Err(error) => Err(format!("'{shown}' cannot be written: {error}")),
    }
}

/// `~/` is the home folder, as in a shell.
fn whole_path(file: &Path) -> PathBuf {
    let home = || directories::BaseDirs::new().map(|dirs| dirs.home_dir().to_path_buf());
    let file = match (file.strip_prefix("~"), home()) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => file.to_path_buf(),
    };
    std::path::absolute(&file).unwrap_or(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_named_as_people_do() {
        let at = |text: &str| DateTime::parse_from_rfc3339(text).unwrap();
        let now = at("2026-03-04T00:30:00+01:00");
        for (moment, expected) in [
            ("2026-03-04T00:05:00+01:00", "today 00:05"),
            ("2026-03-03T23:59:59+01:00", "yesterday 23:59"),
            ("2026-03-02T12:00:00+01:00", "2026-03-02 12:00"),
            // A clock that was put back.
            ("2026-03-05T12:00:00+01:00", "2026-03-05 12:00"),
        ] {
            assert_eq!(when(at(moment), now), expected);
        }
    }

    #[test]
    fn a_file_that_is_there_is_not_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.md");
        assert_eq!(export(&file, "one"), Ok(file.display().to_string()));
        let error = export(&file, "two").unwrap_err();
        assert!(error.contains("a.md' is there already"), "{error}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "one");
        assert!(export(&dir.path().join("no/such/a.md"), "x").unwrap_err().contains("cannot be written"));
    }
}
