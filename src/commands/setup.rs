//! `ortalk setup`: fetches ONNX Runtime and the default model now, the QNN plug-in where it is asked for, and says what is
//! where.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::fetch::{AfterFetch, FetchDisplay, megabytes};
use super::run::print_now;
use super::session;
use crate::cli::SetupArgs;
use crate::config::Settings;
use crate::paths::Paths;
use crate::provision::{self, DEFAULT_MODEL_NAME, FoundPlugin};

pub fn run(args: &SetupArgs) -> anyhow::Result<ExitCode> {
    let paths = Paths::discover()?;
    let settings = Settings::load(&paths.settings_file())?;
    let mut display = FetchDisplay::new(AfterFetch::Exit);
    let rows = fetch_all(args, &settings, &paths, &mut display);
    display.finish();
    let rows = rows?;
    display.go_on()?;
    print_now(&table(&rows))?;
    Ok(ExitCode::SUCCESS)
}

/// One line of the table: a thing, how it comes to be there, and where it is.
#[derive(Debug)]
struct Row {
    what: String,
    origin: String,
    path: PathBuf,
}

fn fetch_all(
    args: &SetupArgs,
    settings: &Settings,
    paths: &Paths,
    display: &mut FetchDisplay,
) -> anyhow::Result<Vec<Row>> {
    let library = session::library(settings, paths, display)?;
    let mut rows = vec![Row { what: "ONNX Runtime".into(), origin: library.origin.to_string(), path: library.path }];
    if let Some(FoundPlugin { plugin, origin }) = plugin(args, settings, paths, display)? {
        let row = |what: &str, path| Row { what: what.into(), origin: origin.to_string(), path };
        rows.extend([row("QNN plug-in", plugin.library), row("QNN backend", plugin.backend)]);
    }
    if settings.model.is_none() {
        let source = provision::ensure_default_model_source(paths, &mut |progress| display.report(progress))?;
        let origin = if source.fetched { "fetched" } else { "in ortalk's cache" };
        rows.push(Row { what: DEFAULT_MODEL_NAME.into(), origin: origin.into(), path: source.path });
    }
    let path = session::model(None, settings, paths, display)?;
    let origin = if path.starts_with(&paths.cache) { "in ortalk's cache" } else { "named in the settings" };
    rows.push(Row { what: "model folder".into(), origin: origin.into(), path });
    Ok(rows)
}

/// The plug-in, if it is there or asked for.
fn plugin(
    args: &SetupArgs,
    settings: &Settings,
    paths: &Paths,
    display: &mut FetchDisplay,
) -> anyhow::Result<Option<FoundPlugin>> {
    if !args.npu {
        return Ok(provision::find_qnn_plugin(settings, paths)?);
    }
    let found = session::qnn_plugin(settings, paths, display)?;
    Ok(Some(found))
}

fn table(rows: &[Row]) -> String {
    let width = |column: fn(&Row) -> &str| rows.iter().map(|row| column(row).len()).max().unwrap_or(0);
    let (what, origin) = (width(|row| &row.what), width(|row| &row.origin));
    let line = |row: &Row| {
        format!("{:what$}  {:origin$}  {:>9}  {}\n", row.what, row.origin, size(&row.path), row.path.display())
    };
    rows.iter().map(line).collect()
}

/// Of a file, or of the files right in a folder.
fn size(path: &Path) -> String {
    let in_folder = || -> std::io::Result<u64> {
        std::fs::read_dir(path)?.map(|entry| entry.and_then(|entry| entry.metadata()).map(|found| found.len())).sum()
    };
    let bytes = std::fs::metadata(path).and_then(|found| if found.is_dir() { in_folder() } else { Ok(found.len()) });
    bytes.map_or_else(|_| "?".into(), megabytes)
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
            "ONNX Runtime  fetched               1.5 MB  {}\nmodel         in ortalk's cache     1.5 MB  {}\n",
            dir.path().display(),
            file.display()
        );
        assert_eq!(text, expected);
    }
}
