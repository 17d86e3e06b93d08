use std::sync::mpsc;

use pretty_assertions::assert_eq;

use super::keeper::{Keeper, Opened, Report};
use super::record::tests::{answer, end, question, text, then};
use super::*;

fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::new(dir.path().join("data/chats"));
    (dir, store)
}

fn keeper(store: &Store) -> (Keeper, mpsc::Receiver<Report>) {
    let (sender, reports) = mpsc::channel();
    let keeper = Keeper::start(store.clone(), move |report| drop(sender.send(report))).unwrap();
    (keeper, reports)
}

/// Keeps these and returns the conversation's name.
fn kept(store: &Store, records: &[Record]) -> String {
    let (mut keeper, reports) = keeper(store);
    records.iter().for_each(|record| keeper.keep(record.clone()));
    drop(keeper);
    let Ok(Report::Begun(id)) = reports.recv() else { panic!("it did not begin") };
    id
}

#[test]
fn a_conversation_is_written_as_it_comes_and_read_again() {
    let (_dir, store) = store();
    assert_eq!(store.list().unwrap(), []);
    assert!(store.find(None).unwrap_err().to_string().contains("no conversation is kept here"));
    let (mut keeper, reports) = keeper(&store);
    keeper.keep(question(0, None, "Of France?"));
    assert!(keeper.settle(Duration::from_secs(20)));
    let Ok(Report::Begun(id)) = reports.try_recv() else { panic!("it did not begin") };
    for (number, record) in [answer(1, 0), text(1, "Pa"), text(1, "ris"), end(1, "stop")].into_iter().enumerate() {
        keeper.keep(record);
        assert!(keeper.settle(Duration::from_secs(20)));
        let lines = fs::read_to_string(store.path(&id)).unwrap();
        assert_eq!(lines.lines().count(), 3 + number, "{lines}");
    }
    let stored = store.load(&id).unwrap();
    assert_eq!(stored.tree.path()[1].text, "Paris");
    assert_eq!(store.find(None).unwrap(), id);
}

#[cfg(unix)]
#[test]
fn files_are_for_their_user_alone() {
    use std::os::unix::fs::PermissionsExt;
    let (_dir, store) = store();
    let id = kept(&store, &[question(0, None, "secret")]);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&store.path(&id)), mode(store.folder())), (0o600, 0o700));
}

#[test]
fn two_programs_on_one_conversation_do_not_mix() {
    let (_dir, store) = store();
    let (mut first, reports) = keeper(&store);
    first.keep(question(0, None, "shared"));
    assert!(first.settle(Duration::from_secs(20)));
    let Ok(Report::Begun(id)) = reports.try_recv() else { panic!("it did not begin") };

    let (mut second, reports) = keeper(&store);
    second.open(id.clone());
    let Ok(Report::Begun(copy)) = reports.recv() else { panic!("no copy") };
    let Ok(Report::Opened(opened)) = reports.recv() else { panic!("not opened") };
    assert!(opened.is_copy && opened.stored.id == copy && copy != id);
    first.keep(question(1, Some(0), "in the first"));
    second.keep(question(1, Some(0), "in the second"));
    assert!(matches!(store.rename(&id, "x"), Err(StoreError::Busy(_))));
    assert!(matches!(store.delete(&id), Err(StoreError::Busy(_))));
    drop((first, second));
    let last = |id: &str| store.load(id).unwrap().tree.path().last().unwrap().text.clone();
    assert_eq!((last(&id), last(&copy)), ("in the first".to_owned(), "in the second".to_owned()));

    // Once nobody has it open any more, it is gone on with.
    let (mut third, reports) = keeper(&store);
    third.open(id.clone());
    let Ok(Report::Opened(opened)) = reports.recv() else { panic!("not opened") };
    assert_eq!(*opened, Opened { stored: store.load(&id).unwrap(), is_copy: false });
}

/// What is not known is not said: the other program may be answering, or was killed in the middle before.
#[test]
fn an_answer_that_another_program_writes_is_not_called_cut() {
    let (_dir, store) = store();
    let (mut first, reports) = keeper(&store);
    for record in [question(0, None, "q"), answer(1, 0), text(1, "begin")] {
        first.keep(record);
    }
    assert!(first.settle(Duration::from_secs(20)));
    let Ok(Report::Begun(id)) = reports.try_recv() else { panic!("it did not begin") };
    let note = |stored: &Stored| export::note(stored.tree.path()[1]).unwrap();
    let expected = "unfinished: another ortalk was still writing to this conversation";
    assert_eq!(note(&store.look(&id).unwrap()), expected);

    let (mut second, reports) = keeper(&store);
    second.open(id.clone());
    let Ok(Report::Begun(copy)) = reports.recv() else { panic!("no copy") };
    drop((first, second));
    assert_eq!(note(&store.load(&copy).unwrap()), expected);
    assert_eq!(note(&store.look(&id).unwrap()), "cut: ortalk ended while it was written");
}

#[test]
fn a_conversation_without_a_message_is_gone_and_comes_back_with_the_last_one() {
    let (_dir, store) = store();
    let whole = kept(&store, &[question(0, None, "whole")]);
    std::thread::sleep(Duration::from_millis(20));
    let id =
        kept(&store, &[question(0, None, "one"), answer(1, 0), text(1, "first"), Record::Delete(1), Record::Delete(0)]);
    assert_eq!(store.find(None).unwrap(), whole);
    store.delete(&id).unwrap();
    store.undelete(&id).unwrap();
    let texts = |id: &str| -> Vec<String> {
        store.load(id).unwrap().tree.path().iter().map(|message| message.text.clone()).collect()
    };
    assert_eq!(texts(&id), ["one"]);
    assert_eq!(store.find(None).unwrap(), id);
}

#[test]
fn a_line_that_a_kill_cut_is_closed_by_the_next_program() {
    let (_dir, store) = store();
    let id = kept(&store, &[question(0, None, "q"), answer(1, 0), text(1, "a"), text(1, "lost")]);
    let bytes = fs::read(store.path(&id)).unwrap();
    fs::write(store.path(&id), &bytes[..bytes.len() - 9]).unwrap();
    let (mut keeper, _reports) = keeper(&store);
    keeper.open(id.clone());
    keeper.keep(Record::Continue { id: 1 });
    keeper.keep(text(1, "b"));
    drop(keeper);
    let stored = store.load(&id).unwrap();
    assert_eq!((stored.tree.path()[1].text.as_str(), stored.left_out.damaged), ("ab", 1));
}

#[test]
fn what_is_deleted_can_be_had_back_for_a_while() {
    let (_dir, store) = store();
    let id = kept(&store, &[question(0, None, "q")]);
    let whole = store.load(&id).unwrap();
    store.delete(&id).unwrap();
    assert!(store.load(&id).is_err());
    assert_eq!((store.list().unwrap().len(), store.list_deleted().unwrap().len()), (0, 1));
    assert!(store.find(Some(&id)).unwrap_err().to_string().contains(&format!("no conversation has '{id}'")));
    assert_eq!(store.find_deleted(&id[4..]).unwrap(), id);
    store.undelete(&id).unwrap();
    assert_eq!(store.load(&id).unwrap(), whole);

    store.delete(&id).unwrap();
    store.tidy();
    assert_eq!(store.list_deleted().unwrap().len(), 1);
    let file = fs::File::options().append(true).open(store.deleted_path(&id)).unwrap();
    file.set_modified(SystemTime::now() - KEPT - Duration::from_secs(60)).unwrap();
    store.tidy();
    assert_eq!(store.list_deleted().unwrap(), []);
}

#[test]
fn a_part_of_a_name_will_do_where_it_is_enough() {
    let (_dir, store) = store();
    let ids: Vec<String> = (1..=5).map(|seed| store.begin(then(), seed).unwrap().id().to_owned()).collect();
    assert_eq!(store.find(Some("0003")).unwrap(), ids[2]);
    assert_eq!(store.find(Some(&ids[1])).unwrap(), ids[1]);
    let error = store.find(Some("000")).unwrap_err().to_string();
    assert!(error.starts_with("'000' may be ") && error.ends_with(", others; give more of the name"), "{error}");
    assert!(matches!(store.find(Some("")), Err(StoreError::Unknown(_))));
    // The same second and the same seed are two conversations.
    assert_ne!(store.begin(then(), 3).unwrap().id(), ids[2]);
}

#[test]
fn foreign_and_newer_files_are_told_apart_from_conversations() {
    let (_dir, store) = store();
    let id = kept(&store, &[question(0, None, "q")]);
    fs::write(store.path("notes"), "{\"kind\":\"note\"}\n").unwrap();
    assert!(matches!(store.load("notes"), Err(StoreError::Foreign(_))));
    let newer = fs::read_to_string(store.path(&id)).unwrap().replace("\"v\":1", "\"v\":2");
    fs::write(store.path(&id), newer).unwrap();
    let error = store.load(&id).unwrap_err().to_string();
    assert!(error.contains("a newer ortalk (format 2, this one reads 1)"), "{error}");
}

#[test]
fn another_conversation_can_be_opened_renamed_and_deleted() {
    let (_dir, store) = store();
    let one = kept(&store, &[question(0, None, "one")]);
    let (mut keeper, reports) = keeper(&store);
    keeper.keep(question(0, None, "two"));
    keeper.open("nothing".into());
    keeper.keep(question(1, Some(0), "still two"));
    let Ok(Report::Begun(two)) = reports.recv() else { panic!("it did not begin") };
    assert!(matches!(reports.recv(), Ok(Report::NotOpened(error)) if error.contains("nothing")));
    keeper.rename(one.clone(), " Uno ".into());
    assert_eq!(reports.recv(), Ok(Report::Renamed { id: one.clone() }));
    keeper.delete(one.clone());
    assert_eq!(reports.recv(), Ok(Report::Deleted { id: one.clone() }));
    keeper.undelete(one.clone());
    assert_eq!(reports.recv(), Ok(Report::Undeleted { id: one.clone() }));
    assert_eq!(store.load(&one).unwrap().tree.title().as_deref(), Some("Uno"));
    keeper.delete("nothing".into());
    assert!(matches!(reports.recv(), Ok(Report::Failed(_))));
    // The open one is closed by its deletion, and what comes next begins anew.
    keeper.delete(two.clone());
    assert_eq!(reports.recv(), Ok(Report::Deleted { id: two.clone() }));
    keeper.keep(question(0, None, "three"));
    assert!(matches!(reports.recv(), Ok(Report::Begun(three)) if three != two));
}

#[test]
fn a_place_that_cannot_be_written_is_told_once_and_tried_again() {
    let (dir, _) = store();
    // A file where the folder would be.
    let place = dir.path().join("data");
    fs::write(&place, "").unwrap();
    let store = Store::new(place.join("chats"));
    let (mut keeper, reports) = keeper(&store);
    for number in 0..3 {
        keeper.keep(question(number, None, "kept in memory"));
    }
    assert!(keeper.settle(Duration::from_secs(20)));
    assert!(matches!(reports.try_recv(), Ok(Report::NotKept(error)) if error.contains("chats")));
    assert!(reports.try_recv().is_err());
    // The disk is there again: nothing is missing.
    fs::remove_file(&place).unwrap();
    keeper.keep(question(3, Some(2), "and now"));
    drop(keeper);
    let Ok(Report::Begun(id)) = reports.recv() else { panic!("it did not begin") };
    assert_eq!(store.load(&id).unwrap().tree.messages().len(), 4);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_that_loses_nothing() {
    let (_dir, store) = store();
    disk::create_private_folders(&store.folder().join(LOCKS)).unwrap();
    std::os::unix::fs::symlink("/dev/full", store.path("full")).unwrap();
    let mut waiting = b"a line\n".to_vec();
    let mut file = store.open("full").unwrap().unwrap();
    assert!(file.write(&mut waiting).unwrap_err().to_string().contains("No space left"));
    assert_eq!(waiting, b"a line\n");
}

#[test]
fn a_slow_disk_is_not_waited_for_twice() {
    let (_dir, store) = store();
    // The thread is held up in its report.
    let (go, wait) = mpsc::channel::<()>();
    let mut keeper = Keeper::start(store, move |_| {
        let _ = wait.recv();
    })
    .unwrap();
    keeper.keep(question(0, None, "q"));
    assert!(!keeper.settle(Duration::from_millis(50)));
    let start = std::time::Instant::now();
    assert!(!keeper.settle(Duration::from_secs(600)));
    assert!(start.elapsed() < Duration::from_secs(300));
    drop(go);
    while !keeper.settle(Duration::from_millis(10)) {
        std::thread::sleep(Duration::from_millis(10));
    }
}
