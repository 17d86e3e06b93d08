#!/usr/bin/env python3
"""Builds a model of a real one's shape for the CPU, with random weights, and says what that takes: time, size, memory.

    model_shapes.py ORTALK SHAPE [--precision P] [--run] [--llama TYPE] ... [-- MORE OF ortalk build]

A build for the NPU would be refused, since random weights predict nothing: `npu_shape.py` makes weights that do.

The checkpoint (safetensors in bf16, several shards) is made in --work and removed at the end; what is built from it as well,
without --keep. Layers can be left out by --layers. Memory is that of ortalk and its children, read twenty times a second from
/proc, at its highest in each stage: "resident" has the pages of mapped files in it, which the system takes back when it needs
them, "own" does not.

--run measures the folder by `ortalk bench`. --llama Q8_0 (or Q4_0) quantizes the same weights for llama.cpp with the
`gguf` package and measures them through `llama_cpp` in turn with ortalk, in --rounds rounds; what counts is the ratio within
a round. --llama-python names the Python that has llama_cpp. Needs Linux and NumPy.
"""
import argparse
import json
import os
import re
import shutil
import statistics
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

# As the models' config.json say.
SHAPES = {
    "qwen3-0.6b": dict(model_type="qwen3", num_hidden_layers=28, hidden_size=1024, intermediate_size=3072, head_dim=128,
                       num_attention_heads=16, num_key_value_heads=8, vocab_size=151_936, tie_word_embeddings=True,
                       max_position_embeddings=40_960, rope_theta=1e6, rms_norm_eps=1e-6),
    "qwen2.5-7b": dict(model_type="qwen2", num_hidden_layers=28, hidden_size=3584, intermediate_size=18_944,
                       num_attention_heads=28, num_key_value_heads=4, vocab_size=152_064, tie_word_embeddings=False,
                       max_position_embeddings=32_768, rope_theta=1e6, rms_norm_eps=1e-6),
    "smollm2-135m": dict(model_type="llama", num_hidden_layers=30, hidden_size=576, intermediate_size=1536,
                         num_attention_heads=9, num_key_value_heads=3, vocab_size=49_152, tie_word_embeddings=True,
                         max_position_embeddings=8192, rope_theta=1e5, rms_norm_eps=1e-5),
}
SHARD = 2 << 30
MIB = 1 << 20
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def tensors(shape):
    """Hugging Face's and llama.cpp's name, and the size, of every tensor."""
    hidden, inner = shape["hidden_size"], shape["intermediate_size"]
    heads, kv_heads = shape["num_attention_heads"], shape["num_key_value_heads"]
    head = shape.get("head_dim", hidden // heads)
    yield "model.embed_tokens.weight", "token_embd.weight", (shape["vocab_size"], hidden)
    for layer in range(shape["num_hidden_layers"]):
        def named(own, known, *size):
            return f"model.layers.{layer}.{own}", f"blk.{layer}.{known}", size
        yield named("input_layernorm.weight", "attn_norm.weight", hidden)
        for part, count in (("q", heads), ("k", kv_heads), ("v", kv_heads)):
            yield named(f"self_attn.{part}_proj.weight", f"attn_{part}.weight", count * head, hidden)
            if shape["model_type"] == "qwen2":
                yield named(f"self_attn.{part}_proj.bias", f"attn_{part}.bias", count * head)
            if shape["model_type"] == "qwen3" and part != "v":
                yield named(f"self_attn.{part}_norm.weight", f"attn_{part}_norm.weight", head)
        yield named("self_attn.o_proj.weight", "attn_output.weight", hidden, heads * head)
        yield named("post_attention_layernorm.weight", "ffn_norm.weight", hidden)
        yield named("mlp.gate_proj.weight", "ffn_gate.weight", inner, hidden)
        yield named("mlp.up_proj.weight", "ffn_up.weight", inner, hidden)
        yield named("mlp.down_proj.weight", "ffn_down.weight", hidden, inner)
    yield "model.norm.weight", "output_norm.weight", (hidden,)
    if not shape["tie_word_embeddings"]:
        yield "lm_head.weight", "output.weight", (shape["vocab_size"], hidden)


class Weights:
    """Normal numbers in bf16, cut from one long stretch of them: a place of its own for each tensor."""

    LENGTH = 48 * MIB + 17

    def __init__(self):
        values = np.random.default_rng(1).standard_normal(self.LENGTH, dtype=np.float32)
        self.values = self.bf16(values * 0.02)

    @staticmethod
    def bf16(values):
        bits = np.asarray(values, np.float32).view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)

    def pieces(self, name, size):
        """The tensor's values in its order, a few megabytes at a time."""
        count = int(np.prod(size))
        if name.endswith("norm.weight"):
            yield self.bf16(np.ones(count))
            return
        # Not a hash: that of a str differs between runs.
        place = int.from_bytes(name.encode()[-7:], "little") * 7919 % self.LENGTH
        while count:
            piece = self.values[place:place + min(count, 8 * MIB)]
            yield piece
            count -= len(piece)
            place = (place + len(piece)) % self.LENGTH


def byte_characters():
    """The character that byte-level BPE has for each byte."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    moved = iter(range(256, 512))
    return [chr(byte if byte in plain else next(moved)) for byte in range(256)]


def vocabulary(size):
    """Tokens and merges of a byte-level BPE: bytes, pairs of letters, and names that no text has."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    pairs = [(a, b) for a in letters for b in letters]
    tokens = byte_characters() + [a + b for a, b in pairs]
    tokens += [f"unused{index:06}" for index in range(size - len(tokens) - len(SPECIAL))]
    return tokens + SPECIAL, pairs


def write_json(path, value):
    path.write_text(json.dumps(value))


def make_checkpoint(folder, shape, weights):
    folder.mkdir(parents=True)
    tokens, merges = vocabulary(shape["vocab_size"])
    ids = {token: index for index, token in enumerate(tokens)}
    write_json(folder / "config.json", {**shape, "hidden_act": "silu", "torch_dtype": "bfloat16",
                                        "eos_token_id": ids["<|im_end|>"], "bos_token_id": ids["<|endoftext|>"]})
    special = [{"id": ids[token], "content": token, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False} for token in SPECIAL]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    write_json(folder / "tokenizer.json", {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None,
        "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level,
        "model": {"type": "BPE", "vocab": {token: ids[token] for token in tokens[:-len(SPECIAL)]},
                  "merges": [f"{a} {b}" for a, b in merges]}})
    write_json(folder / "tokenizer_config.json", {"eos_token": "<|im_end|>", "chat_template": TEMPLATE})
    shards, total = [[]], 0
    for name, _, size in tensors(shape):
        length = 2 * int(np.prod(size))
        if sum(entry[2] for entry in shards[-1]) + length > SHARD and shards[-1]:
            shards.append([])
        shards[-1].append((name, size, length))
        total += length
    places = {}
    for number, shard in enumerate(shards, 1):
        file, offset, header = f"model-{number:05}-of-{len(shards):05}.safetensors", 0, {}
        for name, size, length in shard:
            header[name] = {"dtype": "BF16", "shape": size, "data_offsets": [offset, offset + length]}
            offset += length
            places[name] = file
        encoded = json.dumps(header).encode()
        with open(folder / file, "wb") as out:
            out.write(struct.pack("<Q", len(encoded)) + encoded)
            for name, size, _ in shard:
                for piece in weights.pieces(name, size):
                    out.write(piece.data)
    write_json(folder / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": places})
    return total


def make_gguf(path, shape, weights, kind):
    """The same weights as llama.cpp's converter would name and place them, in one type of ggml's."""
    import gguf
    kind = gguf.GGMLQuantizationType[kind]
    name = shape["model_type"]
    heads, hidden = shape["num_attention_heads"], shape["hidden_size"]
    writer = gguf.GGUFWriter(path, name)
    writer.add_block_count(shape["num_hidden_layers"])
    writer.add_context_length(shape["max_position_embeddings"])
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(shape["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(shape["num_key_value_heads"])
    if "head_dim" in shape:
        writer.add_key_length(shape["head_dim"])
        writer.add_value_length(shape["head_dim"])
    writer.add_layer_norm_rms_eps(shape["rms_norm_eps"])
    writer.add_rope_freq_base(shape["rope_theta"])
    tokens, merges = vocabulary(shape["vocab_size"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in SPECIAL else 1 for token in tokens])
    writer.add_token_merges([f"{a} {b}" for a, b in merges])
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    type_of = {known: kind if len(size) == 2 else gguf.GGMLQuantizationType.F32 for _, known, size in tensors(shape)}
    for _, known, size in tensors(shape):
        bytes_ = gguf.quant_shape_to_byte_shape(size, type_of[known]) if len(size) == 2 else size
        if len(size) == 2:
            writer.add_tensor_info(known, bytes_, np.dtype(np.uint8), int(np.prod(bytes_)), raw_dtype=type_of[known])
        else:
            writer.add_tensor_info(known, size, np.dtype(np.float32), 4 * size[0])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for name, known, size in tensors(shape):
        bits = np.concatenate(list(weights.pieces(name, size)))
        values = (bits.astype(np.uint32) << 16).view(np.float32).reshape(size)
        if shape["model_type"] == "llama" and known.split(".")[-2] in ("attn_q", "attn_k"):
            count = heads if known.split(".")[-2] == "attn_q" else shape["num_key_value_heads"]
            values = values.reshape(count, 2, -1, size[1]).swapaxes(1, 2).reshape(size)
        writer.write_tensor_data(gguf.quants.quantize(values, kind) if len(size) == 2 else values)
    writer.close()


class Memory(threading.Thread):
    """The memory of a process and its children, at its highest since it was asked."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.highest, self.lock = pid, [0, 0], threading.Lock()
        self.start()

    def run(self):
        while Path(f"/proc/{self.pid}").exists():
            now = [0, 0]
            for pid in self.family():
                for index, value in enumerate(self.of(pid)):
                    now[index] += value
            with self.lock:
                self.highest = [max(pair) for pair in zip(self.highest, now)]
            time.sleep(0.05)

    def family(self):
        parents = {}
        for entry in os.listdir("/proc"):
            try:
                if entry.isdigit():
                    parents[int(entry)] = int(Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
        family = [self.pid]
        for pid in family:
            family += [child for child, parent in parents.items() if parent == pid]
        return family

    @staticmethod
    def of(pid):
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return 0, 0
        return tuple(int(found[1]) * 1024 if (found := re.search(rf"^{key}:\s+(\d+)", status, re.M)) else 0
                     for key in ("VmRSS", "RssAnon"))

    def take(self):
        with self.lock:
            highest, self.highest = self.highest, [0, 0]
        return highest


def build(arguments, source, output):
    command = [arguments.ortalk, "build", source, "--output", output, "--target", "cpu"]
    command += ["--precision", arguments.precision] if arguments.precision else []
    started = time.perf_counter()
    process = subprocess.Popen([*map(str, command), *arguments.more], stderr=subprocess.PIPE, text=True)
    memory, peak = Memory(process.pid), [0, 0]
    print(f"{'stage':<58} resident, MiB  own, MiB")
    for line in process.stderr:
        highest = memory.take()
        peak = [max(pair) for pair in zip(peak, highest)]
        print(f"{line.rstrip():<58} {highest[0] / MIB:13.0f} {highest[1] / MIB:9.0f}", flush=True)
    if process.wait() != 0:
        sys.exit(f"ortalk build failed: {process.returncode}")
    seconds = time.perf_counter() - started
    size = sum(file.stat().st_size for file in output.iterdir())
    print(f"built in {seconds:.1f} s, {size / 1e6:.0f} MB, at most {peak[0] / MIB:.0f} MiB resident, "
          f"{peak[1] / MIB:.0f} MiB own")


def run_ortalk(arguments, folder):
    command = [arguments.ortalk, "bench", "--model", folder, "--lanes", "cpu", "--json", "--pass-lengths", "0",
               "--prompt-lengths", arguments.prompt, "--tokens", arguments.tokens, "--repetitions", 3, "--warmup", 1,
               "--threads", arguments.threads]
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
    memory = Memory(process.pid)
    report = json.loads(process.communicate()[0])
    samples = report["lanes"][0]["cases"][0]["samples"]
    prefill = statistics.median(arguments.prompt / sample["prefill_duration_ms"] * 1e3 for sample in samples)
    decode = statistics.median(ms for sample in samples for ms in sample["decode_token_durations_ms"])
    return prefill, 1e3 / decode, memory.take()


LLAMA = """
import json, statistics, sys, time
from llama_cpp import Llama
path, prompt, tokens, threads = sys.argv[1], *map(int, sys.argv[2:])
model = Llama(path, n_ctx=prompt + tokens + 8, n_batch=512, n_threads=threads, n_threads_batch=threads, verbose=False)
prefill, decode = [], []
for _ in range(4):
    model.reset()
    started = time.perf_counter()
    model.eval([97 + k % 26 for k in range(prompt)])
    prefill.append(prompt / (time.perf_counter() - started))
    for k in range(tokens):
        started = time.perf_counter()
        model.eval([97 + k % 26])
        decode.append(1 / (time.perf_counter() - started))
print(json.dumps([statistics.median(prefill[1:]), statistics.median(decode[tokens:])]))
"""


def run_llama(arguments, path):
    command = [arguments.llama_python, "-c", LLAMA, path, arguments.prompt, arguments.tokens, arguments.threads]
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    memory = Memory(process.pid)
    prefill, decode = json.loads(process.communicate()[0])
    return prefill, decode, memory.take()


def compare(arguments, folder, ggufs):
    print(f"\n{'':<16} {'prefill ' + str(arguments.prompt):>12} {'decode':>8} tokens/s   resident   own, MiB")
    ratios = {kind: [] for kind in ggufs}
    for _ in range(arguments.rounds):
        ours = run_ortalk(arguments, folder)
        results = {"ortalk": ours}
        for kind, path in ggufs.items():
            results[kind] = run_llama(arguments, path)
            ratios[kind].append([ours[index] / results[kind][index] for index in (0, 1)])
        for name, (prefill, decode, (resident, own)) in results.items():
            label = name if name == "ortalk" else f"llama.cpp {name}"
            print(f"{label:<16} {prefill:12.1f} {decode:8.1f} {resident / MIB:20.0f} {own / MIB:10.0f}", flush=True)
    for kind, pairs in ratios.items():
        prefill, decode = (statistics.median(values) for values in zip(*pairs))
        print(f"ortalk / llama.cpp {kind}: prefill {prefill:.2f}, decode {decode:.2f} (medians of {len(pairs)} rounds)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ortalk")
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("--precision")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--work", type=Path, default=Path("target/model-shapes"))
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--llama", action="append", default=[], metavar="TYPE")
    parser.add_argument("--llama-python", default=sys.executable)
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("more", nargs="*")
    arguments = parser.parse_args()
    shape = SHAPES[arguments.shape]
    if arguments.layers:
        shape["num_hidden_layers"] = arguments.layers
    source, output = arguments.work / arguments.shape, arguments.work / "built"
    weights = Weights()
    try:
        started = time.perf_counter()
        total = make_checkpoint(source, shape, weights)
        print(f"{arguments.shape}, {shape['num_hidden_layers']} layers: checkpoint of {total / 1e9:.2f} GB in "
              f"{time.perf_counter() - started:.0f} s")
        build(arguments, source, output)
        if not arguments.keep:
            shutil.rmtree(source)
        ggufs = {kind: arguments.work / f"{kind}.gguf" for kind in arguments.llama}
        for kind, path in ggufs.items():
            make_gguf(path, shape, weights, kind)
        if arguments.run or ggufs:
            compare(arguments, output, ggufs)
    finally:
        if not arguments.keep:
            shutil.rmtree(arguments.work, ignore_errors=True)


if __name__ == "__main__":
    main()
