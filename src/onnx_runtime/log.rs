//! Where ONNX Runtime's own messages go: to a sink that the program chooses, never to the screen.

use std::sync::Arc;

use ort::logging::{LogLevel, LoggerFunction};

/// Receives warnings and errors, one line each.
pub type LogSink = Arc<dyn Fn(&str) + Send + Sync>;

pub(super) fn logger(sink: LogSink) -> LoggerFunction {
    Arc::new(move |level: LogLevel, category: &str, _id: &str, location: &str, message: &str| {
        let name = match level {
            LogLevel::Verbose | LogLevel::Info => return,
            LogLevel::Warning => "warning",
            LogLevel::Error => "error",
            LogLevel::Fatal => "fatal",
        };
        sink(&format!("onnxruntime {name}: {message} [{category}, {location}]"));
    })
}
