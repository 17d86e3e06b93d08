//! When the next frame may be drawn: at once after a quiet time, else so that there are at most 30 a second.

use std::time::{Duration, Instant};

pub const FRAME: Duration = Duration::from_nanos(1_000_000_000 / 30);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FrameLimiter {
    last: Option<Instant>,
}

impl FrameLimiter {
    /// The moment from which a frame may be drawn.
    pub fn next(&self, now: Instant) -> Instant {
        self.last.map_or(now, |last| (last + FRAME).max(now))
    }

    pub fn drawn(&mut self, now: Instant) {
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_second_has_at_most_30_frames() {
        let start = Instant::now();
        let (mut limiter, mut frames) = (FrameLimiter::default(), 0);
        for ms in 0..1000 {
            let now = start + Duration::from_millis(ms);
            if limiter.next(now) <= now {
                limiter.drawn(now);
                frames += 1;
            }
        }
        assert!((28..=30).contains(&frames), "{frames}");
    }

    #[test]
    fn after_a_quiet_time_the_frame_comes_at_once() {
        let start = Instant::now();
        let mut limiter = FrameLimiter::default();
        limiter.drawn(start);
        let later = start + Duration::from_secs(1);
        assert_eq!(limiter.next(later), later);
        assert_eq!(limiter.next(start), start + FRAME);
    }
}
