//! The chips that graphs can be compiled for.

use super::npu_bundle::NpuTarget;

/// One chip, as people name it and as QNN does.
struct Chip {
    /// What `--soc` takes.
    name: &'static str,
    /// QNN's number of it, `soc_model`.
    soc_model: u32,
    htp_arch: u32,
    product: &'static str,
}

/// Qualcomm's Hexagon NPUs from v73 on, the first that computes the graphs made here.
///
/// Numbers and architectures are those of the QNN SDK's table "Supported Snapdragon devices". They can be looked up in
/// Olive's documentation (`soc_model:60` with `dsp_arch:v73` for SC8380XP, the X Elite), and in PyTorch ExecuTorch's
/// `backends/qualcomm/serialization/qc_schema.py` for the mobile ones: SM8550, SM8650, SM8750, SM8850. The X2 Elite's (SC8480XP) are what its driver reports. The X Plus with ten cores is the X Elite's chip.
const CHIPS: &[Chip] = &[
    Chip { name: "x-elite", soc_model: 60, htp_arch: 73, product: "Snapdragon X Elite" },
    Chip { name: "x-plus", soc_model: 60, htp_arch: 73, product: "Snapdragon X Plus" },
    Chip { name: "x2-elite", soc_model: 88, htp_arch: 81, product: "Snapdragon X2 Elite" },
    Chip { name: "8-gen-2", soc_model: 43, htp_arch: 73, product: "Snapdragon 8 Gen 2" },
    Chip { name: "8-gen-3", soc_model: 57, htp_arch: 75, product: "Snapdragon 8 Gen 3" },
    Chip { name: "8-elite", soc_model: 69, htp_arch: 79, product: "Snapdragon 8 Elite" },
    Chip { name: "8-elite-gen-5", soc_model: 87, htp_arch: 81, product: "Snapdragon 8 Elite Gen 5" },
];

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no chip of this name; known are {}", known())]
pub struct UnknownChip;

impl NpuTarget {
    /// The chip that is called so.
    pub fn named(name: &str) -> Result<Self, UnknownChip> {
        let chip = CHIPS.iter().find(|chip| chip.name == name).ok_or(UnknownChip)?;
        Ok(Self { soc: chip.name.to_owned(), soc_model: chip.soc_model, htp_arch: chip.htp_arch })
    }
}

/// All names, each with the product's.
fn known() -> String {
    CHIPS.iter().map(|chip| format!("{} ({})", chip.name, chip.product)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::model::NpuOptions;

    #[test]
    fn every_chip_has_a_name_of_its_own_that_qnn_s_options_take() {
        let names: HashSet<_> = CHIPS.iter().map(|chip| chip.name).collect();
        assert_eq!(names.len(), CHIPS.len());
        for name in names {
            let target = NpuTarget::named(name).unwrap();
            let mut options = NpuOptions::default();
            options.provider.set("htp_arch", &target.htp_arch.to_string()).unwrap();
            options.provider.set("soc_model", &target.soc_model.to_string()).unwrap();
            options.target = Some(target);
            options.for_provider().unwrap();
        }
    }

    #[test]
    fn an_unknown_chip_gets_the_known_ones() {
        let error = NpuTarget::named("m4").unwrap_err().to_string();
        assert!(error.contains("x-elite (Snapdragon X Elite), x-plus"), "{error}");
    }
}
