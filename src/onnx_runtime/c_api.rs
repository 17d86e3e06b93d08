//! What is called of ONNX Runtime's C interface directly, where `ort` has no wrapper or a slow one. All of this module's
//! unsafe code is here.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char};
use std::ops::Range;
use std::ptr;

use ort::AsPointer;
use ort::device::Device;
use ort::memory::MemoryInfo;
use ort::session::{IoBinding, Session};
use ort::sys::OrtStatusPtr;
use ort::value::{DynTensor, TensorElementType};

/// Runs a session on tensors that are bound already.
///
/// `ort`'s own `run_binding` wraps every output anew after each run: type, memory and allocator of 61 tensors for a model
/// of 30 layers, most of a millisecond for each token. Whoever bound the outputs has them.
///
/// `session` is borrowed exclusively because ONNX Runtime allows no two runs on one binding at a time.
pub fn run_bound(session: &mut Session, binding: &IoBinding) -> Result<(), String> {
    // SAFETY: session and binding are alive for the whole call, and the binding keeps the tensors that it names alive. No
    // run options are passed, which the interface allows as null.
    let status = unsafe { (ort::api().RunWithBinding)(session.ptr().cast_mut(), ptr::null(), binding.ptr()) };
    check(status)
}

/// Binds some of a tensor's rows, along its first axis, as an input and as an output at once. So a pass can be about a few
/// of the sequences whose keys and values lie in one tensor, and writes in place. The element type is a float's.
///
/// `ort` copies what is bound as a part of something else.
pub fn bind_rows(
    binding: &mut IoBinding,
    [input, output]: [&str; 2],
    tensor: &mut DynTensor,
    rows: Range<usize>,
) -> Result<(), String> {
    let text = |error: ort::Error| error.to_string();
    // The binding shares the whole tensor's ownership from here on, until something else is bound to both names.
    binding.bind_input(input, &*tensor).map_err(text)?;
    binding.bind_output(output, &mut *tensor).map_err(text)?;
    let mut shape = tensor.shape().to_vec();
    let all = usize::try_from(shape.first().copied().unwrap_or(0)).unwrap_or(0);
    if rows == (0..all) {
        return Ok(());
    }
    if rows.is_empty() || rows.end > all {
        return Err(format!("rows {} to {} of a tensor of {all} were to be bound", rows.start, rows.end));
    }
    let element = match tensor.data_type() {
        TensorElementType::Float32 => 4,
        TensorElementType::Float16 | TensorElementType::Bfloat16 => 2,
        other => return Err(format!("rows of {other} cannot be bound")),
    };
    let element_type = (*tensor.data_type()).into();
    let row = shape[1..].iter().map(|size| usize::try_from(*size).unwrap_or(0)).product::<usize>() * element;
    shape[0] = rows.len() as i64;
    let [input, output] = [input, output].map(|name| CString::new(name).map_err(|error| error.to_string()));
    let (input, output, memory) = (input?, output?, MemoryInfo::default());
    let api = ort::api();
    let mut value = ptr::null_mut();
    // SAFETY: the rows lie within the tensor, which is contiguous, on the CPU and kept alive by the binding, which holds it
    // under the same two names: whatever replaces it there replaces the rows, too. The value is only a description of them,
    // which the binding copies; ours is released. Input and output may be one memory, which the graph's operator must know.
    unsafe {
        let first = tensor.data_ptr_mut().cast::<u8>().add(rows.start * row).cast();
        check((api.CreateTensorWithDataAsOrtValue)(
            memory.ptr(),
            first,
            rows.len() * row,
            shape.as_ptr(),
            shape.len(),
            element_type,
            &mut value,
        ))?;
        let binding = binding.ptr().cast_mut();
        let bound = check((api.BindInput)(binding, input.as_ptr(), value))
            .and_then(|()| check((api.BindOutput)(binding, output.as_ptr(), value)));
        (api.ReleaseValue)(value);
        bound
    }
}

/// A node of a session's graph, as ONNX Runtime recorded it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssignedNode {
    /// The execution provider that runs it.
    pub provider: String,
    pub name: String,
    pub operator: String,
}

/// The nodes of all subgraphs that ONNX Runtime assigned, before it fused or compiled them.
///
/// `Session_GetEpGraphAssignmentInfo` and its companions (ONNX Runtime 1.24) have no wrapper yet.
pub fn assigned_nodes(session: &Session) -> Result<Vec<AssignedNode>, String> {
    let api = ort::api();
    let mut found = Vec::new();
    // SAFETY: the session is alive for the whole block and owns the subgraphs, nodes and names that the calls hand out;
    // each pointer is read only after its call reported success (a null status), and the counts bound the reads.
    unsafe {
        let (mut subgraphs, mut subgraph_count) = (ptr::null(), 0_usize);
        check((api.Session_GetEpGraphAssignmentInfo)(session.ptr(), &mut subgraphs, &mut subgraph_count))?;
        for index in 0..subgraph_count {
            let subgraph = *subgraphs.add(index);
            let mut provider: *const c_char = ptr::null();
            check((api.EpAssignedSubgraph_GetEpName)(subgraph, &mut provider))?;
            let (mut nodes, mut node_count) = (ptr::null(), 0_usize);
            check((api.EpAssignedSubgraph_GetNodes)(subgraph, &mut nodes, &mut node_count))?;
            for index in 0..node_count {
                let node = *nodes.add(index);
                let (mut name, mut operator): (*const c_char, *const c_char) = (ptr::null(), ptr::null());
                check((api.EpAssignedNode_GetName)(node, &mut name))?;
                check((api.EpAssignedNode_GetOperatorType)(node, &mut operator))?;
                found.push(AssignedNode { provider: text(provider), name: text(name), operator: text(operator) });
            }
        }
    }
    Ok(found)
}

/// What an execution provider says of itself and its library: `version`, `library_path` and others.
pub fn device_metadata(device: &Device<'_>) -> Vec<(String, String)> {
    let api = ort::api();
    let (mut keys, mut values): (*const *const c_char, *const *const c_char) = (ptr::null(), ptr::null());
    let mut count = 0_usize;
    // SAFETY: the device belongs to the environment, which outlives this borrow of it and owns the pairs; the count
    // bounds the reads, and keys and values are null-terminated.
    unsafe {
        let pairs = (api.EpDevice_EpMetadata)(device.ptr());
        if pairs.is_null() {
            return Vec::new();
        }
        (api.GetKeyValuePairs)(pairs, &mut keys, &mut values, &mut count);
        (0..count).map(|index| (text(*keys.add(index)), text(*values.add(index)))).collect()
    }
}

/// # Safety
/// `text` must be null, or end with a zero byte and be alive.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: by this function's own condition.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The message of an error status, which is ours to release.
fn check(status: OrtStatusPtr) -> Result<(), String> {
    if status.0.is_null() {
        return Ok(());
    }
    let api = ort::api();
    // SAFETY: a status that is not null is valid until it is released, which happens here and only once; its message is
    // copied before.
    unsafe {
        let message = CStr::from_ptr((api.GetErrorMessage)(status.0)).to_string_lossy().into_owned();
        (api.ReleaseStatus)(status.0);
        Err(message)
    }
}
