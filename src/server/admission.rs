//! How many answers may be in the works. What is beyond the limit is refused with the time after which a place is likely
//! to be free.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::error::ApiError;

/// Ends of answers that the pace is measured from.
const REMEMBERED: usize = 16;
/// What a client is told at the most, in seconds: nobody knows so far ahead.
const LONGEST_WAIT: u64 = 120;

pub struct Admission {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    taken: usize,
    /// When answers ended, since there was none in the works the last time.
    ends: VecDeque<Instant>,
}

/// Places for some answers, given back one by one or when it is dropped.
pub struct Places {
    admission: Arc<Admission>,
    count: usize,
}

impl Admission {
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, state: Mutex::default() })
    }

    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Takes places for `count` answers, or says when to come again. `answer_time` is what an answer is predicted to take,
    /// for the time before any has ended.
    pub fn enter(self: &Arc<Self>, count: usize, answer_time: Option<Duration>) -> Result<Places, ApiError> {
        if count > self.limit {
            let message =
                format!("{count} answers are asked for at once; this server makes {} at the most", self.limit);
            return Err(ApiError::param("n", "invalid_value", message));
        }
        let mut state = self.lock();
        if state.taken + count > self.limit {
            let missing = state.taken + count - self.limit;
            let wait = wait(state.ends.make_contiguous(), missing, answer_time);
            return Err(ApiError::busy(self.limit, wait));
        }
        state.taken += count;
        Ok(Places { admission: self.clone(), count })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    /// One of the answers ended.
    pub fn leave(&mut self) {
        if self.count > 0 {
            self.count -= 1;
            self.admission.lock().leave(1);
        }
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        self.admission.lock().leave(self.count);
    }
}

impl State {
    fn leave(&mut self, count: usize) {
        self.taken -= count;
        if self.taken == 0 {
            // The time until the next answer ends will have idle time in it.
            self.ends.clear();
            return;
        }
        let now = Instant::now();
        for _ in 0..count {
            if self.ends.len() == REMEMBERED {
                self.ends.pop_front();
            }
            self.ends.push_back(now);
        }
    }
}

/// Seconds until so many places are likely to be free: by the mean time between the last ends of answers, or by what one
/// answer takes.
fn wait(ends: &[Instant], places: usize, answer_time: Option<Duration>) -> u64 {
    let measured = match ends {
        [first, .., last] => Some(last.duration_since(*first) / (ends.len() as u32 - 1)),
        _ => None,
    };
    let each = measured.or(answer_time).unwrap_or(Duration::from_secs(1));
    ((each.as_secs_f64() * places as f64).ceil() as u64).clamp(1, LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_given_back() {
        let admission = Admission::new(3);
        let mut two = admission.enter(2, None).unwrap();
        let one = admission.enter(1, None).unwrap();
        let refused = admission.enter(1, None).err().unwrap();
        assert_eq!((refused.status.as_u16(), refused.code, refused.retry_after), (429, Some("queue_full"), Some(1)));
        two.leave();
        assert_eq!(admission.lock().taken, 2);
        drop(one);
        drop(two);
        assert_eq!(admission.lock().taken, 0);
        // No waiting would help.
        let refused = admission.enter(4, None).err().unwrap();
        assert_eq!((refused.status.as_u16(), refused.param.as_deref()), (400, Some("n")));
    }

    #[test]
    fn the_wait_follows_the_pace() {
        let now = Instant::now();
        let at = |seconds: u64| now + Duration::from_secs(seconds);
        for (ends, places, answer_time, expected) in [
            // Every 2 s one.
            (&[at(0), at(1), at(4)][..], 1, None, 2),
            (&[at(0), at(1), at(4)], 3, None, 6),
            // Not known yet.
            (&[at(0)], 1, Some(Duration::from_millis(2500)), 3),
            (&[], 1, None, 1),
            (&[at(0), at(0)], 1, None, 1),
            (&[at(0), at(9000)], 1, None, LONGEST_WAIT),
        ] {
            assert_eq!(wait(ends, places, answer_time), expected);
        }
    }
}
