#!/usr/bin/env python3
"""Says how far model folders for the CPU are from the first one, built from the same source in float32:

    ortalk build MODEL -o fp32 --precision fp32 && ortalk build MODEL -o int4 --precision int4 ...
    accuracy.py fp32 int4 int8 ...

For each: size, and over the positions of the texts in tests/fixtures/logits.json (SmolLM2's tokens; other models take their
numbers modulo the vocabulary) the mean of the KL divergence from the first folder's next-token distribution in nats, its
99th percentile, and how often the most likely token is the same. Needs the packages onnxruntime and numpy.
"""
import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime

SEQUENCES = json.loads((Path(__file__).parent.parent / "tests/fixtures/logits.json").read_text())["sequences"]


def log_probabilities(folder):
    config = json.loads((folder / "genai_config.json").read_text())["model"]
    decoder = config["decoder"]
    options = onnxruntime.SessionOptions()
    # It warns of the optional input, and of more logits than onnxruntime-genai is told of.
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    past = np.zeros((1, decoder["num_key_value_heads"], 0, decoder["head_size"]), np.float32)
    rows = []
    for sequence in SEQUENCES:
        tokens = np.array([sequence], np.int64) % config["vocab_size"]
        feeds = {"input_ids": tokens, "attention_mask": np.ones_like(tokens), "logits_index": np.arange(tokens.size)}
        feeds |= {f"past_key_values.{layer}.{part}": past
                  for layer in range(decoder["num_hidden_layers"]) for part in ("key", "value")}
        logits = session.run(["logits"], feeds)[0][0].astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        rows.append(logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))
    return np.concatenate(rows)


def main():
    folders = [Path(name) for name in sys.argv[1:]]
    reference = log_probabilities(folders[0])
    print(f"{len(reference)} positions, beside {folders[0]}")
    for folder in folders:
        found = log_probabilities(folder)
        kl = (np.exp(reference) * (reference - found)).sum(axis=1)
        same = (found.argmax(axis=1) == reference.argmax(axis=1)).mean()
        size = sum((folder / name).stat().st_size for name in ("model.onnx", "model.onnx.data"))
        print(f"{folder.name:<24} {size / 1e6:8.1f} MB  KL {kl.mean():.4f}, 99 % below {np.percentile(kl, 99):.3f}, "
              f"same token {same:.3f}")


if __name__ == "__main__":
    main()
