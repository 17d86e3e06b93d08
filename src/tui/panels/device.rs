//! What does it cost the machine? Load, frequency, temperature, memory, power and the NPU, or why they cannot be read.

use ratatui::text::{Line, Span};

use crate::telemetry::Reading;
use crate::telemetry::device::DeviceSample;
use crate::telemetry::device::npu::{LoadOf, NpuLoad, NpuSample};
use crate::telemetry::device::power::Power;

use super::super::format;
use super::super::skin::{Skin, Text, pad_left, pad_right};
use super::super::state::State;
use super::super::text::sanitize::one_line;
use super::super::text::width;
use super::Sampled;

const LABEL: usize = 7;
const BAR: usize = 10;
pub const ROWS: usize = 6;

/// Without a row for the temperature, where it has room in another one, and for an NPU of which nothing is known.
pub fn least_rows(state: &State, columns: usize) -> usize {
    let Some(sample) = &state.device else { return ROWS };
    let joins = match &sample.cpu_celsius {
        Reading::Measured(_) => sample.cpu_mhz.measured().is_some(),
        Reading::Unavailable(reason) => width(&power_and_temperature(sample, reason)) <= columns,
    };
    ROWS - usize::from(joins) - usize::from(joins && is_unknown(&sample.npu))
}

/// Nothing of it is measured. Whether there is one, the lane panel says.
fn is_unknown(npu: &NpuSample) -> bool {
    npu.load.measured().is_none()
        && npu.mhz.measured().is_none()
        && npu.celsius.measured().is_none()
        && npu.watts.measured().is_none()
}

/// The power, and why there is no temperature.
fn power_and_temperature(sample: &DeviceSample, reason: &str) -> String {
    let power = match &sample.power {
        Reading::Unavailable(power) if power == reason => return format!("power, temp  {}", one_line(reason)),
        Reading::Unavailable(power) => one_line(power),
        Reading::Measured(Power { watts, source }) => format!("{watts:4.1} W  {source}"),
    };
    format!("{}{power}, temp {}", pad_right("power", LABEL), one_line(reason))
}

/// The lines in the least rows.
fn make_do(lines: &mut Vec<Text>, sample: &DeviceSample, rows: usize, skin: &Skin) {
    match &sample.cpu_celsius {
        Reading::Measured(celsius) => {
            lines.remove(2);
            lines[0].spans.push(skin.number(format!("  {celsius:.0}")));
            lines[0].spans.push(skin.dim(format!(" {}", skin.glyphs.degrees)));
        }
        Reading::Unavailable(reason) => {
            lines.remove(2);
            lines.pop();
            lines.push(Line::from(skin.dim(power_and_temperature(sample, reason))));
        }
    }
    if rows < lines.len() && is_unknown(&sample.npu) {
        lines.remove(1);
    }
}

pub fn lines(state: &State, skin: &Skin, columns: usize, rows: usize) -> Vec<Text> {
    // Of a server that was not reached, its silence says nothing.
    let is_out_of_reach = state.server.is_some() && state.snapshot().is_none();
    let Some(sample) = state.device.as_ref().filter(|_| !is_out_of_reach) else {
        let process = if state.server.is_some() { "server" } else { "this" };
        return ["cpu", "npu", "temp", "mem", process, "power"]
            .map(|name| Line::from(vec![label(name, skin), skin.absent()]))
            .to_vec();
    };
    let mut lines = vec![
        cpu(sample, skin),
        npu(&sample.npu, skin),
        temperature(sample, skin),
        memory(sample, skin),
        process(sample, state.server.is_some(), skin),
        power(sample, skin),
    ];
    if rows < lines.len() && least_rows(state, columns) < ROWS {
        make_do(&mut lines, sample, rows, skin);
    }
    let past = past(state.panels.samples(), skin, columns);
    if !past.is_empty() && rows > lines.len() + past.len() {
        lines.push(Line::default());
        lines.extend(past);
    }
    lines
}

/// What is drawn of the past, with its unit and the value of a full bar, where that is known.
const PAST: [(&str, &str, Option<f64>); 4] =
    [("cpu", "%", Some(100.0)), ("npu", "%", Some(100.0)), ("mem", "GiB", None), ("power", "W", None)];
/// Columns after the bars: `  highest 100.0 GiB`.
const HIGHEST: usize = 20;

/// A bar for each of the newest samples, one line for each thing that was ever measured.
fn past(samples: &[Sampled], skin: &Skin, columns: usize) -> Vec<Text> {
    let room = columns.saturating_sub(LABEL + HIGHEST);
    let newest = &samples[samples.len().saturating_sub(room)..];
    let line = |(index, (name, unit, full)): (usize, (&str, &str, Option<f64>))| {
        let values: Vec<Option<f64>> = newest.iter().map(|sampled| sampled[index]).collect();
        let highest = values.iter().flatten().copied().reduce(f64::max)?;
        let full = full.unwrap_or(highest);
        let level = |value: &Option<f64>| value.map_or(skin.glyphs.dot, |value| skin.glyphs.level(value / full));
        let bars: String = values.iter().map(level).collect();
        Some(Line::from(vec![
            label(name, skin),
            skin.styled(skin.theme.chart, bars),
            skin.dim("  highest "),
            skin.number(if unit == "%" { format!("{highest:.0}") } else { format!("{highest:.1}") }),
            skin.dim(format!(" {unit}")),
        ]))
    };
    let mut lines: Vec<Text> = PAST.into_iter().enumerate().filter_map(line).collect();
    if !lines.is_empty() {
        let what = match newest.len() {
            1 => "the last sample".to_owned(),
            count => format!("the last {count} samples, the newest at the right"),
        };
        lines.insert(0, Line::from(skin.dim(what)));
    }
    lines
}

fn label(name: &str, skin: &Skin) -> Span<'static> {
    skin.dim(pad_right(name, LABEL))
}

fn cpu(sample: &DeviceSample, skin: &Skin) -> Text {
    let mut spans = vec![label("cpu", skin)];
    match &sample.cpu_percent {
        Reading::Measured(percent) => {
            spans.push(skin.number(pad_left(&format!("{percent:.0}"), 4)));
            spans.push(skin.dim(" %  "));
            spans.extend(skin.gauge(f64::from(*percent) / 100.0, BAR));
        }
        Reading::Unavailable(reason) => spans.push(why(reason, skin)),
    }
    if same_reason(&sample.cpu_percent, &sample.cpu_mhz) {
        return Line::from(spans);
    }
    match &sample.cpu_mhz {
        Reading::Measured(mhz) => {
            spans.push(skin.number(format!("  {:.1}", *mhz as f64 / 1000.0)));
            spans.push(skin.dim(" GHz"));
        }
        Reading::Unavailable(reason) => spans.extend([skin.dim("  GHz: "), why(reason, skin)]),
    }
    Line::from(spans)
}

/// How busy it is, and beside it what else its driver tells.
fn npu(sample: &NpuSample, skin: &Skin) -> Text {
    let mut spans = vec![label("npu", skin)];
    match &sample.load {
        Reading::Measured(NpuLoad { of: LoadOf::Asleep, .. }) => spans.push(skin.dim(LoadOf::Asleep.to_string())),
        Reading::Measured(NpuLoad { percent, of }) => {
            spans.push(skin.number(pad_left(&format!("{percent:.0}"), 4)));
            spans.push(skin.dim(" %  "));
            spans.extend(skin.gauge(f64::from(*percent) / 100.0, BAR));
            if *of != LoadOf::Device {
                spans.push(skin.dim(format!("  {of}")));
            }
        }
        Reading::Unavailable(reason) => spans.push(why(reason, skin)),
    }
    let mut also = |value: Option<String>, unit: &str| {
        if let Some(value) = value {
            spans.extend([skin.number(format!("  {value}")), skin.dim(format!(" {unit}"))]);
        }
    };
    also(sample.mhz.measured().map(|mhz| format!("{:.1}", *mhz as f64 / 1000.0)), "GHz");
    also(sample.celsius.measured().map(|celsius| format!("{celsius:.0}")), skin.glyphs.degrees);
    also(sample.watts.measured().map(|watts| format!("{watts:.1}")), "W");
    Line::from(spans)
}

fn temperature(sample: &DeviceSample, skin: &Skin) -> Text {
    match &sample.cpu_celsius {
        Reading::Measured(celsius) => Line::from(vec![
            label("temp", skin),
            skin.number(pad_left(&format!("{celsius:.0}"), 4)),
            skin.dim(format!(" {}", skin.glyphs.degrees)),
        ]),
        Reading::Unavailable(reason) => Line::from(vec![label("temp", skin), why(reason, skin)]),
    }
}

fn memory(sample: &DeviceSample, skin: &Skin) -> Text {
    let mut spans = vec![label("mem", skin)];
    match (&sample.memory_used, &sample.memory_total) {
        (Reading::Measured(used), Reading::Measured(total)) => {
            spans.push(skin.number(pad_left(&format::gibibytes(*used), 4)));
            spans.push(skin.dim(format!(" / {} GiB", format::gibibytes(*total))));
        }
        (Reading::Unavailable(reason), _) | (_, Reading::Unavailable(reason)) => spans.push(why(reason, skin)),
    }
    Line::from(spans)
}

/// ortalk itself, or the server that the chat is over.
fn process(sample: &DeviceSample, is_server: bool, skin: &Skin) -> Text {
    let mut spans = vec![label(if is_server { "server" } else { "this" }, skin)];
    match &sample.process_memory {
        Reading::Measured(bytes) => spans.extend(skin.measure(&format::bytes(*bytes), 4)),
        Reading::Unavailable(reason) => spans.push(why(reason, skin)),
    }
    if same_reason(&sample.process_memory, &sample.process_cpu_percent) {
        return Line::from(spans);
    }
    match &sample.process_cpu_percent {
        Reading::Measured(percent) => {
            spans.push(skin.number(format!("   {:.1}", f64::from(*percent) / 100.0)));
            spans.push(skin.dim(" cores busy"));
        }
        Reading::Unavailable(reason) => spans.extend([skin.dim("   cores: "), why(reason, skin)]),
    }
    Line::from(spans)
}

fn power(sample: &DeviceSample, skin: &Skin) -> Text {
    match &sample.power {
        // What of, since the whole machine takes several times what its processor does.
        Reading::Measured(Power { watts, source }) => Line::from(vec![
            label("power", skin),
            skin.number(pad_left(&format!("{watts:.1}"), 4)),
            skin.dim(format!(" W  {source}")),
        ]),
        Reading::Unavailable(reason) => Line::from(vec![label("power", skin), why(reason, skin)]),
    }
}

/// Both of a line are missing for one reason, which need not be said twice.
fn same_reason<A, B>(first: &Reading<A>, second: &Reading<B>) -> bool {
    matches!((first, second), (Reading::Unavailable(first), Reading::Unavailable(second)) if first == second)
}

/// The reason stands where the number would be.
fn why(reason: &str, skin: &Skin) -> Span<'static> {
    skin.dim(one_line(reason))
}

#[cfg(test)]
mod tests {
    use super::super::super::fixtures::sample;
    use super::super::super::skin::test_skin;
    use super::*;
    use crate::telemetry::device::power::PowerSource;

    #[test]
    fn a_reason_is_said_once_in_a_line() {
        let missing = |reason: &str| DeviceSample {
            cpu_percent: Reading::Unavailable("not told".into()),
            cpu_mhz: Reading::Unavailable(reason.into()),
            ..sample()
        };
        assert_eq!(cpu(&missing("not told"), &test_skin()).to_string(), "cpu    not told");
        assert_eq!(cpu(&missing("no sensor"), &test_skin()).to_string(), "cpu    not told  GHz: no sensor");
    }

    #[test]
    fn the_memory_of_a_server_is_not_called_this_program_s() {
        let line = |is_server| process(&sample(), is_server, &test_skin()).to_string();
        assert!(line(false).starts_with("this "), "{}", line(false));
        assert!(line(true).starts_with("server "), "{}", line(true));
    }

    #[test]
    fn watts_say_what_they_are_of() {
        let power_of = |source| {
            let measured = Reading::Measured(Power { watts: 13.5, source });
            power(&DeviceSample { power: measured, ..sample() }, &test_skin()).to_string()
        };
        assert_eq!(power_of(PowerSource::CpuPackages), "power  13.5 W  CPU packages");
        assert_eq!(power_of(PowerSource::Battery), "power  13.5 W  whole machine (battery)");
    }

    #[test]
    fn the_npu_s_line_tells_what_its_driver_tells() {
        fn unknown<T>() -> Reading<T> {
            Reading::Unavailable("the driver does not tell".into())
        }
        let load = |percent, of| Reading::Measured(NpuLoad { percent, of });
        let silent = NpuSample { load: unknown(), mhz: unknown(), celsius: unknown(), watts: unknown() };
        let line = |sample: &NpuSample| npu(sample, &test_skin()).to_string();
        assert_eq!(line(&silent), "npu    the driver does not tell");
        let warm = NpuSample { celsius: Reading::Measured(54.4), ..silent.clone() };
        assert_eq!(line(&warm), format!("npu    the driver does not tell  54 {}", test_skin().glyphs.degrees));
        let asleep = NpuSample { load: load(0.0, LoadOf::Asleep), ..silent.clone() };
        assert_eq!(line(&asleep), "npu    asleep");
        let busy = NpuSample {
            load: load(37.0, LoadOf::OwnPrograms),
            mhz: Reading::Measured(1400),
            watts: Reading::Measured(1.25),
            ..silent
        };
        let line = line(&busy);
        assert!(line.starts_with("npu      37 %  "), "{line}");
        assert!(line.ends_with("  own programs  1.4 GHz  1.2 W"), "{line}");
    }
}
