//! ONNX Runtime: loads the shared library, lists devices, makes sessions and proves where their nodes run.
