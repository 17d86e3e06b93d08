//! How long a context each lane gets: what was asked for, within what the model and its graph can do and what there is memory
//! for.

use std::path::Path;

use anyhow::{Context, bail};

use crate::config::Settings;
use crate::decoder::{Contract, GraphOutline};
use crate::engine::{LaneId, LaneSource, LaneSpec, MemoryPlan};
use crate::model::memory::{LaneMemory, NoRoom, gb};
use crate::model::{ModelFolder, NpuBundle, graph_bytes};
use crate::telemetry::memory::Memory;

/// Of the memory that is left beside a lane, what its conversations may take beyond one context: a share that other
/// programs do not miss.
const SHARE_FOR_CONVERSATIONS: u64 = 4;

/// More than so many contexts' keys and values are of no use: more answers at once are hardly faster together.
const MOST_CONTEXTS: usize = 16;

pub struct Room {
    asked: Option<Asked>,
    /// `None` where the system does not tell: then everything fits.
    memory: Option<Memory>,
}

/// A context that somebody named.
struct Asked {
    tokens: usize,
    by: &'static str,
}

/// What a lane gets, or why it cannot be opened, for people.
pub type Granted = Result<(usize, MemoryPlan), String>;

impl Room {
    pub fn new(argument: Option<u32>, settings: &Settings, memory: Option<Memory>) -> Self {
        let argument = argument.map(|tokens| Asked { tokens: tokens as usize, by: "--context" });
        let setting = settings.context.map(|tokens| Asked { tokens: tokens.get(), by: "context in the settings" });
        Self { asked: argument.or(setting), memory }
    }

    /// Something has taken memory since, or given it back.
    pub fn look_again(&mut self) {
        self.memory = Memory::look();
    }

    /// `taken` bytes are another lane's. An error is for what was asked for.
    pub fn on_cpu(&self, model: &ModelFolder, taken: u64) -> anyhow::Result<Granted> {
        let config = &model.config.model;
        let mut longest = config.context_length;
        let graph = config.decoder.filename.as_ref().map(|graph| model.path.join(graph)).filter(|path| path.is_file());
        let outline = graph.as_deref().map(GraphOutline::read).transpose()?;
        let rotary = outline.as_ref().and_then(|outline| outline.rotary_positions);
        if let Some(positions) = rotary.filter(|positions| *positions < longest) {
            longest = positions;
        }
        if let Some(Asked { tokens, by }) = self.asked.as_ref().filter(|asked| asked.tokens > longest) {
            let limit = match rotary {
                Some(positions) if positions < config.context_length => {
                    format!("its graph's tables of rotations end at {positions}")
                }
                _ => format!("it was made for at most {longest}"),
            };
            bail!("{by} is {tokens}, which is more than '{}' can do: {limit}", model.name);
        }
        let bytes = graph.map_or(0, |graph| graph_bytes(&graph));
        // A graph that does not run is refused when it is opened, which says why.
        let contract = outline.and_then(|outline| Contract::of(&outline, config).ok());
        let token = contract.map_or(0, |contract| contract.token_bytes() as u64);
        let need = LaneMemory::on_cpu(config.vocab_size, bytes, token);
        self.grant(need, longest, taken)
    }

    /// The bundle's context is fixed; a longer one that was asked for is for another lane.
    pub fn on_npu(&self, folder: &Path, bundle: &NpuBundle) -> anyhow::Result<Granted> {
        let entries = std::fs::read_dir(folder).with_context(|| format!("'{}' cannot be read", folder.display()))?;
        let bytes = entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum();
        let need = LaneMemory::on_npu(bundle, bytes);
        Ok(self.grant(need, bundle.context, 0)?.map(|(context, plan)| (self.within(context), plan)))
    }

    /// At most what was asked for.
    pub fn within(&self, context: usize) -> usize {
        self.asked.as_ref().map_or(context, |asked| asked.tokens.min(context))
    }

    fn grant(&self, need: LaneMemory, longest: usize, taken: u64) -> anyhow::Result<Granted> {
        let asked = self.asked.as_ref().map(|asked| asked.tokens.min(longest));
        let Memory { total, available } = self.memory.unwrap_or(Memory { total: u64::MAX, available: u64::MAX });
        Ok(match need.context_within(longest, asked, total, available.saturating_sub(taken)) {
            Ok(context) => {
                let cut_from = (asked.is_none() && context < longest).then_some(longest);
                let bytes = need.at(context);
                let left = available.saturating_sub(taken).saturating_sub(bytes) / SHARE_FOR_CONVERSATIONS;
                let more = usize::try_from(left / need.token.max(1)).unwrap_or(usize::MAX);
                let kept_tokens = context.saturating_add(more).min(context.saturating_mul(MOST_CONTEXTS));
                Ok((context, MemoryPlan { bytes, kept_tokens, cut_from }))
            }
            Err(error @ NoRoom::Context { .. }) => bail!("{error}"),
            Err(error @ NoRoom::Model { .. }) => Err(error.to_string()),
        })
    }

    /// What is said of a lane before it is loaded: what it takes, and whether its context is cut.
    pub fn said(&self, lane: &LaneSpec) -> Option<(String, bool)> {
        let plan = lane.memory.filter(|_| matches!(lane.source, LaneSource::Open(_)))?;
        let LaneSpec { id, context_limit, .. } = lane;
        let of = self.memory.map_or_else(String::new, |memory| {
            format!("; {} of {} are available", gb(memory.available), gb(memory.total))
        });
        let needs = format!("the {id} lane takes {} with a context of {context_limit} tokens{of}", gb(plan.bytes));
        Some(match plan.cut_from {
            Some(longest) => (format!("{needs}, which is too little for the model's {longest}"), true),
            None => (needs, false),
        })
    }

    /// Where only one lane is wanted, and what was asked for is beyond it.
    pub fn check_only(&self, lane: LaneId, context: usize) -> anyhow::Result<()> {
        match &self.asked {
            Some(Asked { tokens, by }) if *tokens > context => {
                bail!("{by} is {tokens}, but the model for the {lane} lane was built for {context}")
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1_000_000_000;
    const NEED: LaneMemory = LaneMemory { weights: 2 * GB, working: GB, fixed_cache: 0, token: 100_000 };

    fn room(asked: Option<u32>, available: u64) -> Room {
        Room::new(asked, &Settings::default(), Some(Memory { total: 16 * GB, available }))
    }

    #[test]
    fn another_lane_s_memory_is_gone() {
        let granted = |taken| room(None, 5 * GB).grant(NEED, 10_000, taken).unwrap().map(|(context, _)| context);
        assert_eq!(granted(GB), Ok(10_000));
        assert_eq!(granted(GB + GB / 2), Ok(4864));
        assert!(granted(2 * GB).unwrap_err().contains("but 3.0 GB of 16.0 GB are available"));
    }

    #[test]
    fn conversations_get_a_part_of_what_is_left() {
        // 4 GB for the lane, 2 GB more than that, of which a quarter are 5,000 tokens.
        let kept = |available| room(None, available).grant(NEED, 10_000, 0).unwrap().unwrap().1.kept_tokens;
        assert_eq!(kept(6 * GB), 15_000);
        assert_eq!(kept(4 * GB), 10_000);
        assert_eq!(kept(16 * GB), 40_000);
    }

    #[test]
    fn the_argument_comes_before_the_setting() {
        let settings = Settings { context: std::num::NonZeroUsize::new(300), ..Settings::default() };
        for (argument, expected) in [(None, 300), (Some(200), 200)] {
            assert_eq!(Room::new(argument, &settings, None).within(1000), expected);
        }
        let error = Room::new(None, &settings, None).check_only(LaneId::Npu, 256).unwrap_err().to_string();
        assert!(error.contains("context in the settings is 300") && error.contains("built for 256"), "{error}");
    }

    #[test]
    fn a_machine_that_does_not_tell_has_room() {
        let granted = Room::new(None, &Settings::default(), None).grant(NEED, 10_000, 0).unwrap();
        assert_eq!(granted, Ok((10_000, MemoryPlan { bytes: 4 * GB, kept_tokens: 160_000, cut_from: None })));
    }

    #[test]
    fn what_is_asked_for_is_not_cut() {
        let error = room(Some(9000), 3 * GB + GB / 2).grant(NEED, 10_000, 0).unwrap_err().to_string();
        assert!(error.contains("9000 tokens takes 0.9 GB") && error.contains("4864 tokens fit"), "{error}");
    }

    #[test]
    fn a_cut_is_said() {
        let room = room(None, 3 * GB + GB / 2);
        let (context_limit, memory) = room.grant(NEED, 10_000, 0).unwrap().unwrap();
        let open = LaneSource::Open(Box::new(|| Err(String::new())));
        let lane = LaneSpec {
            id: LaneId::Cpu,
            execution_provider: String::new(),
            device: None,
            emulated: false,
            context_limit,
            threads: None,
            memory: Some(memory),
            measured: Default::default(),
            remote: None,
            source: open,
        };
        let said = "the cpu lane takes 3.5 GB with a context of 4864 tokens; 3.5 GB of 16.0 GB are available, which is \
                    too little for the model's 10000";
        assert_eq!(room.said(&lane), Some((said.to_owned(), true)));
        let absent = LaneSpec { source: LaneSource::Absent { reason: String::new() }, ..lane };
        assert_eq!(room.said(&absent), None);
    }
}
