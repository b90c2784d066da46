"""Reads a plain safetensors file with the standard library: enough to compare weights."""

import array
import json
import math
import struct
import sys


def read(path):
    """Name -> float32 values, flat."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    tensors = {}
    for name, facts in header.items():
        if name == "__metadata__":
            continue
        begin, end = facts["data_offsets"]
        values = array.array("f", data[8 + length + begin : 8 + length + end])
        if sys.byteorder == "big":
            values.byteswap()
        tensors[name] = values
    return tensors


def distance(a, b):
    """The norm of the difference of two models, divided by that of the first."""
    if a.keys() != b.keys():
        raise AssertionError(f"{sorted(a)} and {sorted(b)} are other tensors")
    difference = math.fsum((x - y) ** 2 for name in a for x, y in zip(a[name], b[name], strict=True))
    return math.sqrt(difference / math.fsum(x * x for name in a for x in a[name]))
