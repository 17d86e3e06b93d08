//! The models of this machine for the chat: which there are, and an engine for another one while the chat goes on.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::fetch::megabytes;
use super::model_name::{self, Named};
use super::models::list::{Kind, Model, models};
use super::session::{self, Prepared};
use crate::builder::{self, BuildOptions};
use crate::cli::ChatArgs;
use crate::engine::Engine;
use crate::hub::{HubSettings, Purpose};
use crate::onnx_runtime::OnnxRuntime;
use crate::tui::{ModelEntry, Models, OpenedModel, RefusedModel, Tell};

pub struct LocalModels {
    args: ChatArgs,
    /// ONNX Runtime, which a process loads once.
    runtime: Mutex<Option<OnnxRuntime>>,
    /// What the program was started with, whose lanes the arguments name.
    first: Arc<Prepared>,
    /// What answers now.
    open: Mutex<Arc<Prepared>>,
}

impl LocalModels {
    pub fn new(args: &ChatArgs, prepared: Prepared) -> Self {
        let first = Arc::new(prepared);
        Self { args: args.clone(), runtime: Mutex::new(None), open: Mutex::new(first.clone()), first }
    }

    /// An engine for the model that the program was started with.
    pub fn load_first(&self) -> anyhow::Result<Engine> {
        self.engine(&self.first)
    }

    fn engine(&self, prepared: &Prepared) -> anyhow::Result<Engine> {
        let runtime = {
            let mut runtime = lock(&self.runtime);
            match &*runtime {
                Some(runtime) => runtime.clone(),
                None => runtime.insert(prepared.runtime()?).clone(),
            }
        };
        prepared.engine(runtime, None)
    }

    fn prepare(&self, name: &str, tell: &Tell) -> anyhow::Result<Prepared> {
        let prepared = session::prepare_other(&self.args, Path::new(name), tell)?;
        // With all that was said of it on the command line.
        match prepared.model == self.first.model {
            true => session::prepare_again(&self.args, tell),
            false => Ok(prepared),
        }
    }

    /// The folder that a listed model runs from, where it is built.
    fn folder(&self, name: &str) -> Option<PathBuf> {
        let paths = &self.first.paths;
        let path = match model_name::resolve(Path::new(name), Purpose::Cpu, paths).ok()? {
            Named::Path(path) => path,
            Named::Default => crate::provision::default_model_file(paths)?,
        };
        if session::is_ready(&path) {
            return Some(path);
        }
        builder::find_cached(&path, &paths.models(), &BuildOptions::default()).ok().flatten()
    }
}

impl Models for LocalModels {
    fn list(&self) -> Result<Vec<ModelEntry>, String> {
        let paths = &self.first.paths;
        let settings = HubSettings::discover().map_err(|error| error.to_string())?;
        let all = models(paths, &settings).models;
        let listed: HashSet<&PathBuf> = all.iter().map(|model| &model.path).collect();
        let built_from_listed: HashSet<String> = builder::built(&paths.models())
            .into_iter()
            .filter(|built| built.for_npu || built.source.as_ref().is_some_and(|source| listed.contains(source)))
            .map(|built| built.name)
            .collect();
        let open = lock(&self.open).model.clone();
        let can_answer = |model: &&Model| {
            model.stale.is_none() && !(model.kind == Kind::Built && built_from_listed.contains(&model.name))
        };
        let entry = |model: &Model| {
            let name = model.catalogue_name.clone().unwrap_or_else(|| model.name.clone());
            let is_open = model.path == open || self.folder(&name).is_some_and(|folder| folder == open);
            ModelEntry { about: format!("{}, {}", model.format, megabytes(model.bytes)), name, is_open }
        };
        Ok(all.iter().filter(can_answer).map(entry).collect())
    }

    fn open(&self, name: &str, tell: &Tell, release: &dyn Fn()) -> Result<OpenedModel, RefusedModel> {
        let refused = |error: anyhow::Error, instead| RefusedModel { error: format!("{error:#}"), instead };
        let mut prepared = self.prepare(name, tell).map_err(|error| refused(error, None))?;
        let has_room = prepared.has_room_beside().map_err(|error| refused(error, None))?;
        if !has_room {
            release();
            prepared.look_at_memory();
        }
        tell(format!("{name} is being loaded"));
        match self.engine(&prepared) {
            Ok(engine) => {
                let answers = prepared.answers.clone();
                *lock(&self.open) = Arc::new(prepared);
                Ok(OpenedModel { backend: Arc::new(engine), answers })
            }
            Err(error) => {
                let old = lock(&self.open).clone();
                let instead = if has_room { None } else { self.engine(&old).ok() };
                Err(refused(error, instead.map(|engine| Arc::new(engine) as _)))
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
