//! What a person may say of answers by name and number: one check for the command line, the settings and the chat.

use super::request::{AnswerSettings, Sampling};

/// The name in the settings and on the command line is [`Parameter::name`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Parameter {
    Temperature,
    TopK,
    TopP,
    MinP,
    RepetitionPenalty,
    MaxTokens,
    Seed,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} is '{value}'; it must be {expected}")]
pub struct ParameterError {
    pub name: &'static str,
    pub value: String,
    pub expected: &'static str,
}

/// In place of a seed: a new one for each answer.
const NO_SEED: &str = "random";

impl Parameter {
    pub const ALL: [Self; 7] =
        [Self::Temperature, Self::TopK, Self::TopP, Self::MinP, Self::RepetitionPenalty, Self::MaxTokens, Self::Seed];

    pub fn name(self) -> &'static str {
        match self {
            Self::Temperature => "temperature",
            Self::TopK => "top-k",
            Self::TopP => "top-p",
            Self::MinP => "min-p",
            Self::RepetitionPenalty => "repetition-penalty",
            Self::MaxTokens => "max-tokens",
            Self::Seed => "seed",
        }
    }

    /// Of which values it must be.
    pub fn expected(self) -> &'static str {
        match self {
            Self::Temperature => "0 or more",
            Self::TopK => "a whole number, 0 or more",
            Self::TopP | Self::MinP => "between 0 and 1",
            Self::RepetitionPenalty => "more than 0",
            Self::MaxTokens => "between 1 and 4294967295",
            Self::Seed => "a whole number, 0 or more, or 'random'",
        }
    }

    /// What it does, for people.
    pub fn help(self) -> &'static str {
        match self {
            Self::Temperature => "0 takes the likeliest token; more varies more",
            Self::TopK => "draw from so many of the likeliest; 0 is all",
            Self::TopP => "draw from the likeliest that make up this share",
            Self::MinP => "leave out what is less likely, by the likeliest",
            Self::RepetitionPenalty => "1 is none; more repeats less",
            Self::MaxTokens => "the longest answer",
            Self::Seed => "the same seed gives the same answer",
        }
    }

    /// Whether OpenAI's interface has it, so that any server takes it.
    pub fn is_of_openai(self) -> bool {
        matches!(self, Self::Temperature | Self::TopP | Self::MaxTokens | Self::Seed)
    }

    pub fn named(name: &str) -> Option<Self> {
        // OpenAI's names have other dashes.
        let name = name.replace('_', "-");
        Self::ALL.into_iter().find(|parameter| parameter.name() == name)
    }

    /// The value in force, as it is typed.
    pub fn value(self, settings: &AnswerSettings) -> String {
        let sampling = &settings.sampling;
        match self {
            Self::Temperature => sampling.temperature.to_string(),
            Self::TopK => sampling.top_k.to_string(),
            Self::TopP => sampling.top_p.to_string(),
            Self::MinP => sampling.min_p.to_string(),
            Self::RepetitionPenalty => sampling.repetition_penalty.to_string(),
            Self::MaxTokens => settings.max_tokens.to_string(),
            Self::Seed => sampling.seed.map_or_else(|| NO_SEED.to_owned(), |seed| seed.to_string()),
        }
    }

    /// Puts a value in force; one that is not right changes nothing.
    pub fn set(self, settings: &mut AnswerSettings, value: &str) -> Result<(), ParameterError> {
        let wrong = || self.error(value.to_owned());
        let decimal = || value.parse::<f32>().map_err(|_| wrong());
        let mut changed = settings.clone();
        let sampling = &mut changed.sampling;
        match self {
            Self::Temperature => sampling.temperature = decimal()?,
            Self::TopK => sampling.top_k = value.parse().map_err(|_| wrong())?,
            Self::TopP => sampling.top_p = decimal()?,
            Self::MinP => sampling.min_p = decimal()?,
            Self::RepetitionPenalty => sampling.repetition_penalty = decimal()?,
            Self::MaxTokens => {
                let tokens: u32 = value.parse().map_err(|_| wrong())?;
                changed.max_tokens = tokens as usize;
            }
            Self::Seed => {
                sampling.seed = match value {
                    NO_SEED => None,
                    number => Some(number.parse().map_err(|_| wrong())?),
                };
            }
        }
        if changed.max_tokens == 0 {
            return Err(wrong());
        }
        Self::check(&changed.sampling)?;
        *settings = changed;
        Ok(())
    }

    /// Takes the value from other settings.
    pub fn copy(self, from: &AnswerSettings, to: &mut AnswerSettings) {
        match self {
            Self::Temperature => to.sampling.temperature = from.sampling.temperature,
            Self::TopK => to.sampling.top_k = from.sampling.top_k,
            Self::TopP => to.sampling.top_p = from.sampling.top_p,
            Self::MinP => to.sampling.min_p = from.sampling.min_p,
            Self::RepetitionPenalty => to.sampling.repetition_penalty = from.sampling.repetition_penalty,
            Self::MaxTokens => to.max_tokens = from.max_tokens,
            Self::Seed => to.sampling.seed = from.sampling.seed,
        }
    }

    /// Whether all numbers are in their ranges.
    pub fn check(sampling: &Sampling) -> Result<(), ParameterError> {
        let checks = [
            (Self::Temperature, sampling.temperature, 0.0, f32::MAX),
            (Self::TopP, sampling.top_p, 0.0, 1.0),
            (Self::MinP, sampling.min_p, 0.0, 1.0),
            (Self::RepetitionPenalty, sampling.repetition_penalty, f32::MIN_POSITIVE, f32::MAX),
        ];
        for (parameter, value, low, high) in checks {
            // NaN is in no range.
            if !(low..=high).contains(&value) {
                return Err(parameter.error(value.to_string()));
            }
        }
        Ok(())
    }

    fn error(self, value: String) -> ParameterError {
        ParameterError { name: self.name(), value, expected: self.expected() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Policy;
    use super::*;

    fn settings() -> AnswerSettings {
        AnswerSettings {
            system: None,
            sampling: Sampling::GREEDY,
            max_tokens: 100,
            thinking: None,
            policy: Policy::Auto,
            lane: None,
            allow_remote: false,
        }
    }

    #[test]
    fn values_are_set_and_shown_as_they_are_typed() {
        let mut settings = settings();
        for (name, value) in [
            ("temperature", "0.7"),
            ("top_k", "40"),
            ("top-p", "0.95"),
            ("min-p", "0"),
            ("repetition-penalty", "1.1"),
            ("max-tokens", "64"),
            ("seed", "18446744073709551615"),
            ("seed", "random"),
        ] {
            let parameter = Parameter::named(name).unwrap();
            parameter.set(&mut settings, value).unwrap();
            assert_eq!(parameter.value(&settings), value, "{name}");
        }
        let mut other = self::settings();
        Parameter::Temperature.copy(&settings, &mut other);
        assert_eq!((other.sampling.temperature, other.sampling.top_k), (0.7, 0));
    }

    #[test]
    fn what_is_out_of_range_changes_nothing_and_is_quoted() {
        for (parameter, value, expected) in [
            (Parameter::Temperature, "-1", "temperature is '-1'; it must be 0 or more"),
            (Parameter::Temperature, "hot", "temperature is 'hot'; it must be 0 or more"),
            (Parameter::Temperature, "nan", "temperature is 'NaN'; it must be 0 or more"),
            (Parameter::TopP, "1.5", "top-p is '1.5'; it must be between 0 and 1"),
            (Parameter::TopK, "-3", "top-k is '-3'; it must be a whole number, 0 or more"),
            (Parameter::RepetitionPenalty, "0", "repetition-penalty is '0'; it must be more than 0"),
            (Parameter::MaxTokens, "0", "max-tokens is '0'; it must be between 1 and 4294967295"),
            (Parameter::Seed, "-1", "seed is '-1'; it must be a whole number, 0 or more, or 'random'"),
        ] {
            let mut settings = settings();
            assert_eq!(parameter.set(&mut settings, value).unwrap_err().to_string(), expected);
            assert_eq!(settings, self::settings());
        }
        assert_eq!(Parameter::named("heat"), None);
    }
}
