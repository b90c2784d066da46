"""Snapshots: going on from them, bad ones, and what `parapet ckpt` does with them."""

import math
import os
import signal
import time

import cluster
import idx_data

# 313 rounds an epoch, a prime: no snapshot of every 20 rounds is at the end of one.
JOB = ("--data=synthetic:20,4,20000", "--model=mlp:16", "--batch=32", "--optimizer=adam", "--lr=0.002")
ROUNDS, EVERY = 400, 20


class ResumeTest(cluster.ClusterTest):
    def setUp(self):
        self.snapshots = self.folder / "snapshots"

    def flags(self, *more, rounds=ROUNDS):
        return (*JOB, f"--rounds={rounds}", f"--snapshot_dir={self.snapshots}", f"--snapshot_every={EVERY}", *more)

    def uninterrupted(self, *flags):
        return self.run_job(*JOB, f"--rounds={ROUNDS}", *flags).summary["weights_hash"]

    def interrupt(self, number, *flags, **counts):
        """Ends a job by a signal once it has a snapshot; the version of the newest one."""
        launcher = self.start("interrupted", cluster.run_command(*self.flags(*flags), **counts))

        def saved():
            self.assertTrue(launcher.running(), f"{launcher.name} ended before its first snapshot")
            return self.latest(self.snapshots)

        cluster.wait_until(saved, cluster.PATIENCE, "snapshot")
        launcher.send(number)
        code = launcher.wait()
        self.assertEqual(code, 0 if number == signal.SIGTERM else -number)
        version = self.latest(self.snapshots)
        self.assertLess(version, ROUNDS, "the job was over before it could be interrupted")
        return version

    def check_resumed(self, expected, version, *flags, **counts):
        finished = self.run_job(*self.flags("--resume", *flags), **counts)
        self.assertIn(f"continues from {self.snapshots}/step-{version:012} (version {version})", finished.err)
        self.assertEqual(finished.summary["rounds"], ROUNDS)
        self.assertEqual(finished.summary["weights_hash"], expected)
        self.assertLess(finished.summary["samples"], ROUNDS * 64)
        return finished

    def test_after_kill(self):
        expected = self.uninterrupted()
        version = self.interrupt(signal.SIGKILL)
        self.assertEqual(version % EVERY, 0)
        self.assertGreater(self.manifest(self.snapshots, version)["position"], 0, "not in mid-epoch")
        self.check_resumed(expected, version, servers=3)

    def test_after_sigterm_with_worker_momentum(self):
        momentum = "--worker_momentum=0.9"
        expected = self.uninterrupted(momentum)
        version = self.interrupt(signal.SIGTERM, momentum, servers=3)
        finished = self.check_resumed(expected, version, momentum, servers=1)
        self.assertNotIn("starts from zero", finished.err)

    def test_after_kill_with_worker_momentum_and_clip(self):
        flags = ("--worker_momentum=0.5", "--clip_norm=0.1", "--optimizer=nesterov")
        expected = self.uninterrupted(*flags)
        self.check_resumed(expected, self.interrupt(signal.SIGKILL, *flags), *flags, servers=4)

    def test_twice(self):
        """Interrupted again after having been resumed, with other numbers of servers each time."""
        expected = self.uninterrupted()
        first = self.interrupt(signal.SIGTERM, servers=1)
        launcher = self.start("again", cluster.run_command(*self.flags("--resume"), servers=2))
        cluster.wait_until(
            lambda: not launcher.running() or self.latest(self.snapshots) > first,
            cluster.PATIENCE,
            "later snapshot",
        )
        launcher.send(signal.SIGTERM)
        self.assertEqual(launcher.wait(), 0)
        second = self.latest(self.snapshots)
        self.assertGreater(second, first)
        self.check_resumed(expected, second, servers=5)

    def test_nothing_left_to_do(self):
        expected = self.run_job(*self.flags(rounds=100)).summary["weights_hash"]
        began = time.monotonic()
        again = self.run_job(*self.flags("--resume", rounds=100)).summary
        self.assertEqual((again["rounds"], again["samples"], again["weights_hash"]), (100, 0, expected))
        self.assertLess(time.monotonic() - began, 20)

    def test_longer_than_before(self):
        """A job that was at its end goes on when it is told a later one."""
        expected = self.uninterrupted()
        self.run_job(*self.flags(rounds=ROUNDS - 100))
        self.check_resumed(expected, ROUNDS - 100)

    def test_resume_needs_the_same_model(self):
        self.run_job(*self.flags(rounds=10))
        argv = cluster.run_command(*self.flags("--resume", "--model=mlp:17", rounds=20))
        process = self.start("other model", argv)
        self.assertEqual(process.wait(), 2)
        self.assertIn("another model", process.err)

    def test_snapshots_are_not_mixed_up(self):
        """A fresh job does not write among the snapshots of another; resume without any starts afresh."""
        self.run_job(*self.flags("--resume", rounds=10))
        process = self.start("forgot to resume", cluster.run_command(*self.flags(rounds=20)))
        self.assertEqual(process.wait(), 2)
        self.assertIn("--resume", process.err)


class SnapshotTest(cluster.ClusterTest):
    def setUp(self):
        self.snapshots = self.folder / "snapshots"

    def flags(self, *more):
        return (*cluster.SMALL, f"--snapshot_dir={self.snapshots}", "--snapshot_every=50", *more)

    def names(self):
        return sorted(os.listdir(self.snapshots))

    def test_the_last_ones_are_kept(self):
        # Every one is written only if it is done before the next is due.
        summary = self.run_job(*self.flags("--rounds=220", "--snapshot_keep=2")).summary
        names = self.names()
        self.assertEqual(len([name for name in names if name.startswith("step-")]), 2)
        self.assertEqual(names[0], "latest")
        self.assertEqual(names[-1], "step-000000000220")
        self.assertEqual(len(names), 3, "leftovers")
        self.assertEqual((self.snapshots / "latest").read_text().strip(), names[-1])
        shown = self.shown(self.snapshots)
        self.assertEqual((shown["version"], shown["weights hash"]), ("220", summary["weights_hash"]))

    def make_three(self):
        """Versions 50, 100 and 150 in three runs, so that none can be skipped for being too fast."""
        for rounds in (50, 100, 150):
            hash_at_end = self.run_job(*self.flags("--resume", f"--rounds={rounds}")).summary["weights_hash"]
        self.assertEqual(self.names(), ["latest"] + [f"step-{v:012}" for v in (50, 100, 150)])
        return hash_at_end

    def alter(self, version, file, change):
        path = self.snapshots / f"step-{version:012}" / file
        data = bytearray(path.read_bytes())
        path.write_bytes(change(data))

    def test_bad_snapshots_are_passed_over(self):
        expected = self.make_three()

        def flip(data):
            data[len(data) // 2] ^= 1
            return data

        self.alter(150, "server-1.safetensors", flip)
        self.alter(100, "manifest.json", lambda data: data[: len(data) // 2])
        shown = self.call("ckpt", "show", self.snapshots)
        self.assertRegex(shown.out, r"step-000000000150 \(latest\): bad: .*server-1\.safetensors")
        self.assertRegex(shown.out, r"step-000000000100: bad: ")
        self.assertRegex(shown.out, r"step-000000000050: good")
        finished = self.run_job(*self.flags("--resume", "--rounds=150"))
        self.assertRegex(finished.err, r"passed over: .*step-000000000150.*server-1\.safetensors")
        self.assertRegex(finished.err, r"passed over: .*step-000000000100")
        self.assertIn("(version 50)", finished.err)
        self.assertEqual(finished.summary["weights_hash"], expected)
        self.assertEqual(self.latest(self.snapshots), 150)

    def test_a_named_snapshot(self):
        expected = self.make_three()
        finished = self.run_job(*self.flags("--resume=step-000000000050", "--rounds=150"))
        self.assertIn("(version 50)", finished.err)
        self.assertEqual(finished.summary["weights_hash"], expected)
        argv = cluster.run_command(*self.flags("--resume=step-000000000007", "--rounds=150", "--grace=1s"))
        process = self.start("no such", argv)
        self.assertNotEqual(process.wait(), 0)
        self.assertIn("step-000000000007", process.err)

    def test_files_of_a_snapshot(self):
        self.run_job(*self.flags("--rounds=50", "--worker_momentum=0.9"))
        files = [f"{role}-{number}.safetensors" for role in ("server", "worker") for number in (0, 1)]
        folder = self.snapshots / "step-000000000050"
        self.assertEqual(sorted(os.listdir(folder)), ["manifest.json", *files])
        named = [entry["name"] for entry in self.manifest(self.snapshots, 50)["files"]]
        self.assertEqual(sorted(named), files)

    def test_a_snapshot_without_momentum(self):
        """Who needs one starts from zero, and says that the bits differ from now on."""
        self.run_job(*self.flags("--rounds=50"))
        finished = self.run_job(*self.flags("--resume", "--rounds=100", "--worker_momentum=0.9"))
        for worker in (0, 1):
            self.assertRegex(finished.err, rf"worker {worker} .*starts from zero, and from there on")


class ExportTest(cluster.ClusterTest):
    """Needs numpy and safetensors, which tools/setup puts into build/venv."""

    def setUp(self):
        try:
            import numpy
            import safetensors.numpy
        except ImportError as error:
            self.fail(f"{error}: run tools/setup check, and this with build/venv/bin/python")
        self.numpy, self.load_file = numpy, safetensors.numpy.load_file

    def train(self, *flags, **counts):
        """The tensors of a trained model, and the summary."""
        snapshots, file = self.folder / "snapshots", self.folder / "model.safetensors"
        summary = self.run_job(f"--snapshot_dir={snapshots}", *flags, evaluators=1, **counts).summary
        exported = self.call("ckpt", "export", snapshots, file)
        self.assertEqual(exported.wait(), 0, exported.err)
        return self.load_file(file), summary

    def write_images(self):
        self.test_samples = idx_data.make_samples(200, 2)
        idx_data.write_data(self.folder / "data", idx_data.make_samples(600, 1), self.test_samples)
        return f"--data=idx:{self.folder}/data"

    def shapes(self, tensors):
        for tensor in tensors.values():
            self.assertEqual(tensor.dtype, self.numpy.float32)
        return {name: tensor.shape for name, tensor in tensors.items()}

    def test_mlp(self):
        """NumPy gets the same accuracy out of the exported weights as the evaluator."""
        tensors, summary = self.train(self.write_images(), "--model=mlp:24,12", "--epochs=4", servers=3)
        self.assertEqual(
            self.shapes(tensors),
            {
                "fc1.weight": (24, 64),
                "fc1.bias": (24,),
                "fc2.weight": (12, 24),
                "fc2.bias": (12,),
                "fc3.weight": (10, 12),
                "fc3.bias": (10,),
            },
        )
        pixels = self.numpy.array(idx_data.PIXELS) / 255
        images = self.numpy.array([list(image) for image, _ in self.test_samples]) / 255
        x = (images - pixels.mean()) / pixels.std()
        for layer in ("fc1", "fc2", "fc3"):
            x = x @ tensors[f"{layer}.weight"].T + tensors[f"{layer}.bias"]
            x = self.numpy.maximum(x, 0) if layer != "fc3" else x
        right = sum(int(row.argmax()) == label for row, (_, label) in zip(x, self.test_samples))
        # A near tie may fall to the other side for rounding.
        self.assertLessEqual(abs(right - 200 * summary["test_accuracy"]), 1)
        self.assertGreater(right, 100)

    def test_cnn(self):
        tensors, summary = self.train(self.write_images(), "--model=cnn:small", "--epochs=1")
        self.assertEqual(
            self.shapes(tensors),
            {
                "conv1.weight": (16, 1, 3, 3),
                "conv1.bias": (16,),
                "conv2.weight": (32, 16, 3, 3),
                "conv2.bias": (32,),
                "fc1.weight": (128, 32 * 2 * 2),
                "fc1.bias": (128,),
                "fc2.weight": (10, 128),
                "fc2.bias": (10,),
            },
        )
        self.assertTrue(math.isfinite(summary["final_loss"]))

    def test_bad_words(self):
        for words, code in ((("show",), 2), (("export", "/nowhere", "file"), 5), (("show", "/nowhere"), 5)):
            process = self.call("ckpt", *words)
            self.assertEqual(process.wait(), code, process.err)
            self.assertNotEqual(process.err, "")


if __name__ == "__main__":
    cluster.main()
