//! How a model's text tells thinking from the answer, and whether its template can switch the thinking.

use super::template::ChatTemplate;
use super::tokenizer::Tokenizer;

/// The markers around the thinking of models that think before they answer.
const MARKERS: &[(&str, &str)] = &[("<think>", "</think>"), ("[THINK]", "[/THINK]"), ("<seed:think>", "</seed:think>")];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thinking {
    pub open: &'static str,
    pub close: &'static str,
    /// Markers that are special tokens, which decoding leaves out.
    pub hidden: Vec<(u32, &'static str)>,
    /// The template thinks or does not, as it is asked to.
    pub switchable: bool,
}

impl Thinking {
    /// `None` where neither template nor vocabulary knows markers.
    pub fn of(template: &ChatTemplate, tokenizer: &Tokenizer) -> Option<Self> {
        let known = |marker: &str| template.mentions(marker) || tokenizer.token(marker).is_some();
        let (open, close) = MARKERS.iter().copied().find(|(_, close)| known(close))?;
        let hidden = [open, close].into_iter().filter_map(|marker| {
            let id = tokenizer.token(marker)?;
            let shown = tokenizer.decode(&[id]).unwrap_or_default();
            shown.is_empty().then_some((id, marker))
        });
        Some(Self { open, close, hidden: hidden.collect(), switchable: template.switches_thinking() })
    }
}
