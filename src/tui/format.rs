//! Numbers as they stand on the screen: with their unit, and with no more digits than were measured.

use std::time::Duration;

/// Milliseconds below a second, else seconds: `7.6 ms`, `41 ms`, `1.24 s`.
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        s if s < 0.00995 => format!("{:.1} ms", s * 1e3),
        s if s < 0.9995 => format!("{:.0} ms", s * 1e3),
        s if s < 9.995 => format!("{s:.2} s"),
        s if s < 99.95 => format!("{s:.1} s"),
        s => format!("{s:.0} s"),
    }
}

/// Milliseconds without the unit, for a row that names it once; seconds, with theirs, where those would take five digits.
pub fn milliseconds(duration: Duration) -> String {
    match duration.as_secs_f64() * 1e3 {
        ms if ms < 99.95 => format!("{ms:.1}"),
        ms if ms < 9999.5 => format!("{ms:.0}"),
        ms => format!("{:.0}s", ms / 1e3),
    }
}

/// A rate without its unit: `8.42`, `21.4`, `128.4`, `1204`.
pub fn rate(rate: f64) -> String {
    match rate {
        r if r < 9.995 => format!("{r:.2}"),
        r if r < 999.95 => format!("{r:.1}"),
        r => format!("{r:.0}"),
    }
}

/// A rate where there is little room: `8.4`, `21`, `128`.
pub fn short_rate(rate: f64) -> String {
    if rate < 9.95 { format!("{rate:.1}") } else { format!("{rate:.0}") }
}

/// Joules, and watt-hours where those would be many: `0.42 J`, `24.4 J`, `1.2 Wh`.
pub fn energy(joules: f64) -> String {
    match joules {
        j if j < 9999.5 => format!("{} J", rate(j)),
        j => format!("{} Wh", rate(j / 3600.0)),
    }
}

/// Decimal, as files are listed: `640 B`, `3.1 kB`, `1.0 MB`.
pub fn size(bytes: usize) -> String {
    match bytes as f64 {
        b if b < 999.5 => format!("{b:.0} B"),
        b if b < 9_950.0 => format!("{:.1} kB", b / 1e3),
        b if b < 999_500.0 => format!("{:.0} kB", b / 1e3),
        b => format!("{:.1} MB", b / 1e6),
    }
}

/// A whole number with its thousands set apart: `250,000`.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

const KIB: f64 = 1024.0;

/// `312 MiB`, `1.2 GiB`.
pub fn bytes(bytes: u64) -> String {
    let value = bytes as f64;
    match value {
        v if v < KIB => format!("{v:.0} B"),
        v if v < KIB.powi(2) => format!("{:.0} KiB", v / KIB),
        v if v < KIB.powi(3) => format!("{:.0} MiB", v / KIB.powi(2)),
        v => format!("{:.1} GiB", v / KIB.powi(3)),
    }
}

/// GiB without the unit.
pub fn gibibytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / KIB.powi(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_digits() {
        let us = |us| duration(Duration::from_micros(us));
        assert_eq!([us(7_640), us(9_960), us(41_300), us(999_600)], ["7.6 ms", "10 ms", "41 ms", "1.00 s"]);
        assert_eq!([us(12_340_000), us(123_000_000)], ["12.3 s", "123 s"]);
        let ms = |ms| milliseconds(Duration::from_millis(ms));
        assert_eq!([ms(8), ms(150), ms(9_999), ms(12_794)], ["8.0", "150", "9999", "13s"]);
        assert_eq!([rate(8.421), rate(128.44), rate(1204.4)], ["8.42", "128.4", "1204"]);
        assert_eq!([short_rate(8.42), short_rate(128.4)], ["8.4", "128"]);
        assert_eq!([energy(0.42), energy(24.43), energy(18_000.0)], ["0.42 J", "24.4 J", "5.00 Wh"]);
        assert_eq!([size(640), size(3_149), size(64_000), size(1_048_576)], ["640 B", "3.1 kB", "64 kB", "1.0 MB"]);
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([bytes(12), bytes(327_155_712), bytes(25_769_803_776)], ["12 B", "312 MiB", "24.0 GiB"]);
    }
}
