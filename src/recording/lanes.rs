//! A race's events as lines, and back: a lane's times count from the moment at which it was asked.

use std::time::Instant;

use super::Line;
use crate::engine::LaneId;
use crate::race::RaceEvent;
use crate::wire::Event;

/// When each lane was asked last.
#[derive(Debug, Clone, Default)]
pub struct LaneClocks {
    began: Vec<(LaneId, Instant)>,
}

impl LaneClocks {
    fn set(&mut self, lane: LaneId, at: Instant) {
        self.began.retain(|(known, _)| *known != lane);
        self.began.push((lane, at));
    }

    fn began(&self, lane: LaneId) -> Option<Instant> {
        self.began.iter().find(|(known, _)| *known == lane).map(|(_, at)| *at)
    }

    /// The line of what happened now.
    pub fn line(&mut self, event: &RaceEvent, now: Instant) -> Line {
        match event {
            RaceEvent::Began { lane, round, at } => {
                self.set(*lane, *at);
                Line::LaneBegan { lane: *lane, round: *round }
            }
            RaceEvent::Answer { lane, event } => {
                let event = Box::new(Event::of(event, self.began(*lane).unwrap_or(now)));
                Line::Lane { lane: *lane, event }
            }
            RaceEvent::Energy { lane, energy } => Line::LaneEnergy { lane: *lane, energy: Box::new(energy.clone()) },
            RaceEvent::Over { cancelled } => Line::RaceOver { cancelled: *cancelled },
        }
    }

    /// The event of a line that is played now; `None` where it is none of a race.
    pub fn event(&mut self, line: &Line, now: Instant) -> Option<RaceEvent> {
        match line {
            Line::LaneBegan { lane, round } => {
                self.set(*lane, now);
                Some(RaceEvent::Began { lane: *lane, round: *round, at: now })
            }
            Line::Lane { lane, event } => {
                let event = (**event).clone().into_engine(self.began(*lane)?)?;
                Some(RaceEvent::Answer { lane: *lane, event })
            }
            Line::LaneEnergy { lane, energy } => Some(RaceEvent::Energy { lane: *lane, energy: (**energy).clone() }),
            Line::RaceOver { cancelled } => Some(RaceEvent::Over { cancelled: *cancelled }),
            _ => None,
        }
    }
}
