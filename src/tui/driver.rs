//! The event loop: gathers events from the threads and the answer's stream, has `update` turn them into effects, and
//! performs those. Draws when something changed, at most 30 times a second.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::bill::{Books, Tab};
use crate::engine::{ChatRequest, EngineSnapshot, GenerationEvent, GenerationStream, RoutingDecision};
use crate::log_file;
use crate::recording::Recording;

use super::backend::{Backend, Models, OpenedModel, RefusedModel};
use super::chats::{ChatOptions, Shelf, Wish};
use super::clipboard::Clipboard;
use super::errands::Errands;
use super::event::{Effect, Event, Exit, SuspendedBy};
use super::frames::FrameLimiter;
use super::input::Pause;
use super::race::{self, RunningRace};
use super::record::ScreenRecorder;
use super::replay::Player;
use super::skin::Skin;
use super::state::State;
use super::switch::{Switch, Switcher};
use super::terminal::{self, Screen};
use super::update::update;
use super::{Load, Sample, editor, input, platform, view};

/// Between two looks at the machine.
const SAMPLE_PERIOD: Duration = Duration::from_secs(1);
/// How long a model that nobody waits for any more may go on loading.
const LOADER_PATIENCE: Duration = Duration::from_secs(3);
/// Events that are taken in before the next frame, so that a flood of them cannot stop the drawing.
const BATCH: usize = 256;

/// Of the log, in bytes: its end is what somebody looks for.
const LOG_SHOWN: u64 = 128 << 10;

/// What the threads send.
pub enum Message {
    Event(Event),
    Loaded(Result<Arc<dyn Backend>, String>),
    Switch(Switch),
}

struct Driver {
    state: State,
    skin: Skin,
    screen: Screen,
    backend: Option<Arc<dyn Backend>>,
    stream: Option<GenerationStream>,
    switcher: Switcher,
    books: Option<Books>,
    errands: Errands,
    pause: Pause,
    /// The running answer's.
    tab: Option<Tab>,
    recorder: Option<ScreenRecorder>,
    race: Option<RunningRace>,
    player: Option<Player>,
    /// Kept conversations.
    shelf: Option<Shelf>,
    sender: UnboundedSender<Message>,
    limiter: FrameLimiter,
    clipboard: Clipboard,
}

/// What the screen is fed from.
pub struct Sources {
    pub load: Load,
    pub models: Option<Arc<dyn Models>>,
    pub sample: Option<Sample>,
    pub books: Option<Books>,
    pub chats: Option<ChatOptions>,
    /// Where what was sent is kept for later sessions.
    pub history: Option<PathBuf>,
    pub recorder: Option<ScreenRecorder>,
    /// Played in place of an engine, with its speed.
    pub recording: Option<(Recording, f64)>,
}

/// Runs until the reader quits or the terminal is gone.
pub fn run(state: State, skin: Skin, sources: Sources) -> io::Result<Exit> {
    terminal::install_panic_hook();
    let (sender, receiver) = unbounded_channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let signals = sender.clone();
    platform::watch_signals(
        move |signal| {
            let _ = signals.send(Message::Event(Event::Signal(signal)));
        },
        terminal::give_back,
    )?;
    let screen = Screen::enter(&state.log_file, state.mouse)?;
    let (keys, open) = (sender.clone(), sender.clone());
    let pause = Pause::default();
    input::spawn(pause.clone(), move |event| keys.send(Message::Event(event)).is_ok(), move || !open.is_closed())?;
    let Sources { load, models, sample, books, chats, history, recorder, recording } = sources;
    let played = sender.clone();
    let player = recording.map(|(recording, speed)| {
        Player::start(recording, speed, move |event| {
            let _ = played.send(Message::Event(event));
        })
    });
    let player = player.transpose()?;
    let loader = match &player {
        Some(_) => None,
        None => Some(spawn_loader(load, sender.clone())?),
    };
    if let Some(sample) = sample {
        spawn_sampler(sample, sender.clone())?;
    }
    let copies = sender.clone();
    let clipboard = Clipboard::new(state.connection, move |outcome| {
        let _ = copies.send(Message::Event(Event::Clipboard(outcome)));
    });
    let mut driver = Driver {
        state,
        skin,
        screen,
        backend: None,
        stream: None,
        switcher: Switcher::new(models),
        books,
        errands: Errands::new(events(&sender), history)?,
        pause,
        tab: None,
        recorder,
        race: None,
        player,
        shelf: None,
        sender,
        limiter: FrameLimiter::default(),
        clipboard,
    };
    if let Some(chats) = chats {
        driver.open_shelf(chats)?;
    }
    let result = runtime.block_on(driver.run(receiver));
    // The screen first, then the engine, whose threads may take a moment.
    let race = driver.race.take().and_then(RunningRace::stop);
    driver.recorder = None;
    let Driver { switcher, screen, backend, stream, .. } = driver;
    drop((screen, stream, backend));
    let loading = switcher.into_loading();
    [loader, loading, race].iter().flatten().for_each(wait_for);
    // Whatever a thread still does for us is of no use any more.
    runtime.shutdown_background();
    match result {
        // A screen that cannot be written to is as gone as one that cannot be read from.
        Err(_) if platform::terminal_gone() => Ok(Exit::TerminalLost),
        result => result,
    }
}

fn spawn_loader(load: Load, sender: UnboundedSender<Message>) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("load".into()).spawn(move || {
        let loaded = catch_unwind(AssertUnwindSafe(load))
            .unwrap_or_else(|_| Err("loading the model broke; the log says where".to_string()));
        let _ = sender.send(Message::Loaded(loaded));
    })
}

/// Native libraries take it ill when the process ends in the middle of their work.
fn wait_for(loader: &JoinHandle<()>) {
    let start = Instant::now();
    while !loader.is_finished() && start.elapsed() < LOADER_PATIENCE {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// For threads that know nothing of the driver.
fn events(sender: &UnboundedSender<Message>) -> impl Fn(Event) + Clone + Send + 'static {
    let sender = sender.clone();
    move |event| {
        let _ = sender.send(Message::Event(event));
    }
}

fn spawn_sampler(mut sample: Sample, sender: UnboundedSender<Message>) -> io::Result<()> {
    std::thread::Builder::new().name("device".into()).spawn(move || {
        while sender.send(Message::Event(Event::Device(Box::new(sample())))).is_ok() {
            std::thread::sleep(SAMPLE_PERIOD);
        }
    })?;
    Ok(())
}

impl Driver {
    async fn run(&mut self, mut receiver: UnboundedReceiver<Message>) -> io::Result<Exit> {
        loop {
            let now = Instant::now();
            let frame = self.state.dirty.then(|| self.limiter.next(now, self.state.pace));
            if frame.is_some_and(|at| at <= now) {
                self.draw(now)?;
                continue;
            }
            let deadline = [frame, self.state.deadline(now)].into_iter().flatten().min();
            let mut exit = tokio::select! {
                biased;
                Some(message) = receiver.recv() => self.take(message)?,
                event = next(&mut self.stream) => self.generated(event)?,
                () = sleep_until(deadline) => self.handle(Event::Tick)?,
            };
            // The rest of what has come, so that many events share a frame.
            for _ in 0..BATCH {
                if exit.is_some() {
                    break;
                }
                exit = if let Ok(message) = receiver.try_recv() {
                    self.take(message)?
                } else if let Some(Ok(event)) = self.stream.as_mut().map(GenerationStream::try_recv) {
                    self.generated(Some(event))?
                } else {
                    break;
                };
            }
            if let Some(exit) = exit {
                return Ok(exit);
            }
        }
    }

    fn draw(&mut self, now: Instant) -> io::Result<()> {
        self.state.dirty = false;
        self.shelf.iter_mut().for_each(Shelf::settle);
        self.skin.theme = self.state.looks.theme();
        let (state, skin) = (&mut self.state, &self.skin);
        self.screen.draw(|frame| view::draw(state, skin, now, frame))?;
        self.limiter.drawn(now);
        Ok(())
    }

    fn take(&mut self, message: Message) -> io::Result<Option<Exit>> {
        match message {
            Message::Event(event) => {
                if let Event::Resize { .. } = event {
                    // The newest size, not that of an event that waited.
                    let (columns, rows) = terminal::size();
                    self.screen.resize(columns, rows);
                    return self.handle(Event::Resize { columns, rows });
                }
                self.handle(event)
            }
            Message::Loaded(Ok(backend)) => {
                let snapshot = backend.snapshot();
                self.backend = Some(backend);
                self.observe(&snapshot);
                self.handle(Event::EngineLoaded(snapshot))
            }
            Message::Loaded(Err(error)) => self.handle(Event::EngineFailed(error)),
            Message::Switch(switch) => self.switch(switch),
        }
    }

    fn switch(&mut self, switch: Switch) -> io::Result<Option<Exit>> {
        match switch {
            Switch::Release(give) => {
                self.stream = None;
                self.bill()?;
                let exit = self.handle(Event::EngineReleased)?;
                let _ = give.send(self.backend.take());
                Ok(exit)
            }
            Switch::Opened(OpenedModel { backend, answers }) => {
                let snapshot = backend.snapshot();
                let old = self.backend.replace(backend);
                self.switcher.retire(old, self.stream.is_some());
                self.observe(&snapshot);
                self.handle(Event::ModelOpened(snapshot, Box::new(answers)))
            }
            Switch::Refused(RefusedModel { error, instead }) => {
                if let Some(backend) = instead {
                    let snapshot = backend.snapshot();
                    self.backend = Some(backend);
                    self.handle(Event::EngineLoaded(snapshot))?;
                } else if self.backend.is_none() {
                    return self.handle(Event::EngineFailed(error));
                }
                self.handle(Event::ModelRefused(error))
            }
        }
    }

    fn generated(&mut self, event: Option<GenerationEvent>) -> io::Result<Option<Exit>> {
        match event {
            Some(event) => {
                self.tab.iter_mut().for_each(|tab| tab.note(&event));
                if matches!(event, GenerationEvent::Finished(_)) {
                    self.stream = None;
                    self.switcher.end_of_answer();
                    // Its end may start the next answer.
                    self.bill()?;
                }
                self.handle(Event::Generation(event))
            }
            None => {
                self.stream = None;
                self.switcher.end_of_answer();
                self.bill()?;
                self.handle(Event::GenerationLost)
            }
        }
    }

    /// Closes the answer's tab.
    fn bill(&mut self) -> io::Result<()> {
        if let Some(tab) = self.tab.take() {
            self.handle(Event::Billed(Box::new(tab.close())))?;
        }
        Ok(())
    }

    fn observe(&self, snapshot: &EngineSnapshot) {
        self.books.iter().for_each(|books| books.observe(&snapshot.lanes));
    }

    fn handle(&mut self, event: Event) -> io::Result<Option<Exit>> {
        let now = Instant::now();
        self.state.chats.wall = chrono::Utc::now();
        self.recorder.iter_mut().for_each(|recorder| recorder.note(&event, now));
        let effects = update(&mut self.state, event, now);
        if let Some(recorder) = &mut self.recorder {
            recorder.note_effects(&effects, &self.state, now);
            if let Some(failure) = recorder.failure() {
                self.state.hint = Some(failure);
                self.recorder = None;
            }
        }
        for effect in effects {
            if let Some(exit) = self.perform(effect)? {
                return Ok(Some(exit));
            }
        }
        Ok(None)
    }

    fn perform(&mut self, effect: Effect) -> io::Result<Option<Exit>> {
        match effect {
            Effect::Submit(request) => {
                let model = self.state.snapshot().map(|snapshot| snapshot.model.as_str()).unwrap_or_default();
                self.tab = self.books.as_ref().map(|books| books.open(model));
                self.stream = self.backend.as_ref().map(|backend| backend.submit(request));
            }
            Effect::CancelGeneration => {
                self.stream = None;
                self.switcher.end_of_answer();
                self.bill()?;
            }
            Effect::Preview { revision, request } => {
                if self.backend.as_ref().is_some_and(|backend| backend.previews()) {
                    self.ask_router(request, move |result| Event::Previewed { revision, result })?;
                }
            }
            Effect::CountConversation { number, request } => {
                if self.backend.as_ref().is_some_and(|backend| backend.previews()) {
                    self.ask_router(request, move |result| Event::ConversationCounted { number, result })?;
                }
            }
            Effect::Weigh(request) => self.ask_router(request, Event::Weighed)?,
            Effect::Race { number, plan } => {
                let sender = self.sender.clone();
                let send = move |event| {
                    let _ = sender.send(Message::Event(event));
                };
                if let Some(backend) = self.backend.clone() {
                    self.race = Some(race::spawn(backend, self.books.clone(), *plan, number, send)?);
                }
            }
            Effect::CancelRace => self.race = None,
            Effect::PauseReplay(paused) => self.player.iter().for_each(|player| player.pause(paused)),
            Effect::RefreshSnapshot => {
                if let Some(backend) = &self.backend {
                    let snapshot = backend.snapshot();
                    self.observe(&snapshot);
                    return self.handle(Event::Snapshot(snapshot));
                }
            }
            Effect::CountTokens(inset) => self.errands.count(self.backend.as_ref(), inset)?,
            Effect::ListFolder(folder) => self.errands.list(folder)?,
            Effect::ReadFile(mentioned) => self.errands.read(mentioned)?,
            Effect::Remember(message) => self.errands.remember(message),
            Effect::Edit(text) => {
                let result = editor::edit_on(&mut self.screen, &self.pause, &text);
                self.state.dirty = true;
                return self.handle(Event::Edited(result));
            }
            Effect::TakeMouse(on) => self.screen.take_mouse(on)?,
            Effect::Copy(text) => {
                let sequence = self.clipboard.copy(text);
                self.screen.send(&sequence.unwrap_or_default())?;
            }
            Effect::CopyByTerminal(text) => {
                let sequence = self.clipboard.copy_by_terminal(&text);
                self.screen.send(&sequence.unwrap_or_default())?;
            }
            Effect::Chats(wish) => {
                if let Some(news) = self.shelf.as_mut().and_then(|shelf| shelf.perform(wish)) {
                    return self.handle(Event::Chats(news));
                }
            }
            Effect::ListModels => self.switcher.list(self.sender.clone())?,
            Effect::OpenModel(name) => self.switcher.open(name, self.sender.clone())?,
            Effect::ReadLog => self.read_log()?,
            Effect::Suspend { by } => {
                if by == SuspendedBy::Key && !platform::can_stop() {
                    self.state.hint = Some("there is no shell to go back to".to_string());
                } else {
                    self.screen.lend(|| platform::stop(by))?;
                }
                self.state.dirty = true;
            }
            Effect::Repaint => {
                self.screen.retake()?;
                self.state.dirty = true;
            }
            Effect::Quit(exit) => return Ok(Some(exit)),
        }
        Ok(None)
    }
}

/// What the router said, as an event.
type Answered = Result<RoutingDecision, String>;

impl Driver {
    fn open_shelf(&mut self, chats: ChatOptions) -> io::Result<()> {
        let sender = self.sender.clone();
        let tell = move |news| drop(sender.send(Message::Event(Event::Chats(news))));
        let shelf = self.shelf.insert(Shelf::open(chats.store, tell)?);
        if let Some(id) = chats.resume {
            self.state.chats.is_opening = true;
            shelf
                .perform(Wish::Open { id, writes: chats.saves })
                .map(|news| self.handle(Event::Chats(news)))
                .transpose()?;
        }
        Ok(())
    }

    /// On a thread of its own: the tokenizer may take its time.
    fn ask_router(
        &self,
        request: ChatRequest,
        event: impl FnOnce(Answered) -> Event + Send + 'static,
    ) -> io::Result<()> {
        let Some(backend) = self.backend.clone() else { return Ok(()) };
        let sender = self.sender.clone();
        std::thread::Builder::new().name("preview".into()).spawn(move || {
            let result = catch_unwind(AssertUnwindSafe(|| backend.preview(&request)))
                .unwrap_or_else(|_| Err("the router broke; the log says where".to_string()));
            let _ = sender.send(Message::Event(event(result)));
        })?;
        Ok(())
    }
}

impl Driver {
    fn read_log(&self) -> io::Result<()> {
        let (path, sender) = (self.state.log_file.clone(), self.sender.clone());
        std::thread::Builder::new().name("log".into()).spawn(move || {
            let result = log_file::tail(&path, LOG_SHOWN).map_err(|error| error.to_string());
            let _ = sender.send(Message::Event(Event::LogRead(result)));
        })?;
        Ok(())
    }
}

/// The next event of the answer; waits for ever where there is no answer.
async fn next(stream: &mut Option<GenerationStream>) -> Option<GenerationEvent> {
    match stream {
        Some(stream) => stream.recv().await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}
