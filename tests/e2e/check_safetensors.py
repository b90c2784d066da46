#!/usr/bin/env python3
"""Opens a file with the reference implementation of safetensors and prints what is in it.

Usage: check_safetensors.py FILE

Prints a JSON object: name -> {"dtype", "shape", "sum"}; the sum is in
float64. Needs the packages safetensors and numpy. Exits with 1 if the file cannot be opened.
"""

import json
import sys

import numpy as np
from safetensors import SafetensorError, safe_open


def describe(path):
    result = {}
    with safe_open(path, framework="numpy") as file:
        for name in file.keys():
            tensor = file.get_tensor(name)
            result[name] = {
                "dtype": str(tensor.dtype),
                "shape": list(tensor.shape),
                "sum": float(np.sum(tensor, dtype=np.float64)),
            }
    return result


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        print(json.dumps(describe(sys.argv[1])))
    except (OSError, SafetensorError) as error:
        print(f"{sys.argv[1]}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
