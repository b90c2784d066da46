#!/usr/bin/env python3
"""Parapet's rules beside ByzFL's, on one thread of this machine, in turn.

    python3 -m venv /tmp/byzfl && /tmp/byzfl/bin/pip install byzfl==0.0.11
    /tmp/byzfl/bin/python tools/compare_byzfl.py

ByzFL (https://byzfl.epfl.ch) computes with PyTorch; both get random rows of the
same size. Each time is the best of three. Prints a table in Markdown: GB/s of
the n * d * 4 bytes of input, and how many times ByzFL's speed that is.
"""

import argparse
import json
import os
import pathlib
import subprocess
import time

import byzfl
import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent


def byzfl_rules(f):
    nnm, trimmed = byzfl.NNM(f=f), byzfl.TrMean(f=f)
    return {
        "mean": byzfl.Average(),
        "median": byzfl.Median(),
        "trimmed_mean": trimmed,
        "meamed": byzfl.Meamed(f=f),
        "krum": byzfl.Krum(f=f),
        "multi_krum": byzfl.MultiKrum(f=f),
        "geometric_median": byzfl.GeometricMedian(),
        "monna(0)": byzfl.MoNNA(f=f),
        "caf": byzfl.CAF(f=f),
        "nnm + trimmed_mean": lambda rows: trimmed(nnm(rows)),
    }


def best_seconds(call, tries=3):
    call()
    times = []
    for _ in range(tries):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def parapet_seconds(program, rule, args):
    command = [program, "bench", "rules", f"--rules={rule}", f"--n={args.n}", f"--d={args.d}",
               f"--byzantine={args.byzantine}", "--threads=1", "--json"]
    rows = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return next(row["seconds"] for row in rows if row["rule"] == rule)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=16, help="rows")
    parser.add_argument("--d", type=int, default=1_000_000, help="elements of a row")
    parser.add_argument("--byzantine", type=int, default=4)
    parser.add_argument("--bin", default=str(ROOT / "build/release/bin"), help="where parapet is")
    args = parser.parse_args()

    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    torch.manual_seed(1)
    rows = torch.rand(args.n, args.d) - 0.45
    size = args.n * args.d * 4 / 1e9
    print(f"n = {args.n}, d = {args.d}, f = {args.byzantine}, one thread, ByzFL on PyTorch {torch.__version__}\n")
    print("| rule | ByzFL, GB/s | Parapet, GB/s | times as fast |\n|---|---|---|---|", flush=True)
    for name, rule in byzfl_rules(args.byzantine).items():
        peer = best_seconds(lambda: rule(rows))
        ours = parapet_seconds(os.path.join(args.bin, "parapet"), name, args)
        print(f"| `{name}` | {size / peer:.2f} | {size / ours:.1f} | {peer / ours:.1f} |", flush=True)


main()
