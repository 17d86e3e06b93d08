//! What the endpoints that answer have in common: which model and lane, how to draw, when to end.

use serde_json::{Value, json};

use super::app::App;
use super::error::ApiError;
use super::fields::{Fields, wrong_type, wrong_value};
use crate::engine::{LaneId, Policy, Sampling};
use crate::wire::RequestExtension;

/// As OpenAI limits them.
const MOST_STOPS: usize = 4;
const MOST_CHOICES: usize = 128;

/// Fields that change nothing in an answer here, and that clients send.
const HARMLESS: [&str; 6] =
    ["user", "metadata", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"];

/// What nearly every request may say.
pub struct Common {
    pub sampling: Sampling,
    pub stop: Vec<String>,
    /// Answers to make.
    pub choices: usize,
    pub stream: bool,
    pub thinking: Option<bool>,
    pub policy: Policy,
    pub lane: Option<LaneId>,
    pub extension: RequestExtension,
}

impl Common {
    pub fn take(fields: &mut Fields, app: &App) -> Result<Self, ApiError> {
        fields.ignore(&HARMLESS);
        let stores = "answers are not kept; leave it out or say false";
        fields.only("store", &json!(false), stores)?;
        let named = fields.string("model")?;
        let by_name = named.map_or(Ok(None), |name| app.lane_of_model(&name))?;
        let extension = extension(fields)?;
        let lane = match (extension.lane, by_name) {
            (Some(asked), Some(named)) if asked != named => {
                let message = format!("'ortalk.lane' is '{asked}', but the model's name asks for the {named} lane");
                return Err(ApiError::param("ortalk.lane", "invalid_value", message));
            }
            (Some(asked), _) => {
                app.check_lane(asked, "ortalk.lane")?;
                Some(asked)
            }
            (None, Some(named)) => {
                app.check_lane(named, "model")?;
                Some(named)
            }
            (None, None) => app.defaults.lane,
        };
        Ok(Self {
            sampling: sampling(fields, &app.defaults.sampling)?,
            stop: stop(fields)?,
            choices: fields.count("n", 1..=MOST_CHOICES)?.unwrap_or(1),
            stream: fields.boolean("stream")?.unwrap_or(false),
            thinking: extension.thinking.or(app.defaults.thinking),
            policy: extension.policy.unwrap_or(app.defaults.policy),
            lane,
            extension,
        })
    }

    /// The sampling of one of the answers: each draws in another way, and all are the same when they are asked for again.
    pub fn sampling_of(&self, choice: usize) -> Sampling {
        let seed = self.sampling.seed.map(|seed| seed.wrapping_add(choice as u64));
        Sampling { seed, ..self.sampling.clone() }
    }
}

fn extension(fields: &mut Fields) -> Result<RequestExtension, ApiError> {
    let Some(mut given) = fields.object("ortalk")? else { return Ok(RequestExtension::default()) };
    let lanes: Vec<_> = <LaneId as clap::ValueEnum>::value_variants().iter().map(|lane| (lane.name(), *lane)).collect();
    let policies: Vec<_> =
        <Policy as clap::ValueEnum>::value_variants().iter().map(|policy| (policy.name(), *policy)).collect();
    let extension = RequestExtension {
        lane: given.one_of("lane", &lanes)?,
        policy: given.one_of("policy", &policies)?,
        thinking: given.boolean("thinking")?,
        trim: given.boolean("trim")?.unwrap_or(false),
        fresh: given.boolean("fresh")?.unwrap_or(false),
        route_trace: given.boolean("route_trace")?.unwrap_or(false),
        events: given.boolean("events")?.unwrap_or(false),
    };
    given.finish()?;
    Ok(extension)
}

fn sampling(fields: &mut Fields, defaults: &Sampling) -> Result<Sampling, ApiError> {
    let seed = fields.integer("seed", i64::MIN..=i64::MAX)?;
    Ok(Sampling {
        temperature: fields.number("temperature", 0.0..=2.0)?.unwrap_or(defaults.temperature),
        top_p: fields.number("top_p", 0.0..=1.0)?.unwrap_or(defaults.top_p),
        frequency_penalty: fields.number("frequency_penalty", -2.0..=2.0)?.unwrap_or(defaults.frequency_penalty),
        presence_penalty: fields.number("presence_penalty", -2.0..=2.0)?.unwrap_or(defaults.presence_penalty),
        logit_bias: logit_bias(fields)?,
        // Not OpenAI's, but those of other servers of open models.
        top_k: fields.count("top_k", 0..=usize::MAX)?.unwrap_or(defaults.top_k),
        min_p: fields.number("min_p", 0.0..=1.0)?.unwrap_or(defaults.min_p),
        repetition_penalty: fields.number("repetition_penalty", 0.01..=100.0)?.unwrap_or(defaults.repetition_penalty),
        seed: seed.map(i64::cast_unsigned).or(defaults.seed),
    })
}

/// Tokens by their numbers, and what is added to their logits.
fn logit_bias(fields: &mut Fields) -> Result<Vec<(u32, f32)>, ApiError> {
    let Some(value) = fields.take("logit_bias") else { return Ok(Vec::new()) };
    let path = fields.path_of("logit_bias");
    let Value::Object(map) = value else { return Err(wrong_type(&path, &value, "an object")) };
    let each = map.iter().map(|(token, bias)| {
        let at = format!("{path}.{}", token.chars().take(20).collect::<String>());
        let token = token.parse().map_err(|_| wrong_value(&path, &token.as_str().into(), "a token's number"))?;
        let number = bias.as_f64().ok_or_else(|| wrong_type(&at, bias, "a number"))?;
        if !(-100.0..=100.0).contains(&number) {
            return Err(wrong_value(&at, bias, "between -100 and 100"));
        }
        Ok((token, number as f32))
    });
    each.collect()
}

fn stop(fields: &mut Fields) -> Result<Vec<String>, ApiError> {
    let Some(value) = fields.take("stop") else { return Ok(Vec::new()) };
    let path = fields.path_of("stop");
    let list = match value {
        Value::String(text) => vec![text.into()],
        Value::Array(list) => list,
        other => return Err(wrong_type(&path, &other, "a string or a list of strings")),
    };
    if list.len() > MOST_STOPS {
        let message = format!("'{path}' has {} texts; it may have {MOST_STOPS}", list.len());
        return Err(ApiError::param(path, "invalid_value", message));
    }
    let each = list.into_iter().enumerate().map(|(index, value)| match value {
        Value::String(text) if !text.is_empty() => Ok(text),
        Value::String(_) => Err(wrong_value(&format!("{path}[{index}]"), &"".into(), "a text that is not empty")),
        other => Err(wrong_type(&format!("{path}[{index}]"), &other, "a string")),
    });
    each.collect()
}

/// What a stream is to have besides the answer.
pub fn stream_options(fields: &mut Fields, stream: bool) -> Result<bool, ApiError> {
    let Some(mut options) = fields.object("stream_options")? else { return Ok(false) };
    if !stream {
        let message = "'stream_options' is for streams; 'stream' is not true";
        return Err(ApiError::param("stream_options", "invalid_value", message));
    }
    let usage = options.boolean("include_usage")?.unwrap_or(false);
    options.only("include_obfuscation", &json!(false), "streams are not padded")?;
    options.finish()?;
    Ok(usage)
}
