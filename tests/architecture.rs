//! The house that ARCHITECTURE.md draws is the one that the sources are: each floor uses only floors below it.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, iter};

/// The modules on each floor, from the top: the names with which the lines of the drawing begin.
fn house() -> Vec<BTreeSet<String>> {
    let page = include_str!("../ARCHITECTURE.md");
    let (_, drawing) = page.split_once("## The house").unwrap();
    let drawing = drawing.split("```").nth(1).unwrap();
    let floors = drawing.lines().filter(|line| line.starts_with(char::is_alphabetic));
    let names = floors.map(|line| line.split("  ").next().unwrap_or(line));
    names.map(|names| names.split(' ').map(|name| module_of(name).to_owned()).collect()).collect()
}

/// `cli.rs`, `cli/` and `cli/bench.rs` are of the module `cli`.
fn module_of(path: &str) -> &str {
    path.split('/').next().unwrap_or(path).trim_end_matches(".rs")
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

/// The library's modules that a source file uses outside its tests.
fn used(source: &str) -> BTreeSet<String> {
    let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or(source);
    let named = source.split("crate::").skip(1);
    named
        .flat_map(|rest| if let Some(list) = rest.strip_prefix('{') { heads(list) } else { vec![head(rest)] })
        .collect()
}

fn head(path: &str) -> String {
    path.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// Of `a::{b, c}, d};` the heads `a` and `d`.
fn heads(list: &str) -> Vec<String> {
    let mut depth = 0;
    let commas = list.char_indices().filter(move |(_, c)| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        depth == 0 && *c == ','
    });
    let end = list.find("};").unwrap_or(list.len());
    let starts = iter::once(0).chain(commas.map(|(at, _)| at + 1)).take_while(|at| *at < end);
    starts.map(|at| head(&list[at..])).filter(|name| !name.is_empty()).collect()
}

#[test]
fn each_module_uses_only_floors_below_it() {
    let house = house();
    let floor = |module: &str| house.iter().position(|floor| floor.contains(module));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut faults = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for path in sources(&root) {
        let name = path.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
        if name == "lib.rs"
            || !name.ends_with(".rs")
            || ["tests", "testing", "fixtures"].iter().any(|of| name.contains(of))
        {
            continue;
        }
        let own = module_of(&name);
        let Some(above) = floor(own) else {
            faults.insert(name.clone(), format!("'{own}' has no place in the house"));
            continue;
        };
        seen.insert(own.to_owned());
        for other in used(&fs::read_to_string(&path).unwrap()).iter().filter(|other| *other != own) {
            // What is no module is an item of the library's root, of which there is none.
            if floor(other).is_none_or(|below| below <= above) {
                faults.insert(name.clone(), format!("uses '{other}', which is not below '{own}'"));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    let drawn: BTreeSet<String> = house.into_iter().flatten().collect();
    assert_eq!(drawn, seen);
}

#[test]
fn what_a_file_uses_is_found() {
    let source = "use crate::engine::{Engine, Lane};\nuse crate::{bill, model::{a, b}, store};\n\
                  fn f() { crate::disk::free(); }\n#[cfg(test)]\nmod tests {\n    use crate::tui::x;\n}\n";
    let expected = ["bill", "disk", "engine", "model", "store"].map(str::to_owned);
    assert_eq!(used(source), BTreeSet::from(expected));
}
