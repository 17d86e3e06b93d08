//! The model builder: reads a checkpoint (GGUF) and writes a model folder in onnxruntime-genai's layout.
