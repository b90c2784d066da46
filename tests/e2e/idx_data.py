"""Writes small data sets as IDX files, the format of MNIST."""

import random
import struct

SIDE = 8
CLASSES = 10
# Every image has these pixels in some order, so that every set has the same mean and deviation: what
# two data sets are normalised with does not differ.
PIXELS = [4 * i for i in range(SIDE * SIDE)]


def make_image(label, rng):
    """A noisy image, brighter in a place that tells its label."""
    weights = [rng.random() + (1.5 if i * CLASSES // len(PIXELS) == label else 0) for i in range(len(PIXELS))]
    image = [0] * len(PIXELS)
    for pixel, place in zip(PIXELS, sorted(range(len(PIXELS)), key=weights.__getitem__)):
        image[place] = pixel
    return bytes(image)


def make_samples(count, seed):
    """(image, label) pairs."""
    rng = random.Random(seed)
    labels = [rng.randrange(CLASSES) for _ in range(count)]
    return [(make_image(label, rng), label) for label in labels]


def write_split(folder, prefix, samples):
    images = b"".join(image for image, _ in samples)
    header = struct.pack(">4B3I", 0, 0, 8, 3, len(samples), SIDE, SIDE)
    (folder / f"{prefix}-images-idx3-ubyte").write_bytes(header + images)
    labels = bytes(label for _, label in samples)
    (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(struct.pack(">4BI", 0, 0, 8, 1, len(samples)) + labels)


def write_data(folder, train, test):
    """The four files of a data set."""
    folder.mkdir(parents=True)
    write_split(folder, "train", train)
    write_split(folder, "t10k", test)
