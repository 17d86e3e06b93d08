#!/usr/bin/env python3
"""Builds a model of Qwen3-0.6B's shape for the NPU, with random weights, and says what each stage takes: seconds, processor
seconds, memory.

    npu_shape.py ORTALK [--layers 28] [--folder target/npu-shape] [--keep]

The quality gate stays in force, so the weights are not just random. Those predict nothing, and then the likeliest of 150,000
tokens changes with every rounding. Here each embedding is the one before it, turned by a fixed orthogonal matrix (a signed
permutation), in chains of 64 tokens; the layers add random vectors of four times its variance, and the last one's MLP turns the
sum. So the token that comes next in the chain stands out from the noise, with a probability of about 0.8, as in a model that
has learnt something. The MLP is linear there because its gate sees a constant: one dimension of the residual stream is 8 in all
tokens, an outlier as real models have them.

The tokenizer is a byte-level BPE, trained on Python's own library. Memory is as in `model_shapes.py`, which builds models of
several shapes for the CPU. Needs Linux, NumPy and tokenizers.
"""
import argparse
import json
import resource
import shutil
import struct
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from model_shapes import SPECIAL, TEMPLATE, Memory

HIDDEN, FEED_FORWARD, HEADS, KV_HEADS, HEAD_SIZE, VOCABULARY = 1024, 3072, 16, 8, 128, 151_936
# Rows of the embedding that no token has.
SPARE = 293
CHAIN = 64
CONSTANT = 8.0
# The variance that the layers add, where the embedding's is 1.
NOISE = 4.0
STAGES = ["export", "calibrate", "quantize", "compile", "judge", None]


def train_tokenizer():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py"))
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY - SPARE, special_tokens=SPECIAL, show_progress=False, min_frequency=1,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), max_token_length=16)
    tokenizer.train_from_iterator((file.read_text(errors="replace") for file in files), trainer)
    return tokenizer


def bf16(values):
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def tensors(layers):
    """Names and values, one after the other."""
    random = np.random.default_rng(1)

    def normal(rows, columns, scale=1.0):
        values = random.standard_normal((rows, columns), dtype=np.float32)
        values *= scale / columns ** 0.5
        return values

    def norm(size, scale=1.0):
        return random.uniform(0.8, 1.25, size).astype(np.float32) * scale

    # The constant's dimension stays where it is.
    permutation = np.concatenate([[0], 1 + random.permutation(HIDDEN - 1)])
    sign = random.choice(np.float32([-1, 1]), HIDDEN)
    chains = -(-VOCABULARY // CHAIN)
    embedding = np.empty((chains, CHAIN, HIDDEN), np.float32)
    embedding[:, 0] = random.standard_normal((chains, HIDDEN), dtype=np.float32)
    for index in range(1, CHAIN):
        embedding[:, index] = embedding[:, index - 1][:, permutation] * sign
    embedding = embedding.reshape(-1, HIDDEN)[random.permutation(chains * CHAIN)[:VOCABULARY]]
    embedding[:, 0] = CONSTANT
    yield "model.embed_tokens.weight", embedding
    del embedding

    part = (NOISE / layers) ** 0.5
    for layer in range(layers):
        def named(name, values):
            return f"model.layers.{layer}.{name}.weight", values
        yield named("input_layernorm", norm(HIDDEN))
        for name, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)):
            yield named(f"self_attn.{name}_proj", normal(heads * HEAD_SIZE, HIDDEN))
        for name in "qk":
            yield named(f"self_attn.{name}_norm", norm(HEAD_SIZE, 1.3))
        output = normal(HIDDEN, HEADS * HEAD_SIZE, 1.5 * part)
        output[0] = 0
        yield named("self_attn.o_proj", output)
        if layer < layers - 1:
            yield named("post_attention_layernorm", norm(HIDDEN))
            gate, up, down = normal(FEED_FORWARD, HIDDEN), normal(FEED_FORWARD, HIDDEN), normal(HIDDEN, FEED_FORWARD, 1.2 * part)
        else:
            yield named("post_attention_layernorm", np.ones(HIDDEN, np.float32))
            # What the norm divides by. SiLU of 4 is 3.93: the gate of every neuron.
            rms = ((CONSTANT ** 2 + (HIDDEN - 1) * (1 + NOISE)) / HIDDEN) ** 0.5
            gate = normal(FEED_FORWARD, HIDDEN, 0.01)
            gate[:, 0] = 4 * rms / CONSTANT
            # The turned stream, and most of the old one taken away, so that no token predicts itself.
            each = np.arange(HIDDEN)
            # Nothing else: beside weights as large as these, smaller ones of the same row are lost in 8 bits.
            up, down = np.zeros((FEED_FORWARD, HIDDEN), np.float32), np.zeros((HIDDEN, FEED_FORWARD), np.float32)
            up[each, permutation], up[HIDDEN + each, each] = sign, 1
            down[each, each], down[each, HIDDEN + each] = rms / 3.93, -0.8 * rms / 3.93
        down[0] = 0
        yield named("mlp.gate_proj", gate)
        yield named("mlp.up_proj", up)
        yield named("mlp.down_proj", down)
    last = norm(HIDDEN, 1 / 32)
    # The constant says nothing of what comes next.
    last[0] = 0
    yield "model.norm.weight", last


def write_shard(path, shard):
    offset, header = 0, {}
    for name, bits in shard.items():
        header[name] = {"dtype": "BF16", "shape": bits.shape, "data_offsets": [offset, offset + bits.nbytes]}
        offset += bits.nbytes
    encoded = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(encoded)) + encoded)
        for bits in shard.values():
            file.write(bits.data)


def make_checkpoint(folder, layers):
    folder.mkdir(parents=True)
    tokenizer = train_tokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    config = dict(model_type="qwen3", hidden_size=HIDDEN, num_hidden_layers=layers, num_attention_heads=HEADS,
                  num_key_value_heads=KV_HEADS, head_dim=HEAD_SIZE, intermediate_size=FEED_FORWARD, vocab_size=VOCABULARY,
                  max_position_embeddings=40_960, rms_norm_eps=1e-6, rope_theta=1e6, tie_word_embeddings=True,
                  hidden_act="silu", attention_bias=False, torch_dtype="bfloat16",
                  bos_token_id=tokenizer.token_to_id(SPECIAL[0]), eos_token_id=tokenizer.token_to_id(SPECIAL[2]))
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE, "eos_token": SPECIAL[2]}))
    places, shard, number = {}, {}, 1
    for name, values in tensors(layers):
        shard[name] = bf16(values)
        places[name] = f"model-{number:05}.safetensors"
        if sum(bits.nbytes for bits in shard.values()) > 300e6:
            write_shard(folder / places[name], shard)
            shard, number = {}, number + 1
    if shard:
        write_shard(folder / f"model-{number:05}.safetensors", shard)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))


def measured(command):
    """Runs a command: what it said, its seconds, processor seconds, and highest memory."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    memory = Memory(process.pid)
    said = process.communicate()[1]
    if process.returncode:
        sys.exit(f"{command} failed:\n{said}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return said, time.monotonic() - started, processor, [size / 1e6 for size in memory.take()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ortalk")
    parser.add_argument("--layers", type=int, default=28)
    parser.add_argument("--folder", type=Path, default=Path("target/npu-shape"))
    parser.add_argument("--keep", action="store_true", help="leave checkpoint and model folder")
    arguments = parser.parse_args()
    source, output = arguments.folder / f"qwen3-{arguments.layers}", arguments.folder / f"qwen3-{arguments.layers}-npu"
    shutil.rmtree(output, ignore_errors=True)
    if not source.exists():
        make_checkpoint(source, arguments.layers)
    totals, most = [0.0, 0.0], [0, 0]
    print(f"{'stage':<12}{'seconds':>9}{'processor':>11}{'resident MB':>13}{'own MB':>8}", flush=True)
    for stage in STAGES:
        command = [arguments.ortalk, "build", source, "--output", output, "--target", "npu", "--soc", "x-elite"]
        command += ["--stop-after", stage] if stage else []
        said, seconds, processor, highest = measured(command)
        totals = [totals[0] + seconds, totals[1] + processor]
        most = [max(pair) for pair in zip(most, highest)]
        print(f"{stage or 'assemble':<12}{seconds:9.1f}{processor:11.1f}{highest[0]:13.0f}{highest[1]:8.0f}",
              flush=True)
        if stage is None:
            print(said)
    print(f"all{totals[0]:18.1f}{totals[1]:11.1f}{most[0]:13.0f}{most[1]:8.0f}")
    nodes = json.loads((output / "ortalk_npu.json").read_text())["compiled_nodes"]
    print(f"nodes on the NPU, all that there are: {nodes['prefill']} of prefill, {nodes['decode']} of decode")
    if not arguments.keep:
        shutil.rmtree(arguments.folder)


if __name__ == "__main__":
    main()
