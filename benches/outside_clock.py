#!/usr/bin/env python3
"""Checks the decode rate that `ortalk bench` reports with a clock outside of its process.

`ortalk bench` runs as a whole with few and with many tokens after its prompt. What the longer run takes longer is the time
of the further tokens: loading, prefill and all else are the same in both and cancel out. So

    outside = requests * (many - few) / (time of the long run - time of the short run)

is a decode rate that nothing inside the process measured. It is printed beside the rate of the same tokens by the times that
the long run reports, with their ratio, for the median of some rounds. On a quiet machine the ratio is within 3 % of 1.

Both clocks see the same tokens: no request warms up, as its tokens would count outside alone, and would be slower; and of
each request those are left out that the short run has as well.

Usage: outside_clock.py ORTALK [--rounds N] [--few N] [--many N] [-- MORE ARGUMENTS OF ortalk bench]
Needs Python 3 alone. ORTALK_HOME and other variables are passed on.
"""
import argparse
import json
import statistics
import subprocess
import sys
import time

PROMPT = 64
REPETITIONS = 6


def run(ortalk, tokens, more):
    """The seconds that the process took, and its report."""
    command = [ortalk, "bench", "--lanes", "cpu", "--json", "--prompt-lengths", str(PROMPT), "--pass-lengths", "0",
               "--tokens", str(tokens), "--repetitions", str(REPETITIONS),
               "--warmup", "0", *more]
    started = time.perf_counter()
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return time.perf_counter() - started, json.loads(output)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ortalk")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--few", type=int, default=2)
    parser.add_argument("--many", type=int, default=258)
    parser.add_argument("more", nargs="*")
    arguments = parser.parse_args()
    ratios = []
    # The first run reads the files into the system's cache.
    run(arguments.ortalk, arguments.few, arguments.more)
    print("round  inside, tokens/s  outside, tokens/s  inside / outside")
    for index in range(arguments.rounds):
        short, _ = run(arguments.ortalk, arguments.few, arguments.more)
        long, report = run(arguments.ortalk, arguments.many, arguments.more)
        samples = report["lanes"][0]["cases"][0]["samples"]
        latencies = [ms for sample in samples for ms in sample["decode_token_durations_ms"][arguments.few - 1:]]
        # The rate over all requests; the mean of their rates would weigh a disturbed one less.
        inside = len(latencies) / sum(latencies) * 1e3
        outside = REPETITIONS * (arguments.many - arguments.few) / (long - short)
        ratios.append(inside / outside)
        print(f"{index + 1:5}  {inside:16.2f}  {outside:17.2f}  {inside / outside:16.4f}")
    median = statistics.median(ratios)
    print(f"median of {len(ratios)}: {median:.4f}")
    return 0 if abs(median - 1) <= 0.03 else 1


if __name__ == "__main__":
    sys.exit(main())
