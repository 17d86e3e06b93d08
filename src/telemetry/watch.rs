//! Peak memory and energy while work runs, looked at by a thread of its own.
//!
//! Memory is what is resident in this process and the ones that work for it, 20 times a second; a peak between two looks is
//! not seen. Energy is power over time, looked at twice a second.

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

use super::Reading;
use super::device::power::PowerSource;
use super::energy::PowerOverTime;

const INTERVAL: Duration = Duration::from_millis(50);
/// Power is looked at every so many looks at memory.
const POWER_EVERY: u32 = 10;

/// What was seen from one lap's start to its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Lap {
    /// In bytes.
    pub peak_memory: Reading<u64>,
    pub energy: Reading<Energy>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Energy {
    pub joules: f64,
    pub source: PowerSource,
}

pub struct Watch {
    /// `None` only while it is dropped. Each lap comes with where its result goes.
    laps: Option<Sender<Sender<Lap>>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// The first lap starts. `helpers` gives the numbers of the processes that work for this one now.
    pub fn start(helpers: impl Fn() -> Vec<u32> + Send + 'static) -> std::io::Result<Self> {
        let (laps, asked) = channel::<Sender<Lap>>();
        let thread = std::thread::Builder::new().name("watch".into()).spawn(move || {
            let mut looker = Looker::new(Path::new("/sys"), Instant::now(), Box::new(helpers));
            loop {
                match asked.recv_timeout(INTERVAL) {
                    Ok(answer) => drop(answer.send(looker.lap(Instant::now()))),
                    Err(RecvTimeoutError::Timeout) => looker.look(Instant::now()),
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        })?;
        Ok(Self { laps: Some(laps), thread: Some(thread) })
    }

    /// Ends a lap and starts the next one.
    pub fn lap(&self) -> Lap {
        let (answer, lap) = channel();
        let asked = self.laps.as_ref().and_then(|laps| laps.send(answer).ok());
        asked.and_then(|()| lap.recv().ok()).unwrap_or_else(|| {
            let ended = || "the watch has ended".to_string();
            Lap { peak_memory: Reading::Unavailable(ended()), energy: Reading::Unavailable(ended()) }
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.laps = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

type Helpers = Box<dyn Fn() -> Vec<u32> + Send>;

struct Looker {
    /// Or why the system cannot be asked.
    system: Result<System, String>,
    helpers: Helpers,
    peak: u64,
    power: PowerOverTime,
    looks: u32,
    energy: Reading<Energy>,
}

impl Looker {
    fn new(sensors: &Path, now: Instant, helpers: Helpers) -> Self {
        Self {
            system: System::new().map_err(|error| error.to_string()),
            helpers,
            peak: 0,
            power: PowerOverTime::new(sensors, now),
            looks: 0,
            energy: nothing_yet(),
        }
    }

    fn look(&mut self, now: Instant) {
        self.look_at_memory();
        self.looks += 1;
        if self.looks.is_multiple_of(POWER_EVERY) {
            self.look_at_power(now);
        }
    }

    fn look_at_memory(&mut self) {
        let (Ok(system), Ok(own)) = (&mut self.system, sysinfo::get_current_pid()) else { return };
        let pids: Vec<Pid> = std::iter::once(own).chain((self.helpers)().into_iter().map(Pid::from_u32)).collect();
        let wanted = ProcessRefreshKind::nothing().with_memory().without_tasks();
        system.refresh_processes_specifics(ProcessesToUpdate::Some(&pids), true, wanted);
        let resident = pids.iter().filter_map(|pid| system.process(*pid)).map(|process| process.memory()).sum();
        self.peak = self.peak.max(resident);
    }

    fn look_at_power(&mut self, now: Instant) {
        match self.power.look(now) {
            Reading::Measured(stretch) => {
                let before = self.energy.measured().map_or(0.0, |energy| energy.joules);
                self.energy = Reading::Measured(Energy { joules: before + stretch.joules, source: stretch.source });
            }
            // What was summed up stays.
            Reading::Unavailable(reason) => {
                if self.energy.measured().is_none() {
                    self.energy = Reading::Unavailable(reason);
                }
            }
        }
    }

    fn lap(&mut self, now: Instant) -> Lap {
        self.look_at_memory();
        self.look_at_power(now);
        let peak_memory = match (&self.system, self.peak) {
            (Err(reason), _) => Reading::Unavailable(reason.clone()),
            (Ok(_), 0) => Reading::Unavailable("the system does not tell about this process".into()),
            (Ok(_), peak) => Reading::Measured(peak),
        };
        let energy = std::mem::replace(&mut self.energy, nothing_yet());
        self.peak = 0;
        Lap { peak_memory, energy }
    }
}

fn nothing_yet() -> Reading<Energy> {
    Reading::Unavailable("measuring".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 64 MB that were touched are in the lap in which they lived, and in no later one.
    #[test]
    fn memory_that_is_given_back_was_still_the_peak() {
        const SIZE: usize = 64 << 20;
        let watch = Watch::start(Vec::new).unwrap();
        std::thread::sleep(INTERVAL * 2);
        let peak = |lap: Lap| *lap.peak_memory.measured().unwrap();
        let before = peak(watch.lap());
        let block = std::hint::black_box(vec![1_u8; SIZE]);
        std::thread::sleep(INTERVAL * 4);
        drop(block);
        // Other tests run in this process, so the bound is loose.
        assert!(peak(watch.lap()) > before + SIZE as u64 / 2);
    }

    /// 5 J in the first half second and 7 J in the second, from a counter like the kernel's.
    #[test]
    fn energy_is_summed_up_over_a_lap() {
        let dir = tempfile::tempdir().unwrap();
        let zone = dir.path().join("class/powercap/intel-rapl:0");
        std::fs::create_dir_all(&zone).unwrap();
        let set = |file: &str, text: &str| std::fs::write(zone.join(file), text).unwrap();
        set("name", "package-0");
        set("energy_uj", "1000000");
        let start = Instant::now();
        let mut looker = Looker::new(dir.path(), start, Box::new(Vec::new));
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        set("energy_uj", "6000000");
        looker.look_at_power(at(500));
        set("energy_uj", "13000000");
        let energy = *looker.lap(at(1000)).energy.measured().unwrap();
        assert!((energy.joules - 12.0).abs() < 1e-4, "{energy:?}");
        assert_eq!(energy.source, PowerSource::CpuPackages);
        set("energy_uj", "15000000");
        let energy = *looker.lap(at(1500)).energy.measured().unwrap();
        assert!((energy.joules - 2.0).abs() < 1e-4, "{energy:?}");
    }

    #[test]
    fn where_there_is_no_sensor_the_reason_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let start = Instant::now();
        let lap = Looker::new(dir.path(), start, Box::new(Vec::new)).lap(start + Duration::from_secs(1));
        assert_eq!(lap.energy, Reading::Unavailable("no readable sensor".into()));
    }
}
