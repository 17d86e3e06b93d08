use super::*;

/// A package's counter, turned by hand as the clock is.
struct Bench {
    root: tempfile::TempDir,
    state: State,
    now: Instant,
    microjoules: f64,
}

impl Bench {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("class/powercap/intel-rapl:0")).unwrap();
        let now = Instant::now();
        let mut bench = Self { state: State::new(root.path(), now), root, now, microjoules: 1e6 };
        bench.write("name", "package-0");
        bench.write("energy_uj", "1000000");
        bench.state = State::new(bench.root.path(), now);
        bench.state.set_resting(true, now);
        bench
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.root.path().join("class/powercap/intel-rapl:0").join(file), text).unwrap();
    }

    /// Time goes by while the package takes so many watts; nobody looks.
    fn pass(&mut self, milliseconds: u64, watts: f64) {
        self.now += Duration::from_millis(milliseconds);
        self.microjoules += watts * milliseconds as f64 * 1e3;
        self.write("energy_uj", &format!("{:.0}", self.microjoules));
    }

    /// The same, and the background thread looks at the end.
    fn run(&mut self, milliseconds: u64, watts: f64) {
        self.pass(milliseconds, watts);
        self.state.look(self.now);
    }

    fn begin(&mut self) -> (u64, Arc<AtomicU64>) {
        self.state.begin(self.now)
    }

    fn end(&mut self, id: u64) -> Reading<SpanEnergy> {
        self.state.end(id, self.now)
    }
}

fn close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-3 * expected.abs().max(1.0), "{found}, expected {expected}");
}

fn measured(reading: Reading<SpanEnergy>) -> SpanEnergy {
    match reading {
        Reading::Measured(span) => span,
        Reading::Unavailable(reason) => panic!("{reason}"),
    }
}

fn reason(reading: Reading<SpanEnergy>) -> String {
    match reading {
        Reading::Unavailable(reason) => reason,
        Reading::Measured(span) => panic!("{span:?}"),
    }
}

/// Idle at 4 W; an answer of 1.7 s: 0.5 s at 20 W, 0.5 s at 30 W, 0.7 s at 10 W. That is 10 + 15 + 7 = 32 J, of which
/// 4 * 1.7 = 6.8 J would have been used anyway.
#[test]
fn an_answer_s_joules_and_those_above_idle() {
    let mut bench = Bench::new();
    bench.run(500, 4.0);
    bench.pass(300, 4.0);
    let (id, _) = bench.begin();
    bench.run(500, 20.0);
    bench.run(500, 30.0);
    bench.pass(700, 10.0);
    let span = measured(bench.end(id));
    close(span.joules, 32.0);
    close(span.seconds, 1.7);
    assert_eq!((span.source, span.shared), (PowerSource::CpuPackages, false));
    let energy = AnswerEnergy::new(span, bench.state.idle.watts());
    close(*energy.idle_watts.measured().unwrap(), 4.0);
    close(energy.joules().unwrap(), 25.2);
}

/// A look 20 ms before the answer's start and one 20 ms before its end: the sensor says nothing new at either. Of the
/// stretch from the first of them on, the answer gets its own part; its last 20 ms are reckoned with the 10 W before them.
#[test]
fn looks_that_come_too_soon_split_what_lies_around_them() {
    let mut bench = Bench::new();
    bench.run(1000, 10.0);
    bench.pass(20, 10.0);
    let (id, _) = bench.begin();
    bench.run(480, 10.0);
    bench.run(500, 10.0);
    bench.pass(20, 50.0);
    let span = measured(bench.end(id));
    close(span.joules, 10.0);
    close(span.share_seconds, 1.0);
    // The next stretch has a part of the answer in it, and counts as idle in no part.
    bench.run(500, 10.0);
    close(*bench.state.idle.watts().measured().unwrap(), 10.0);
}

/// For a second at 12 W two answers run, and get 30 tokens and 10: 9 J and 3 J. Before that the first runs alone for half
/// a second at 8 W, and after it the second for half a second at 6 W. All in all 19 J.
#[test]
fn answers_at_once_share_by_their_tokens() {
    let mut bench = Bench::new();
    bench.run(500, 2.0);
    let (first, first_tokens) = bench.begin();
    first_tokens.fetch_add(100, Ordering::Relaxed);
    bench.pass(500, 8.0);
    let (second, second_tokens) = bench.begin();
    first_tokens.fetch_add(30, Ordering::Relaxed);
    second_tokens.fetch_add(10, Ordering::Relaxed);
    bench.pass(1000, 12.0);
    let one = measured(bench.end(first));
    bench.pass(500, 6.0);
    let two = measured(bench.end(second));
    close(one.joules, 4.0 + 9.0);
    close(two.joules, 3.0 + 3.0);
    close(one.share_seconds, 0.5 + 0.75);
    close(two.share_seconds, 0.25 + 0.5);
    assert_eq!((one.shared, two.shared), (true, true));
    // 13 J less 2 W over the first one's share of the time.
    close(AnswerEnergy::new(one, bench.state.idle.watts()).joules().unwrap(), 10.5);
}

#[test]
fn prompts_that_are_read_at_once_share_equally() {
    let mut bench = Bench::new();
    let ((first, _), (second, _)) = (bench.begin(), bench.begin());
    bench.run(500, 10.0);
    for id in [first, second] {
        let span = measured(bench.end(id));
        close(span.joules, 2.5);
        assert!(span.shared);
    }
}

#[test]
fn what_is_not_known_is_no_number() {
    // Without idle time, what was used is told with the idle power in it.
    let mut bench = Bench::new();
    let (id, _) = bench.begin();
    bench.pass(1000, 5.0);
    let energy = AnswerEnergy::new(measured(bench.end(id)), bench.state.idle.watts());
    assert_eq!(energy.above_idle, Reading::Unavailable("no idle time was seen".into()));
    close(energy.joules().unwrap(), 5.0);

    // Idle power is not learnt while something else is done.
    let mut bench = Bench::new();
    bench.state.set_resting(false, bench.now);
    bench.run(1000, 50.0);
    bench.state.set_resting(true, bench.now);
    assert!(bench.state.idle.watts().measured().is_none());
    bench.run(1000, 3.0);
    close(*bench.state.idle.watts().measured().unwrap(), 3.0);

    // No more than idle.
    let (id, _) = bench.begin();
    bench.pass(1000, 2.0);
    let energy = AnswerEnergy::new(measured(bench.end(id)), bench.state.idle.watts());
    assert_eq!(energy.above_idle, Reading::Unavailable("no more than the idle power of 3.0 W".into()));
    assert_eq!(energy.joules(), None);

    // Too short for the sensor.
    let (id, _) = bench.begin();
    bench.pass(10, 2.0);
    assert_eq!(reason(bench.end(id)), "the answer was too short to measure");

    // The machine slept.
    let (id, _) = bench.begin();
    bench.run(500, 2.0);
    bench.run(20_000, 2.0);
    bench.pass(500, 2.0);
    assert_eq!(reason(bench.end(id)), "not all of it was measured: the sensor said nothing for 20 s");

    // The sensor went away.
    let (id, _) = bench.begin();
    bench.run(500, 2.0);
    std::fs::remove_file(bench.root.path().join("class/powercap/intel-rapl:0/energy_uj")).unwrap();
    bench.now += Duration::from_millis(500);
    let said = reason(bench.end(id));
    assert!(said.starts_with("not all of it was measured: ") && said.contains("energy_uj"), "{said}");
}

#[test]
fn no_sensor_is_a_reason_and_not_a_zero() {
    let root = tempfile::tempdir().unwrap();
    let meter = EnergyMeter::start(root.path()).unwrap();
    let span = meter.begin();
    span.token();
    std::thread::sleep(Duration::from_millis(150));
    assert_eq!(span.end(), Reading::Unavailable("no readable sensor".into()));
    assert!(meter.idle_watts().measured().is_none());
}

/// Old idle power fades: after a minute at 10 W and then ten minutes at 2 W, less than a thousandth of it is left.
#[test]
fn idle_power_follows_the_machine() {
    let mut bench = Bench::new();
    (0..120).for_each(|_| bench.run(500, 10.0));
    close(*bench.state.idle.watts().measured().unwrap(), 10.0);
    (0..1200).for_each(|_| bench.run(500, 2.0));
    let watts = *bench.state.idle.watts().measured().unwrap();
    assert!((2.0..2.008).contains(&watts), "{watts}");
}

/// An answer that nobody ends, as a request whose client went away, is over when it is dropped.
#[test]
fn a_dropped_answer_takes_no_share_of_the_next() {
    let root = tempfile::tempdir().unwrap();
    let meter = EnergyMeter::start(root.path()).unwrap();
    drop(meter.begin());
    assert!(lock(&meter.shared).answers.is_empty());
}

/// Two looks a second may cost a hundredth of a core: 5 ms each, by the kernel's account of this thread.
#[cfg(target_os = "linux")]
#[test]
fn a_look_is_cheap() {
    let on_cpu = || {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
    };
    let mut bench = Bench::new();
    let start = on_cpu();
    for _ in 0..50 {
        bench.now += Duration::from_millis(500);
        bench.state.look(bench.now);
    }
    let each = (on_cpu() - start) / 50;
    assert!(each < Duration::from_millis(5), "{each:?}");
}
