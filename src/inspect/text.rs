//! The report for people.

use std::fmt;

use super::{CpuLane, Graph, Inspection, Kind, Memory, Weights};

/// Inputs and outputs shown of a graph; those of a model's layers are all alike.
const SHOWN_PORTS: usize = 6;

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}, {}", self.name, self.kind.name(), bytes(self.bytes))?;
        let size = |value: Option<u64>| value.map(|value| value.to_string());
        let sizes = &self.sizes;
        for (name, value) in [
            ("architecture", self.architecture.clone()),
            ("layers", size(sizes.layers)),
            ("hidden size", size(sizes.hidden)),
            ("feed forward", size(sizes.feed_forward)),
            ("heads", size(sizes.heads)),
            ("key/value heads", size(sizes.kv_heads)),
            ("head size", size(sizes.head_size)),
            ("vocabulary", size(sizes.vocabulary)),
            ("context", size(sizes.context)),
            ("tokenizer", self.tokenizer.clone()),
            ("chat template", self.chat_template.map(|found| if found { "yes" } else { "none" }.to_owned())),
            ("built for", self.built_for.clone()),
            ("recipe", self.recipe.clone()),
        ] {
            if let Some(value) = value {
                writeln!(f, "  {name:<16} {value}")?;
            }
        }
        weights(f, "weights", &self.weights)?;
        self.graphs.iter().try_for_each(|graph| write!(f, "{graph}"))?;
        if let Some(lane) = &self.cpu_lane {
            write!(f, "{lane}")?;
        }
        if !self.targets.is_empty() {
            writeln!(f, "ortalk build")?;
        }
        for target in &self.targets {
            let verdict =
                target.obstacle.as_deref().map_or("can be built".to_owned(), |why| format!("cannot be built: {why}"));
            writeln!(f, "  {:<16} {verdict}", target.target)?;
        }
        if !self.memory.is_empty() {
            writeln!(f, "memory")?;
        }
        self.memory.iter().try_for_each(|memory| write!(f, "{memory}"))
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Gguf => "GGUF file",
            Self::Safetensors => "safetensors",
            Self::Onnx => "ONNX file",
            Self::EpContext => "ONNX file around a compiled graph (EPContext)",
            Self::ModelFolder => "model folder",
            Self::Optimum => "transformers.js folder (Optimum)",
            Self::NpuBundle => "model folder for an NPU",
        }
    }
}

impl fmt::Display for CpuLane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "CPU lane")?;
        let feeds = Some(self.feeds.join(", ")).filter(|feeds| !feeds.is_empty());
        for (name, value) in
            [("graph", &self.graph), ("feeds", &feeds), ("cache", &self.cache), ("cannot run", &self.obstacle)]
        {
            if let Some(value) = value {
                writeln!(f, "  {name:<16} {value}")?;
            }
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "  {:<16} {note}", "note"))
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lane, total, weights, estimated, keys_and_values, context } = self;
        let estimated = if *estimated { " (est.)" } else { "" };
        writeln!(
            f,
            "  {lane:<16} {}, of which {}{estimated} are weights and {} keys and values of {context} tokens",
            bytes(*total),
            bytes(*weights),
            bytes(*keys_and_values)
        )
    }
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "graph {}", self.file)?;
        let opset = self.opsets.get("ai.onnx").map_or_else(String::new, |version| format!(", opset {version}"));
        writeln!(f, "  {:<16} {}{opset}", "nodes", self.nodes)?;
        if let Some(producer) = &self.producer {
            writeln!(f, "  {:<16} {producer}", "written by")?;
        }
        for (name, ports) in [("input", &self.inputs), ("output", &self.outputs)] {
            for port in ports.iter().take(SHOWN_PORTS) {
                writeln!(f, "  {name:<16} {} {}", port.name, port.r#type)?;
            }
            if ports.len() > SHOWN_PORTS {
                writeln!(f, "  {name:<16} and {} more", ports.len() - SHOWN_PORTS)?;
            }
        }
        weights(f, "weights", &self.weights)?;
        for context in &self.contexts {
            let of = |value: &Option<String>, unknown: &str| value.clone().unwrap_or_else(|| unknown.to_owned());
            let (provider, sdk) = (of(&context.provider, "an unnamed provider"), of(&context.sdk, "unknown"));
            writeln!(f, "  {:<16} by {provider}, SDK {sdk}", "compiled")?;
            if let Some(chips) = &context.chips {
                writeln!(f, "  {:<16} {chips}", "for")?;
            }
            let size = context.binary_bytes.map_or("not found".to_owned(), bytes);
            writeln!(f, "  {:<16} {}, {size}", "binary", of(&context.binary, "inside the file"))?;
        }
        Ok(())
    }
}

fn weights(f: &mut fmt::Formatter<'_>, title: &str, groups: &[Weights]) -> fmt::Result {
    for Weights { r#type, tensors, values, bytes: size } in groups {
        let size = size.map_or("unknown size".to_owned(), bytes);
        let values = format!("{:.1} million", *values as f64 / 1e6);
        writeln!(f, "  {title:<16} {type:<9} {tensors:>5} tensors {values:>16} {size:>12}")?;
    }
    Ok(())
}

/// In the largest decimal unit of which there is one.
fn bytes(count: u64) -> String {
    let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let unit = units.into_iter().find(|(size, _)| count as f64 >= *size);
    unit.map_or_else(|| format!("{count} bytes"), |(size, name)| format!("{:.1} {name}", count as f64 / size))
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn sizes_in_decimal_units() {
        for (count, expected) in [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (98_362_432, "98.4 MB")] {
            assert_eq!(bytes(count), expected);
        }
    }
}
