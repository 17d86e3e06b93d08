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

const BAR: usize = 10;
pub const ROWS: usize = 6;

/// Without a row for the temperature, where it has room in another one, and for an NPU of which nothing is known.
pub fn least_rows(state: &State, columns: usize) -> usize {
    let joins = state.device.as_ref().is_some_and(|sample| match &sample.cpu_celsius {
        Reading::Measured(_) => sample.cpu_mhz.measured().is_some(),
        Reading::Unavailable(reason) => width(&power_and_temperature(sample, reason)) <= columns,
    });
    ROWS - usize::from(joins) - usize::from(joins && is_unknown(state))
}

/// Nothing of an NPU is measured. Whether there is one, the lane panel says.
fn is_unknown(state: &State) -> bool {
    state.device.as_ref().is_some_and(|DeviceSample { npu, .. }| {
        npu.load.measured().is_none()
            && npu.mhz.measured().is_none()
            && npu.celsius.measured().is_none()
            && npu.watts.measured().is_none()
    })
}

/// The power, and why there is no temperature.
fn power_and_temperature(sample: &DeviceSample, reason: &str) -> String {
    let power = match &sample.power {
        Reading::Unavailable(power) if power == reason => return format!("power, temp  {}", one_line(reason)),
        Reading::Unavailable(power) => one_line(power),
        Reading::Measured(Power { watts, source }) => format!("{watts:4.1} W  {source}"),
    };
    format!("power {power}, temp {}", one_line(reason))
}

/// Where there are more rows than the column has, the last minutes follow.
pub fn lines(state: &State, skin: &Skin, columns: usize, rows: usize) -> Vec<Text> {
    let mut lines = now(state, skin);
    if rows < lines.len()
        && least_rows(state, columns) < ROWS
        && let Some(sample) = &state.device
    {
        let temperature = lines.remove(2);
        match &sample.cpu_celsius {
            Reading::Measured(_) => {
                let number = temperature.spans.into_iter().skip(1).map(|mut span| {
                    span.content = span.content.trim_start().to_owned().into();
                    span
                });
                lines[0].spans.push(skin.plain("  "));
                lines[0].spans.extend(number);
            }
            Reading::Unavailable(reason) => {
                lines.pop();
                lines.push(Line::from(skin.dim(power_and_temperature(sample, reason))));
            }
        }
    }
    if rows < lines.len() && is_unknown(state) {
        lines.remove(1);
    }
    if rows > ROWS + 3 {
        lines.extend(past(state.panels.machine(), skin, columns));
    }
    lines
}

/// How much of a line is for a row of bars.
const NUMBERS: usize = 14 + 3 * 9 + 2;

/// What was sampled, a bar a sample: what was not measured is left out.
fn past(samples: &[Moment], skin: &Skin, columns: usize) -> Vec<Text> {
    let bars = columns.saturating_sub(NUMBERS).min(60);
    let newest = &samples[samples.len().saturating_sub(bars.max(1))..];
    let samples = pad_right(&format!("{} samples", newest.len()), 14);
    let heading = format!("{samples}{}{}{}", pad_left("now", 9), pad_left("mean", 9), pad_left("most", 9));
    let mut lines = vec![Line::default(), Line::from(skin.dim(heading))];
    for (name, value, scale, digits) in SERIES {
        let values: Vec<Option<f64>> = newest.iter().map(value).collect();
        let known: Vec<f64> = values.iter().flatten().copied().collect();
        if known.is_empty() {
            continue;
        }
        let most = known.iter().copied().fold(0.0, f64::max);
        let mean = known.iter().sum::<f64>() / known.len() as f64;
        let number = |value: Option<f64>| skin.figure(value.map(|value| format!("{value:.digits$}")), 9);
        let full = scale.unwrap_or(most / 0.75).max(f64::MIN_POSITIVE);
        let bar = |value: &Option<f64>| value.map_or(skin.glyphs.dot, |value| skin.glyphs.level(value / full));
        let mut spans = vec![skin.dim(pad_right(name, 14)), number(values.last().copied().flatten())];
        spans.extend([number(Some(mean)), number(Some(most)), skin.plain("  ")]);
        spans.push(skin.styled(skin.theme.chart, values.iter().map(bar).collect::<String>()));
        lines.push(Line::from(spans));
    }
    lines
}

/// A name with its unit, what of a sample, the value of a full bar where it is known, digits behind the point.
type Series = (&'static str, fn(&Moment) -> Option<f64>, Option<f64>, usize);

const GIB: f64 = (1u64 << 30) as f64;

const SERIES: [Series; 7] = [
    ("cpu, %", |moment| moment.cpu_percent, Some(100.0), 0),
    ("npu, %", |moment| moment.npu_percent, Some(100.0), 0),
    ("memory, GiB", |moment| moment.memory_used.map(|bytes| bytes / GIB), None, 1),
    ("this, MiB", |moment| moment.process_memory.map(|bytes| bytes / 1024.0 / 1024.0), None, 0),
    ("this, cores", |moment| moment.process_cores, None, 1),
    ("cpu, celsius", |moment| moment.celsius, None, 0),
    ("power, W", |moment| moment.watts, None, 1),
];

/// The machine at one moment, as far as it was measured.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Moment {
    cpu_percent: Option<f64>,
    npu_percent: Option<f64>,
    /// In bytes, like `process_memory`.
    memory_used: Option<f64>,
    process_memory: Option<f64>,
    process_cores: Option<f64>,
    celsius: Option<f64>,
    watts: Option<f64>,
}

impl Moment {
    pub fn of(sample: &DeviceSample) -> Self {
        let bytes = |reading: &Reading<u64>| reading.measured().map(|bytes| *bytes as f64);
        Self {
            cpu_percent: sample.cpu_percent.measured().map(|percent| f64::from(*percent)),
            npu_percent: sample.npu.load.measured().map(|load| f64::from(load.percent)),
            memory_used: bytes(&sample.memory_used),
            process_memory: bytes(&sample.process_memory),
            process_cores: sample.process_cpu_percent.measured().map(|percent| f64::from(*percent) / 100.0),
            celsius: sample.cpu_celsius.measured().map(|celsius| f64::from(*celsius)),
            watts: sample.power.measured().map(|power| f64::from(power.watts)),
        }
    }
}

fn now(state: &State, skin: &Skin) -> Vec<Text> {
    let Some(sample) = &state.device else {
        return ["cpu   ", "npu   ", "temp  ", "mem   ", "this  ", "power "]
            .map(|label| Line::from(vec![skin.dim(label), skin.absent()]))
            .to_vec();
    };
    vec![
        cpu(sample, skin),
        npu(&sample.npu, skin),
        temperature(sample, skin),
        memory(sample, skin),
        process(sample, state.server.is_some(), skin),
        power(sample, skin),
    ]
}

fn cpu(sample: &DeviceSample, skin: &Skin) -> Text {
    let mut spans = vec![skin.dim("cpu   ")];
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
    let mut spans = vec![skin.dim("npu   ")];
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
            skin.dim("temp  "),
            skin.number(pad_left(&format!("{celsius:.0}"), 4)),
            skin.dim(format!(" {}", skin.glyphs.degrees)),
        ]),
        Reading::Unavailable(reason) => Line::from(vec![skin.dim("temp  "), why(reason, skin)]),
    }
}

fn memory(sample: &DeviceSample, skin: &Skin) -> Text {
    let mut spans = vec![skin.dim("mem   ")];
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
    let mut spans = vec![skin.dim(if is_server { "serve " } else { "this  " })];
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
            skin.dim("power "),
            skin.number(pad_left(&format!("{watts:.1}"), 4)),
            skin.dim(format!(" W  {source}")),
        ]),
        Reading::Unavailable(reason) => Line::from(vec![skin.dim("power "), why(reason, skin)]),
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
        assert_eq!(cpu(&missing("not told"), &test_skin()).to_string(), "cpu   not told");
        assert_eq!(cpu(&missing("no sensor"), &test_skin()).to_string(), "cpu   not told  GHz: no sensor");
    }

    #[test]
    fn the_memory_of_a_server_is_not_called_this_program_s() {
        let line = |is_server| process(&sample(), is_server, &test_skin()).to_string();
        assert!(line(false).starts_with("this "), "{}", line(false));
        assert!(line(true).starts_with("serve "), "{}", line(true));
    }

    #[test]
    fn watts_say_what_they_are_of() {
        let power_of = |source| {
            let measured = Reading::Measured(Power { watts: 13.5, source });
            power(&DeviceSample { power: measured, ..sample() }, &test_skin()).to_string()
        };
        assert_eq!(power_of(PowerSource::CpuPackages), "power 13.5 W  CPU packages");
        assert_eq!(power_of(PowerSource::Battery), "power 13.5 W  whole machine (battery)");
    }

    #[test]
    fn the_npu_s_line_tells_what_its_driver_tells() {
        fn unknown<T>() -> Reading<T> {
            Reading::Unavailable("the driver does not tell".into())
        }
        let load = |percent, of| Reading::Measured(NpuLoad { percent, of });
        let silent = NpuSample { load: unknown(), mhz: unknown(), celsius: unknown(), watts: unknown() };
        let line = |sample: &NpuSample| npu(sample, &test_skin()).to_string();
        assert_eq!(line(&silent), "npu   the driver does not tell");
        let warm = NpuSample { celsius: Reading::Measured(54.4), ..silent.clone() };
        assert_eq!(line(&warm), format!("npu   the driver does not tell  54 {}", test_skin().glyphs.degrees));
        let asleep = NpuSample { load: load(0.0, LoadOf::Asleep), ..silent.clone() };
        assert_eq!(line(&asleep), "npu   asleep");
        let busy = NpuSample {
            load: load(37.0, LoadOf::OwnPrograms),
            mhz: Reading::Measured(1400),
            watts: Reading::Measured(1.25),
            ..silent
        };
        let line = line(&busy);
        assert!(line.starts_with("npu     37 %  "), "{line}");
        assert!(line.ends_with("  own programs  1.4 GHz  1.2 W"), "{line}");
    }
}
