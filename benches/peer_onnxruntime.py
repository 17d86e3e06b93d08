#!/usr/bin/env python3
"""A peer for `cargo bench --bench speed`: the same graph, run by ONNX Runtime's own Python package.

It reads commands from standard input and answers each with one number, tokens per second:

    prefill N          one pass over N tokens into an empty cache
    decode N DEPTH     N single tokens after DEPTH tokens

Needs onnxruntime and numpy. Usage: peer_onnxruntime.py MODEL_FOLDER THREADS
"""
import json
import os
import sys
import time

import numpy as np
import onnxruntime as ort


class Peer:
    def __init__(self, folder, threads):
        with open(os.path.join(folder, "genai_config.json")) as file:
            model = json.load(file)["model"]
        decoder = model["decoder"]
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = ort.InferenceSession(
            os.path.join(folder, decoder["filename"]), options, providers=["CPUExecutionProvider"])
        shape = (1, decoder["num_key_value_heads"], model["context_length"], decoder["head_size"])
        self.cache = [
            (f"{index}.{kind}", ort.OrtValue.ortvalue_from_shape_and_type(shape, np.float32))
            for index in range(decoder["num_hidden_layers"]) for kind in ("key", "value")]
        self.logits = ort.OrtValue.ortvalue_from_shape_and_type((1, 1, model["vocab_size"]), np.float32)
        self.position = 0

    def forward(self, tokens):
        total = self.position + len(tokens)
        binding = self.session.io_binding()
        binding.bind_cpu_input("input_ids", np.asarray([tokens], np.int64))
        binding.bind_cpu_input("attention_mask", np.ones((1, total), np.int64))
        for name, value in self.cache:
            binding.bind_ortvalue_input(f"past_key_values.{name}", value)
            binding.bind_ortvalue_output(f"present.{name}", value)
        binding.bind_ortvalue_output("logits", self.logits)
        self.session.run_with_iobinding(binding)
        self.position = total

    def prefill(self, count):
        self.position = 0
        tokens = [1000 + i for i in range(count)]
        started = time.perf_counter()
        self.forward(tokens)
        return count / (time.perf_counter() - started)

    def decode(self, count, depth):
        self.position = 0
        self.forward([1000 + i for i in range(depth)])
        started = time.perf_counter()
        for _ in range(count):
            self.forward([500])
        return count / (time.perf_counter() - started)


def main():
    peer = Peer(sys.argv[1], int(sys.argv[2]))
    print("ready", flush=True)
    for line in sys.stdin:
        verb, *numbers = line.split()
        print(getattr(peer, verb)(*map(int, numbers)), flush=True)


main()
