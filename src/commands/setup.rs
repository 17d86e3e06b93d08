//! `ortalk setup`: fetches ONNX Runtime and the default model now, and says what is where.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;

use super::fetch::{FetchDisplay, Interrupt, interrupted, megabytes};
use crate::config::Settings;
use crate::paths::Paths;
use crate::provision::{self, DEFAULT_MODEL_NAME, ObtainError, ProvisionError};

pub fn run() -> anyhow::Result<ExitCode> {
    let paths = Paths::discover()?;
    let settings = Settings::load(&paths.settings_file())?;
    let interrupt = Interrupt::listen().context("Ctrl-C cannot be listened for")?;
    let mut display = FetchDisplay::new(interrupt);
    let rows = fetch_all(&settings, &paths, &mut display);
    display.clear();
    match rows {
        Ok(rows) => {
            print!("{}", table(&rows));
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => match error.downcast_ref::<ProvisionError>() {
            Some(stopped) if stopped.is_cancelled() => {
                eprintln!("ortalk: {stopped}");
                Ok(interrupted())
            }
            _ => Err(error),
        },
    }
}

/// One line of the table: a thing, how it comes to be there, and where it is.
#[derive(Debug)]
struct Row {
    what: String,
    origin: String,
    path: PathBuf,
}

fn fetch_all(settings: &Settings, paths: &Paths, display: &mut FetchDisplay) -> anyhow::Result<Vec<Row>> {
    let report = &mut |progress: &_| display.report(progress);
    let library = provision::obtain_onnx_runtime(settings, paths, report).map_err(|error| match error {
        ObtainError::Provision(error) => anyhow::Error::from(error),
        ObtainError::Named(error) => error.into(),
    })?;
    let library = Row { what: "ONNX Runtime".into(), origin: library.origin.to_string(), path: library.path };
    let model = match &settings.model {
        Some(path) => {
            anyhow::ensure!(
                path.exists(),
                "model in '{}' names '{}', but there is no such file or folder; correct it, or remove it to use {}",
                paths.settings_file().display(),
                path.display(),
                DEFAULT_MODEL_NAME
            );
            Row { what: "model".into(), origin: "named in the settings".into(), path: path.clone() }
        }
        None => {
            let model = provision::ensure_default_model_source(paths, report)?;
            let origin = if model.fetched { "fetched" } else { "in ortalk's cache" };
            Row { what: DEFAULT_MODEL_NAME.into(), origin: origin.into(), path: model.path }
        }
    };
    Ok(vec![library, model])
}

fn table(rows: &[Row]) -> String {
    let width = |column: fn(&Row) -> &str| rows.iter().map(|row| column(row).len()).max().unwrap_or(0);
    let (what, origin) = (width(|row| &row.what), width(|row| &row.origin));
    let line = |row: &Row| {
        format!("{:what$}  {:origin$}  {:>9}  {}\n", row.what, row.origin, size(&row.path), row.path.display())
    };
    rows.iter().map(line).collect()
}

/// A folder's size would need a walk through it, and says little.
fn size(path: &Path) -> String {
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() => megabytes(found.len()),
        Ok(_) => "folder".into(),
        Err(_) => "?".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_line_up() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("m.gguf");
        std::fs::write(&file, vec![0; 1_500_000]).unwrap();
        let row = |what: &str, origin: &str, path: &Path| Row {
            what: what.into(),
            origin: origin.into(),
            path: path.to_path_buf(),
        };
        let text = table(&[row("ONNX Runtime", "fetched", dir.path()), row("model", "in ortalk's cache", &file)]);
        let expected = format!(
            "ONNX Runtime  fetched               folder  {}\nmodel         in ortalk's cache     1.5 MB  {}\n",
            dir.path().display(),
            file.display()
        );
        assert_eq!(text, expected);
    }
}
