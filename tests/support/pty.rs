//! A program in a pseudo-terminal: types at it, and keeps what a person would see.

use std::io::{Read, Write};
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal};

/// A loaded machine may take long; a broken program never answers.
const PATIENCE: Duration = Duration::from_secs(60);

fn some(size: u16) -> NonZero<u16> {
    NonZero::new(size).unwrap()
}

pub struct Terminal {
    master: Option<Box<dyn MasterPty + Send>>,
    writer: Option<Box<dyn Write + Send>>,
    child: Box<dyn Child + Send + Sync>,
    seen: Arc<Mutex<Seen>>,
    reading: Arc<AtomicBool>,
}

struct Seen {
    parser: vt100::Parser,
    raw: Vec<u8>,
}

impl Terminal {
    pub fn start(mut command: CommandBuilder, columns: u16, rows: u16) -> Self {
        let size = PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        command.env("TERM", "xterm-256color");
        command.env("LANG", "C.UTF-8");
        command.env_remove("LC_ALL");
        command.env_remove("NO_COLOR");
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let seen =
            Arc::new(Mutex::new(Seen { parser: vt100::Parser::new(some(rows), some(columns), 0), raw: Vec::new() }));
        let reading = Arc::new(AtomicBool::new(true));
        let mut reader = pair.master.try_clone_reader().unwrap();
        let writer = pair.master.take_writer().unwrap();
        std::thread::spawn({
            let (seen, reading) = (seen.clone(), reading.clone());
            move || {
                let mut buffer = [0; 65536];
                while let Ok(count @ 1..) = reader.read(&mut buffer) {
                    let mut seen = seen.lock().unwrap();
                    seen.parser.process(&buffer[..count]);
                    seen.raw.extend_from_slice(&buffer[..count]);
                    drop(seen);
                    if !reading.load(Ordering::SeqCst) {
                        return;
                    }
                }
            }
        });
        Self { master: Some(pair.master), writer: Some(writer), child, seen, reading }
    }

    pub fn send(&mut self, text: &str) {
        self.writer.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    pub fn resize(&mut self, columns: u16, rows: u16) {
        self.seen.lock().unwrap().parser.screen_mut().set_size(some(rows), some(columns));
        let size = PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 };
        self.master.as_ref().unwrap().resize(size).unwrap();
    }

    pub fn signal(&self, signal: Signal) {
        rustix::process::kill_process(self.pid(), signal).unwrap();
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.process_id().unwrap() as i32).unwrap()
    }

    pub fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid().as_raw_nonzero())).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    }

    #[allow(dead_code, reason = "not every test looks at more than text")]
    pub fn with_screen<T>(&self, look: impl FnOnce(&vt100::Screen) -> T) -> T {
        look(self.seen.lock().unwrap().parser.screen())
    }

    /// What stands on the screen.
    pub fn screen(&self) -> String {
        self.seen.lock().unwrap().parser.screen().contents()
    }

    pub fn alternate_screen(&self) -> bool {
        self.seen.lock().unwrap().parser.screen().alternate_screen()
    }

    /// Everything that was written.
    pub fn raw(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap().raw).into_owned()
    }

    pub fn wait_for(&mut self, text: &str) {
        self.wait_until(text, |terminal| terminal.screen().contains(text));
    }

    pub fn wait_until(&mut self, what: &str, condition: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !condition(self) {
            assert!(start.elapsed() < PATIENCE, "'{what}' never came; the screen:\n{}", self.screen());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn exit_code(&mut self) -> u32 {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                // The last bytes may still be on their way to the reader.
                std::thread::sleep(Duration::from_millis(100));
                return status.exit_code();
            }
            assert!(start.elapsed() < PATIENCE, "the program does not end; the screen:\n{}", self.screen());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn assert_ends_within(&mut self, time: Duration) {
        let start = Instant::now();
        self.exit_code();
        assert!(start.elapsed() < time, "{:?}", start.elapsed());
    }

    /// The terminal is as a shell wants it: main screen, cooked mode, no modes left on.
    pub fn assert_restored(&self) {
        let seen = self.seen.lock().unwrap();
        let screen = seen.parser.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor() && !screen.bracketed_paste());
        assert_eq!(screen.mouse_protocol_mode(), vt100::MouseProtocolMode::None);
        let raw = String::from_utf8_lossy(&seen.raw);
        assert_eq!(raw.matches("\x1b[>1u").count(), raw.matches("\x1b[<1u").count());
        let mode = self.master.as_ref().unwrap().get_termios().unwrap();
        let text = format!("{:?}", mode.local_flags);
        assert!(text.contains("ICANON") && text.contains("ECHO") && text.contains("ISIG"), "{text}");
    }

    /// Closes the terminal, as a window that is closed or a connection that breaks does.
    pub fn close_terminal(&mut self) {
        // The reader holds a duplicate: it must let go too.
        self.reading.store(false, Ordering::SeqCst);
        self.writer = None;
        self.master = None;
    }

    pub fn stop_reading(&mut self) {
        self.reading.store(false, Ordering::SeqCst);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
