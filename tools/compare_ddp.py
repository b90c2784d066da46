#!/usr/bin/env python3
"""Trains the same model with PyTorch DDP over gloo and with Parapet, in turn, and prints samples/s of both.

Needs torch and numpy (pip, in an environment of their own) and a release build:
    python3 -m venv /tmp/torch && /tmp/torch/bin/pip install torch numpy
    /tmp/torch/bin/python tools/compare_ddp.py --model=mlp --workers=2 --batch=64
One thread a process on both sides. DDP leaves out its first steps, Parapet its first rounds.
"""
import argparse
import gzip
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
MODELS = {"mlp": "mlp:256,128", "cnn": "cnn:small", "wide": "mlp:2048,2048"}
WARMUP = 20


def make_model(name):
    from torch import nn

    if name == "cnn":
        return nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(32 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10))
    sizes = [784] + [int(s) for s in MODELS[name].split(":")[1].split(",")] + [10]
    layers = [nn.Flatten()]
    for fan_in, fan_out in zip(sizes, sizes[1:]):
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def load_data():
    import numpy as np
    import torch

    def read(name, offset):
        with gzip.open(DATA / name) as file:
            return np.frombuffer(file.read(), np.uint8, offset=offset).copy()

    images = torch.from_numpy(read("train-images-idx3-ubyte.gz", 16)).float().view(-1, 1, 28, 28)
    labels = torch.from_numpy(read("train-labels-idx1-ubyte.gz", 8)).long()
    return (images / 255 - 0.2860) / 0.3530, labels


def ddp_process(args):
    """One rank, started by torchrun."""
    import torch
    import torch.distributed as dist
    from torch.nn.functional import cross_entropy
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    images, labels = load_data()
    mine = torch.randperm(len(labels))[dist.get_rank()::dist.get_world_size()]
    model = DistributedDataParallel(make_model(args.model))
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    for step in range(args.rounds + WARMUP):
        if step == WARMUP:
            dist.barrier()
            began = time.perf_counter()
        start = step * args.batch % (len(mine) - args.batch)
        rows = mine[start:start + args.batch]
        optimizer.zero_grad()
        cross_entropy(model(images[rows]), labels[rows]).backward()
        optimizer.step()
    dist.barrier()
    if dist.get_rank() == 0:
        samples = args.rounds * args.batch * args.workers
        print("samples_per_second", samples / (time.perf_counter() - began), flush=True)
    dist.destroy_process_group()


def run_ddp(args):
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc_per_node={args.workers}", "--master_port=0",
               "--standalone", __file__, "--as_rank", f"--model={args.model}", f"--workers={args.workers}",
               f"--batch={args.batch}", f"--rounds={args.rounds}"]
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    output = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    return next(float(line.split()[1]) for line in output.splitlines() if line.startswith("samples_per_second"))


def run_parapet(args):
    command = [ROOT / "build/release/bin/parapet", "run", f"--servers={args.servers}", f"--workers={args.workers}",
               "--evaluators=0", f"--transport={args.transport}", f"--model={MODELS[args.model]}", f"--batch={args.batch}", f"--rounds={args.rounds}",
               "--optimizer=momentum", "--lr=0.05", "--summary=json", "--log_level=warn", "--progress=none"]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(output.splitlines()[-1])["samples_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="mlp")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--transport", choices=["shm", "ipc", "tcp"], default="shm")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--as_rank", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.as_rank:
        return ddp_process(args)
    print(f"{args.model}, {args.workers} workers, batch {args.batch} each, {args.servers} servers, {args.transport}")
    print("      DDP gloo       Parapet   ratio   [samples/s]")
    for _ in range(args.times):
        ddp, parapet = run_ddp(args), run_parapet(args)
        print(f"{ddp:14.0f}{parapet:14.0f}{parapet / ddp:8.2f}", flush=True)


if __name__ == "__main__":
    main()
