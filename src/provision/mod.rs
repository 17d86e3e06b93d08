//! Fetches what is missing on this machine: ONNX Runtime and the default model.
