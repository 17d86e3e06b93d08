//! The server's models, for the chat over it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::backend::{Asked, ServerBackend};
use crate::engine::AnswerSettings;
use crate::remote::{Client, Endpoint, Timeouts};
use crate::tui::{ModelEntry, Models, OpenedModel, RefusedModel, Tell};

/// What the server is given to say which models it has.
const PATIENCE: Duration = Duration::from_secs(10);

pub struct ServerModels {
    endpoint: Endpoint,
    asked: Asked,
    answers: AnswerSettings,
    /// The name of the one that answers; `None` before the first is known.
    open: Mutex<Option<String>>,
}

impl ServerModels {
    pub fn new(endpoint: Endpoint, asked: Asked, answers: AnswerSettings) -> Self {
        Self { endpoint, asked, answers, open: Mutex::new(None) }
    }

    /// The model that was named, or the server's own choice.
    pub fn first(&self) -> Result<ServerBackend, String> {
        self.backend(self.asked.clone())
    }

    fn client(&self) -> Client {
        Client::new(self.endpoint.clone(), Timeouts::default())
    }

    fn backend(&self, asked: Asked) -> Result<ServerBackend, String> {
        let backend = ServerBackend::connect(self.client(), self.client(), asked).map_err(|error| error.to_string())?;
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = Some(backend.model().to_owned());
        Ok(backend)
    }
}

impl Models for ServerModels {
    fn list(&self) -> Result<Vec<ModelEntry>, String> {
        let started = Instant::now();
        let models = self.client().models(&|| started.elapsed() >= PATIENCE).map_err(|error| error.to_string())?;
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let entry = |model: crate::remote::ModelEntry| {
            let context = model.context.map(|tokens| format!("context {tokens}"));
            let about: Vec<String> = model.owned_by.into_iter().chain(context).collect();
            ModelEntry { is_open: open.as_ref() == Some(&model.id), about: about.join(", "), name: model.id }
        };
        Ok(models.into_iter().map(entry).collect())
    }

    /// The server holds the models: there is nothing to give up here.
    fn open(&self, name: &str, _tell: &Tell, _release: &dyn Fn()) -> Result<OpenedModel, RefusedModel> {
        let refused = |error| RefusedModel { error, instead: None };
        let known = self.list().map_err(refused)?;
        if !known.is_empty() && !known.iter().any(|entry| entry.name == name) {
            let names: Vec<String> = known.into_iter().map(|entry| entry.name).collect();
            return Err(refused(format!("the server has no model '{name}'; it has {}", names.join(", "))));
        }
        let backend = self.backend(Asked { model: Some(name.to_owned()), ..self.asked.clone() }).map_err(refused)?;
        Ok(OpenedModel { backend: Arc::new(backend), answers: self.answers.clone() })
    }
}
