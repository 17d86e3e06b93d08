//! What a lane takes in memory, reckoned before it is loaded, and how long a context there is room for.
//!
//! ONNX Runtime's CPU execution provider maps the weights' file and keeps a copy of every matrix in the order in which its
//! kernels read it. The copies count, measured with 1.31 on x86-64 at 1.07 times the file in 8 bits; the file's pages do not,
//! since the system drops them when it needs to.

use super::NpuBundle;

/// Libraries, tokenizer, activations of a chunk.
const WORKING: u64 = 150_000_000;

/// A context that is cut is a multiple of this.
const STEP: usize = 256;

/// With less room than for so many tokens there is no conversation.
const LEAST_CONTEXT: usize = 1024;

/// In bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneMemory {
    /// Weights as they lie in memory.
    pub weights: u64,
    /// Whatever depends on neither weights nor context.
    pub working: u64,
    /// The keys and values of one token.
    pub token: u64,
}

/// Why a model does not get the context that it should have. The texts say what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    #[error(
        "the model takes {}, of which {} are weights and {} keys and values of {context} tokens, but {} of {} are \
         available; close other programs, or take a smaller model or one with fewer bits a weight",
        gb(need.at(*context)), gb(need.weights), gb(need.cache(*context)), gb(*available), gb(*total)
    )]
    Model { need: LaneMemory, context: usize, available: u64, total: u64 },
    #[error(
        "a context of {context} tokens takes {} of keys and values beside {} for the model, but {} of {} are available; \
         {fitting} tokens fit",
        gb(need.cache(*context)), gb(need.at(0)), gb(*available), gb(*total)
    )]
    Context { need: LaneMemory, context: usize, fitting: usize, available: u64, total: u64 },
}

impl LaneMemory {
    /// Of a decoder in one graph on the CPU, whose files have so many bytes. What a `token` takes is in its graph.
    pub fn on_cpu(vocabulary: usize, weight_files: u64, token: u64) -> Self {
        Self { weights: weight_files + weight_files / 10, working: WORKING + 4 * vocabulary as u64, token }
    }

    /// Of a bundle on an NPU. Its cache has its whole length from the start.
    pub fn on_npu(bundle: &NpuBundle, weight_files: u64) -> Self {
        let number = if bundle.quantization.is_some() { 2 } else { 4 };
        let cache = number * (2 * bundle.layers * bundle.kv_heads * bundle.head_size * bundle.context) as u64;
        Self { weights: weight_files, working: WORKING + 4 * bundle.vocabulary as u64 + cache, token: 0 }
    }

    /// Of everything, with a full context.
    pub fn at(&self, context: usize) -> u64 {
        self.weights.saturating_add(self.working).saturating_add(self.cache(context))
    }

    pub fn cache(&self, context: usize) -> u64 {
        self.token.saturating_mul(context as u64)
    }

    /// How many tokens fit. With `asked`, all of them must; else at most `longest`, and fewer where there is no room.
    pub fn context_within(
        self,
        longest: usize,
        asked: Option<usize>,
        total: u64,
        available: u64,
    ) -> Result<usize, NoRoom> {
        let least = LEAST_CONTEXT.min(longest).min(asked.unwrap_or(longest));
        if self.at(least) > available {
            return Err(NoRoom::Model { need: self, context: least, available, total });
        }
        let wanted = asked.unwrap_or(longest);
        if self.at(wanted) <= available {
            return Ok(wanted);
        }
        let room = usize::try_from(available.saturating_sub(self.at(0)) / self.token.max(1)).unwrap_or(usize::MAX);
        let fitting = (room / STEP * STEP).clamp(least, wanted);
        match asked {
            Some(context) => Err(NoRoom::Context { need: self, context, fitting, available, total }),
            None => Ok(fitting),
        }
    }
}

/// "3.1 GB": decimal units, as files and shops have them.
pub fn gb(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    const GB: u64 = 1_000_000_000;
    /// 3 GB, and 1 GB for each 10,000 tokens.
    const NEED: LaneMemory = LaneMemory { weights: 2 * GB, working: GB, token: 100_000 };

    #[test]
    fn the_context_is_what_fits() {
        for (longest, asked, available, expected) in [
            (10_000, None, 4 * GB, Ok(10_000)),
            (10_000, Some(2000), 4 * GB, Ok(2000)),
            // Room for 5,000 tokens; 19 steps of 256.
            (10_000, None, 3 * GB + GB / 2, Ok(4864)),
            (10_000, Some(4999), 3 * GB + GB / 2, Ok(4999)),
            (10_000, Some(5001), 3 * GB + GB / 2, Err("5001 tokens takes 0.5 GB of keys and values beside 3.0 GB")),
            (10_000, Some(5001), 3 * GB + GB / 2, Err("3.5 GB of 16.0 GB are available; 4864 tokens fit")),
            // Not a multiple, but the least that is of use.
            (10_000, None, 3 * GB + 102_400_000, Ok(1024)),
            (10_000, None, 3 * GB + 102_399_999, Err("takes 3.1 GB, of which 2.0 GB are weights and 0.1 GB keys")),
            (512, None, 3 * GB + 51_200_000, Ok(512)),
            (10_000, Some(16), 3 * GB + 1_600_000, Ok(16)),
            (10_000, Some(16), 3 * GB, Err("values of 16 tokens, but 3.0 GB of 16.0 GB are available; close")),
            (10_000, None, 0, Err("smaller model")),
        ] {
            let found = NEED.context_within(longest, asked, 16 * GB, available);
            match expected {
                Ok(context) => assert_eq!(found, Ok(context)),
                Err(words) => {
                    let error = found.unwrap_err().to_string();
                    assert!(error.contains(words), "{words:?} is not in {error:?}");
                }
            }
        }
    }

    #[test]
    fn what_costs_nothing_for_each_token_has_any_context() {
        let need = LaneMemory { token: 0, ..NEED };
        assert_eq!(need.context_within(512, None, 8 * GB, 3 * GB), Ok(512));
        assert!(need.context_within(512, None, 8 * GB, 3 * GB - 1).is_err());
    }
}
