//! Any bytes as a conversation's file: what is read is a tree whose head can be reached, that can be exported, and that is the
//! same when it is written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ortalk::store::{export, read};

fuzz_target!(|data: &[u8]| {
    let tree = read(data).tree;
    assert!(tree.path().iter().all(|message| tree.is_visible(message.id)));
    export::markdown(&tree);
    export::json(&tree, None);
    let lines: Vec<u8> = tree.records().iter().flat_map(|record| record.line().into_bytes()).collect();
    assert_eq!(read(&lines).tree, tree);
});
