//! What all probes have in common: one way to learn one quantity, and the choice between several.

use std::time::{Duration, Instant};

use super::super::Reading;

pub const NO_SENSOR: &str = "no readable sensor";
pub const MEASURING: &str = "measuring";

/// One way to learn one quantity.
pub trait Probe<T>: Send {
    /// What is read: a path, or the name of an interface of the system's.
    fn source(&self) -> String;

    /// Loads and powers are means since the look before that gave a value; before the second look they are `MEASURING`.
    fn read(&mut self, now: Instant) -> Reading<T>;
}

/// A probe, or what was looked for and is not there.
pub type Found<T> = Result<Box<dyn Probe<T>>, String>;

/// The ways to learn a quantity, the best first. The first that gives a value is the one; one that is still measuring
/// is waited for, so that the value's meaning does not change after the first look.
pub struct Sensor<T> {
    probes: Vec<Box<dyn Probe<T>>>,
    missing: Vec<String>,
    at_most_every: Duration,
    otherwise: &'static str,
    last: Option<(Instant, Reading<T>)>,
    origin: Origin,
}

/// Where a value came from, and why what is preferred gave none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    pub source: Option<String>,
    pub reasons: Vec<String>,
}

impl<T: Clone> Sensor<T> {
    pub fn first_of(found: impl IntoIterator<Item = Found<T>>) -> Self {
        let (mut probes, mut missing) = (Vec::new(), Vec::new());
        for found in found {
            match found {
                Ok(probe) => probes.push(probe),
                Err(what) => missing.push(what),
            }
        }
        let origin = Origin { source: None, reasons: missing.clone() };
        Self { probes, missing, at_most_every: Duration::ZERO, otherwise: NO_SENSOR, last: None, origin }
    }

    /// For what is slow to read, or does not like to be read often: in between, the last value stands.
    pub fn at_most_every(mut self, interval: Duration) -> Self {
        self.at_most_every = interval;
        self
    }

    /// What is said where there is no probe at all.
    pub fn otherwise(mut self, reason: &'static str) -> Self {
        self.otherwise = reason;
        self
    }

    pub fn read(&mut self, now: Instant) -> Reading<T> {
        if let Some((then, reading)) = &self.last
            && now.saturating_duration_since(*then) < self.at_most_every
        {
            return reading.clone();
        }
        let reading = self.look(now);
        // What is measured over a time is asked again until it is there.
        self.last = (!is_measuring(&reading)).then(|| (now, reading.clone()));
        reading
    }

    fn look(&mut self, now: Instant) -> Reading<T> {
        self.origin = Origin { source: None, reasons: Vec::new() };
        let mut why = None;
        for probe in &mut self.probes {
            let reading = probe.read(now);
            match &reading {
                Reading::Measured(_) => {
                    self.origin.source = Some(probe.source());
                    return reading;
                }
                Reading::Unavailable(_) if is_measuring(&reading) => {
                    self.origin.source = Some(probe.source());
                    return reading;
                }
                Reading::Unavailable(reason) => {
                    self.origin.reasons.push(reason.clone());
                    why.get_or_insert_with(|| reason.clone());
                }
            }
        }
        self.origin.reasons.extend(self.missing.iter().cloned());
        Reading::Unavailable(why.unwrap_or_else(|| self.otherwise.into()))
    }

    /// Of the last value.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }
}

pub fn is_measuring<T>(reading: &Reading<T>) -> bool {
    matches!(reading, Reading::Unavailable(reason) if reason == MEASURING)
}

/// Something that is there and does not tell, and why.
pub struct Silent {
    pub source: String,
    pub reason: String,
}

impl<T> Probe<T> for Silent {
    fn source(&self) -> String {
        self.source.clone()
    }

    fn read(&mut self, _: Instant) -> Reading<T> {
        Reading::Unavailable(self.reason.clone())
    }
}

/// As a probe answers.
pub fn reading<T>(value: Result<T, String>) -> Reading<T> {
    value.map_or_else(Reading::Unavailable, Reading::Measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers one after the other, and from then on the last one.
    struct Scripted(&'static str, Vec<Reading<u64>>);

    impl Probe<u64> for Scripted {
        fn source(&self) -> String {
            self.0.into()
        }

        fn read(&mut self, _: Instant) -> Reading<u64> {
            if self.1.len() > 1 { self.1.remove(0) } else { self.1[0].clone() }
        }
    }

    fn says(name: &'static str, answers: &[Result<u64, &str>]) -> Found<u64> {
        let answers = answers.iter().map(|answer| reading(answer.map_err(str::to_owned))).collect();
        Ok(Box::new(Scripted(name, answers)))
    }

    #[test]
    fn the_first_that_gives_a_value_is_named() {
        let found = [Err("no a".into()), says("b", &[Err("b is locked")]), says("c", &[Ok(3)]), says("d", &[Ok(4)])];
        let mut sensor = Sensor::first_of(found);
        assert_eq!(sensor.read(Instant::now()), Reading::Measured(3));
        assert_eq!(sensor.origin(), &Origin { source: Some("c".into()), reasons: vec!["b is locked".into()] });
    }

    #[test]
    fn one_that_measures_is_waited_for() {
        let mut sensor = Sensor::first_of([says("a", &[Err(MEASURING), Ok(1)]), says("b", &[Ok(2)])]);
        let now = Instant::now();
        assert!(is_measuring(&sensor.read(now)));
        assert_eq!(sensor.read(now), Reading::Measured(1));
    }

    #[test]
    fn without_a_value_every_reason_is_told() {
        let mut nothing = Sensor::<u64>::first_of([Err("no a".into()), Err("no b".into())]);
        assert_eq!(nothing.read(Instant::now()), Reading::Unavailable(NO_SENSOR.into()));
        assert_eq!(nothing.origin().reasons, ["no a", "no b"]);
        let mut locked = Sensor::first_of([Err("no a".into()), says("b", &[Err("b is locked")])]);
        assert_eq!(locked.read(Instant::now()), Reading::Unavailable("b is locked".into()));
        assert_eq!(locked.origin().reasons, ["b is locked", "no a"]);
    }

    #[test]
    fn a_slow_sensor_is_asked_no_more_often_than_it_likes() {
        let answers = [Err(MEASURING), Ok(1), Ok(2)];
        let mut sensor = Sensor::first_of([says("a", &answers)]).at_most_every(Duration::from_secs(1));
        let start = Instant::now();
        let mut at = |milliseconds| sensor.read(start + Duration::from_millis(milliseconds));
        assert!(is_measuring(&at(0)));
        assert_eq!([at(1), at(500), at(1000), at(1001)], [1, 1, 1, 2].map(Reading::Measured));
    }
}
