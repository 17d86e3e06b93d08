//! Qualcomm's NPU, which is the compute DSP behind FastRPC. Linux tells its temperature, as thermal zones of the "NSP".
//! How busy it is the DSP tells only to programs that call it through FastRPC, as Qualcomm's libqcnpuperf does: foreign
//! code that would run in this process, or a program of its own that draws to a terminal.

use std::path::Path;

use super::super::probe::Silent;
use super::super::temperature;
use super::Leaves;

pub fn offer(root: &Path, node: &Path, leaves: &mut Leaves) {
    leaves.load.push(Ok(Box::new(Silent {
        source: node.display().to_string(),
        reason: "Qualcomm's driver tells no load".into(),
    })));
    leaves.mhz.push(Err(format!("{}: Qualcomm's driver tells no frequency", node.display())));
    leaves.watts.push(Err(format!("{}: Qualcomm's driver tells no power", node.display())));
    leaves.celsius.push(temperature::of_npu(root));
}
