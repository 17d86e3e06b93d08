//! What `ortalk bench --tune` chooses, beside a plain sweep over all settings, on the default model: both measure in turns in
//! one process, so that what disturbs the machine disturbs both. The sweep runs every setting in every round.
//!
//! The choice is right where it is the sweep's best, or where the sweep cannot tell it from that: by the rule of
//! `ortalk::bench::tune`, over the sweep's own rounds. Else the exit status is 1.
//!
//! `cargo bench --bench tune`; what is fetched and built stays in `target/tmp`.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use ortalk::bench::tune::{ROUNDS, Space, Timer, Timing, compare, search};
use ortalk::commands::fetch::{AfterFetch, FetchDisplay};
use ortalk::commands::session;
use ortalk::config::Settings;
use ortalk::engine::{ChosenBy, CpuSetting, Engine, EngineOptions, cpu_lane};
use ortalk::model::ModelFolder;
use ortalk::onnx_runtime::OnnxRuntime;
use ortalk::paths::Paths;
use ortalk::telemetry::statistics::median;

/// Of the sweep, for each measurement of the search.
const SHARE: usize = 2;
/// Enough for a prompt and its answer.
const CONTEXT: usize = 1024;

fn main() -> ExitCode {
    let paths = Paths::below(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("home"));
    let mut display = FetchDisplay::new(AfterFetch::Exit);
    let library = session::library(&Settings::default(), &paths, &mut display).unwrap().path;
    let model = session::model(None, &Settings::default(), &paths, &mut display).unwrap();
    display.finish();
    let runtime = OnnxRuntime::load(&library, Arc::new(|_| ())).unwrap();
    let model = Arc::new(ModelFolder::open(&model).unwrap());
    let open = Box::new(|setting| {
        let lane = cpu_lane(runtime.clone(), model.clone(), (setting, ChosenBy::Tuning), Some(CONTEXT), 0);
        Ok(Engine::load(EngineOptions { model: model.clone(), lanes: vec![lane], emulation: false, listener: None })?)
    });
    let (mut timer, space) = Timer::new(session::default_cpu(), session::usable_threads(), open).unwrap();
    let mut sweep = Sweep::new(&space);
    let tuned = search::<anyhow::Error>(&space, &mut |progress, decodes| {
        for _ in 0..SHARE {
            sweep.go_on(&mut timer);
        }
        timer.time(progress.setting, decodes)
    });
    let tuned = tuned.unwrap();
    while !sweep.is_done() {
        sweep.go_on(&mut timer);
    }

    println!("the sweep, {} measurements; median time of a turn", sweep.settings.len() * ROUNDS);
    for (setting, timings) in sweep.settings.iter().zip(&sweep.timings) {
        println!("{:44}{:9.0} ms", setting.to_string(), turn_ms(timings));
    }
    let (best, times) = sweep.best();
    let of_chosen = sweep.timings_of(tuned.chosen);
    println!("\nthe sweep's best      {}", best);
    println!("--tune, {:4} measured {}", tuned.measurements(), tuned.chosen);
    let beside = compare(of_chosen, times);
    let interval = beside.interval.map_or_else(String::new, |(low, high)| format!(", {low:.3} to {high:.3}"));
    let verdict = match (tuned.chosen == best, beside.slower) {
        (true, _) => "the same",
        (false, false) => "the sweep cannot tell them apart",
        (false, true) => "the sweep's is faster",
    };
    println!("a turn's time, --tune / sweep  {:.3}{interval}: {verdict}", beside.ratio);
    if beside.slower { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn turn_ms(timings: &[Timing]) -> f64 {
    median(&timings.iter().map(Timing::turn_ms).collect::<Vec<_>>()).unwrap()
}

/// Every setting, in every round.
struct Sweep {
    settings: Vec<CpuSetting>,
    timings: Vec<Vec<Timing>>,
    done: usize,
}

impl Sweep {
    fn new(space: &Space) -> Self {
        let mut settings = Vec::new();
        for threads in 1..=space.threads {
            for spinning in [false, true] {
                // A single thread waits for nobody.
                if threads > 1 || !spinning {
                    let chunks = space.chunks.iter();
                    settings.extend(chunks.map(|chunk| CpuSetting { threads, spinning, prefill_chunk: *chunk }));
                }
            }
        }
        Self { timings: vec![Vec::new(); settings.len()], settings, done: 0 }
    }

    fn is_done(&self) -> bool {
        self.done == self.settings.len() * ROUNDS
    }

    /// The next measurement, if there is one.
    fn go_on(&mut self, timer: &mut Timer<'_>) {
        if !self.is_done() {
            let count = self.settings.len();
            let (round, step) = (self.done / count, self.done % count);
            // Nobody always runs first, or behind the same one.
            let step = if round % 2 == 1 { count - 1 - step } else { step };
            let index = (step + round) % count;
            self.timings[index].push(timer.time(self.settings[index], true).unwrap());
            self.done += 1;
        }
    }

    fn best(&self) -> (CpuSetting, &[Timing]) {
        let all = self.settings.iter().zip(&self.timings);
        let (setting, timings) = all.min_by(|a, b| turn_ms(a.1).total_cmp(&turn_ms(b.1))).unwrap();
        (*setting, timings)
    }

    fn timings_of(&self, setting: CpuSetting) -> &[Timing] {
        let index = self.settings.iter().position(|other| *other == setting).expect("the sweep has all settings");
        &self.timings[index]
    }
}
