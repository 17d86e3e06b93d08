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

#[cfg(test)]
pub mod tests {
    use std::ops::ControlFlow;

    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;

    const CONTENT: &[u8] = b"the library, the library, the library, the library";

    fn leak(text: String) -> &'static str {
        Box::leak(text.into_boxed_str())
    }

    fn hex(bytes: &[u8]) -> &'static str {
        leak(Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// A small wheel that holds `capi/lib.so`, and its pin.
    pub fn small_wheel(path: &Path) -> Wheel {
        let mut archive = ZipWriter::new(File::create(path).unwrap());
        archive.start_file("capi/lib.so", SimpleFileOptions::default()).unwrap();
        archive.write_all(CONTENT).unwrap();
        archive.start_file("../../outside", SimpleFileOptions::default()).unwrap();
        archive.finish().unwrap();
        let members = vec![Member { path: "capi/lib.so", bytes: CONTENT.len() as u64, sha256: hex(CONTENT) }];
        pin(path, members)
    }

    fn pin(path: &Path, members: Vec<Member>) -> Wheel {
        let data = std::fs::read(path).unwrap();
        Wheel {
            package: "small",
            version: "1",
            platform_tag: None,
            file: "small-1-py3-none-any.whl",
            bytes: data.len() as u64,
            sha256: hex(&data),
            members: members.leak(),
        }
    }

    /// Unpacks the wheel's one member after `damage` was done to the wheel or its pin.
    fn unpack_after(damage: impl FnOnce(&mut Vec<u8>, &mut Member)) -> Result<Vec<u8>, String> {
        let dir = tempfile::tempdir().unwrap();
        let (path, target) = (dir.path().join("small.whl"), dir.path().join("target"));
        let mut wheel = small_wheel(&path);
        let (mut data, mut member) = (std::fs::read(&path).unwrap(), wheel.members[0]);
        damage(&mut data, &mut member);
        std::fs::write(&path, data).unwrap();
        wheel.members = vec![member].leak();
        let report = &mut |_: &_| ControlFlow::Continue(());
        let mut meter = Meter { what: "small", report };
        match unpack(&path, &wheel, &wheel.members[0], &target, &mut meter) {
            Ok(()) => Ok(std::fs::read(target).unwrap()),
            Err(fault) => Err(fault.to_string()),
        }
    }

    fn expect_refusal(words: &[&str], damage: impl FnOnce(&mut Vec<u8>, &mut Member)) {
        let message = unpack_after(damage).unwrap_err();
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    }

    /// Changes the sizes that the zip's two headers claim for its first file.
    fn claim(data: &mut [u8], bytes: u32) {
        let central = data.windows(4).position(|w| w == b"PK\x01\x02").unwrap();
        data[22..26].copy_from_slice(&bytes.to_le_bytes());
        data[central + 24..central + 28].copy_from_slice(&bytes.to_le_bytes());
    }

    #[test]
    fn the_wanted_file_comes_out_whole() {
        assert_eq!(unpack_after(|_, _| ()).unwrap(), CONTENT);
    }

    #[test]
    fn a_wheel_without_the_file_is_refused() {
        expect_refusal(&["has no 'capi/other.so'"], |_, member| member.path = "capi/other.so");
    }

    #[test]
    fn a_truncated_wheel_is_refused() {
        expect_refusal(&["cannot be unpacked"], |data, _| data.truncate(data.len() / 2));
        expect_refusal(&["cannot be unpacked"], |data, _| data.clear());
    }

    #[test]
    fn another_content_is_refused_and_both_hashes_are_quoted() {
        let other = hex(b"other");
        expect_refusal(&["SHA-256", other, hex(CONTENT)], |_, member| member.sha256 = other);
    }

    #[test]
    fn a_huge_claimed_size_is_refused_before_reading() {
        expect_refusal(&["claims 4000000000 bytes"], |data, _| claim(data, 4_000_000_000));
    }

    #[test]
    fn more_data_than_claimed_is_refused() {
        expect_refusal(&["capi/lib.so"], |data, member| {
            claim(data, 10);
            member.bytes = 10;
        });
    }

    #[test]
    fn damaged_compressed_data_is_refused() {
        let start = 30 + "capi/lib.so".len();
        expect_refusal(&["capi/lib.so"], |data, _| data[start..start + 8].fill(0xff));
    }

    #[test]
    fn a_wheel_is_verified_by_size_and_hash() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("small.whl");
        let wheel = small_wheel(&path);
        let report = &mut |_: &_| ControlFlow::Continue(());
        let mut meter = Meter { what: "small", report };
        verify(&path, &wheel, &mut meter).unwrap();
        let mut data = std::fs::read(&path).unwrap();
        data[40] ^= 1;
        std::fs::write(&path, &data).unwrap();
        assert!(matches!(verify(&path, &wheel, &mut meter), Err(Fault::WrongHash { .. })));
        data.pop();
        std::fs::write(&path, &data).unwrap();
        assert!(matches!(verify(&path, &wheel, &mut meter), Err(Fault::WrongSize { .. })));
    }
}
