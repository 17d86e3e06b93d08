//! How much is drawn: when the next frame may come, and how often what is in it may change.
//!
//! At full pace a frame comes at once after a quiet time, else 30 come in a second. Most bytes go into text that moves
//! up and into numbers that change with each token; so the low pace, for slow connections, moves text in steps, lets the
//! numbers stand for a third of a second, and draws 10 frames a second.

use std::time::{Duration, Instant};

use crate::config;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pace {
    #[default]
    Full,
    Low,
}

impl Pace {
    pub fn new(setting: config::Pace, over_ssh: bool) -> Self {
        match setting {
            config::Pace::Full => Self::Full,
            config::Pace::Low => Self::Low,
            config::Pace::Auto if over_ssh => Self::Low,
            config::Pace::Auto => Self::Full,
        }
    }

    fn frame(self) -> Duration {
        match self {
            Self::Full => Duration::from_nanos(1_000_000_000 / 30),
            Self::Low => Duration::from_millis(100),
        }
    }

    /// How long the numbers of a running answer stand, if not always only for one frame.
    pub fn hold(self) -> Option<Duration> {
        match self {
            Self::Full => None,
            Self::Low => Some(Duration::from_millis(333)),
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FrameLimiter {
    last: Option<Instant>,
}

impl FrameLimiter {
    /// The moment from which a frame may be drawn.
    pub fn next(&self, now: Instant, pace: Pace) -> Instant {
        self.last.map_or(now, |last| (last + pace.frame()).max(now))
    }

    pub fn drawn(&mut self, now: Instant) {
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames_in_a_busy_second(pace: Pace) -> usize {
        let start = Instant::now();
        let (mut limiter, mut frames) = (FrameLimiter::default(), 0);
        for ms in 0..1000 {
            let now = start + Duration::from_millis(ms);
            if limiter.next(now, pace) <= now {
                limiter.drawn(now);
                frames += 1;
            }
        }
        frames
    }

    #[test]
    fn a_busy_second_has_at_most_30_frames_and_10_at_low_pace() {
        let frames = frames_in_a_busy_second(Pace::Full);
        assert!((28..=30).contains(&frames), "{frames}");
        assert_eq!(frames_in_a_busy_second(Pace::Low), 10);
    }

    #[test]
    fn after_a_quiet_time_the_frame_comes_at_once() {
        let start = Instant::now();
        for pace in [Pace::Full, Pace::Low] {
            let mut limiter = FrameLimiter::default();
            limiter.drawn(start);
            let later = start + Duration::from_secs(1);
            assert_eq!(limiter.next(later, pace), later);
            assert_eq!(limiter.next(start, pace), start + pace.frame());
        }
    }

    #[test]
    fn the_settings_say_the_pace_and_by_default_the_connection_does() {
        for (setting, over_ssh, pace) in [
            (config::Pace::Auto, false, Pace::Full),
            (config::Pace::Auto, true, Pace::Low),
            (config::Pace::Full, true, Pace::Full),
            (config::Pace::Low, false, Pace::Low),
        ] {
            assert_eq!(Pace::new(setting, over_ssh), pace);
        }
    }
}
