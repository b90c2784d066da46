"""`parapet run` and the programs' flags."""

import json
import re

import cluster
import idx_data

FIELDS = {
    "final_loss",
    "test_accuracy",
    "rounds",
    "samples",
    "samples_per_second",
    "bytes_pushed",
    "bytes_published",
    "weights_hash",
    "phases",
}


class RunTest(cluster.ClusterTest):
    def check_two_epochs(self, finished):
        """2000 samples, 64 a round: 31 rounds and one of 16; 404 parameters of 4 bytes, 2 workers."""
        summary = finished.summary
        self.assertLessEqual(FIELDS, summary.keys())
        self.assertEqual(summary["rounds"], 64)
        self.assertEqual(summary["samples"], 4000)
        self.assertEqual(summary["bytes_pushed"], 64 * 2 * 404 * 4)
        # Every version to two workers, that of the beginning too, and one or two to the evaluator.
        self.assertGreaterEqual(summary["bytes_published"], 65 * 2 * 404 * 4)
        self.assertLessEqual(summary["bytes_published"], (65 * 2 + 3) * 404 * 4)
        self.assertGreater(summary["samples_per_second"], 0)
        self.assertRegex(summary["weights_hash"], r"^[0-9a-f]{16}$")
        # Four classes: guessing gives a quarter. The classes lie far apart.
        self.assertGreater(summary["test_accuracy"], 0.8)
        self.assertLessEqual(summary["test_accuracy"], 1)
        self.assertLess(summary["final_loss"], 1)
        self.assertGreater(len(summary["phases"]), 2)
        self.assertGreater(sum(summary["phases"].values()), 0)

    def test_ipc_and_tcp(self):
        hashes = set()
        for transport in ("shm", "ipc", "tcp"):
            finished = self.run_job(*cluster.SMALL, "--epochs=2", f"--transport={transport}", evaluators=1)
            self.check_two_epochs(finished)
            self.assertEqual(len(finished.out.splitlines()), 1, "standard output is for the summary")
            hashes.add(finished.summary["weights_hash"])
        self.assertEqual(len(hashes), 1)

    def test_logs_have_role_and_index(self):
        finished = self.run_job(*cluster.SMALL, "--rounds=5", "--log_level=info", workers=3, evaluators=1)
        for line in finished.err.splitlines():
            self.assertRegex(line, r"^(server [01]|worker [012]|evaluator 0|parapet) *\| ")
        for name in ("server 0", "worker 2", "evaluator 0"):
            self.assertIn(name, finished.err)

    def test_text_summary(self):
        finished = self.run_job(*cluster.SMALL, "--rounds=5", "--summary=text")
        self.assertRegex(finished.out, r"rounds +5\n")

    def test_without_evaluator_there_is_no_accuracy(self):
        summary = self.run_job(*cluster.SMALL, "--rounds=5").summary
        self.assertIsNone(summary["test_accuracy"])

    def test_json_progress_goes_to_standard_output(self):
        finished = self.run_job(*cluster.SMALL, "--rounds=300", "--progress=json")
        lines = [json.loads(line) for line in finished.out.splitlines()]
        self.assertGreater(len(lines), 1, "no progress before the summary")
        self.assertIn("loss", lines[0])

    def test_more_servers_than_chunks(self):
        self.assertEqual(self.run_job(*cluster.SMALL, "--rounds=20", servers=4).summary["rounds"], 20)

    def test_job_in_a_flag_file(self):
        job = self.folder / "job.flags"
        # Flags for every role, as a cluster's processes share them.
        lines = [*cluster.SMALL, "--rounds=10", "--server_threads=1", "--threads=1", "# a comment", ""]
        job.write_text("\n".join(lines))
        from_file = self.run_job(f"--flagfile={job}").summary
        from_flags = self.run_job(*cluster.SMALL, "--rounds=10").summary
        self.assertEqual(from_file["weights_hash"], from_flags["weights_hash"])
        self.assertEqual(from_file["rounds"], 10)
        own = self.run_job(f"--flagfile={job}", "--rounds=3").summary
        self.assertEqual(own["rounds"], 3, "the command line is stronger than the file")

    def test_port_zero_and_port_file(self):
        job = cluster.Job(self, *cluster.SMALL, "--epochs=1", servers=3, evaluators=1, tcp=True).start()
        ports = {address.rpartition(":")[2] for address in job.addresses}
        self.assertEqual(len(ports - {"0"}), 3)
        self.assertRegex(job["server 0"].err, rf"listens at \S*:{job.addresses[0].rpartition(':')[2]}\b")
        self.assert_all_exit(job, 0)
        self.assertEqual(job.summary()["rounds"], 32)
        self.assertGreater(job.summary()["test_accuracy"], 0.5)


class FlagsTest(cluster.ClusterTest):
    def refused(self, argv, *words):
        process = self.start("refused", argv)
        self.assertEqual(process.wait(20), 2, f"exit code of {argv[1:]}")
        for word in words:
            self.assertIn(word, process.err)
        self.assertEqual(process.out, "")
        # In words, for people: no stack of functions, not a page.
        self.assertLess(len(process.err), 2000)

    def test_unknown_flag_is_refused(self):
        self.refused(cluster.run_command(*cluster.SMALL, "--epocs=1"), "--epocs", "--epochs")
        servers = "--servers=127.0.0.1:1"
        self.refused([cluster.BIN / "parapet-server", servers, "--index=0", "--bogus"], "--bogus")
        self.refused([cluster.BIN / "parapet-worker", servers, "--id=0", "--bogus"], "--bogus")

    def test_a_device_that_is_not_there_is_refused(self):
        worker = [cluster.BIN / "parapet-worker", *cluster.SMALL, "--servers=ipc:///nobody", "--id=0", "--rounds=1"]
        self.refused([*worker, "--device=cuda:99"], "--device=cuda:99")
        self.refused([*worker, "--device=gpu"], "--device=gpu", "auto, cpu or cuda:N")
        self.refused([*worker, "--device=cpu", "--compute=bfloat16"], "--compute=bfloat16", "GPU")
        self.refused(cluster.run_command(*cluster.SMALL, "--rounds=1", "--device=cuda"), "--device=cuda")

    def test_contradictions_are_refused(self):
        for flags, words in (
            (("--epochs=1", "--rounds=1"), ("--epochs=1", "--rounds=1", "contradict")),
            ((), ("--epochs", "--rounds")),
            (("--rounds=1", "--snapshot_every=5"), ("--snapshot_every=5", "--snapshot_dir")),
            (("--rounds=1", "--resume"), ("--resume", "--snapshot_dir")),
            (("--rounds=1", "--quorum=3"), ("--quorum=3", "--workers=2")),
            (("--rounds=1", "--byzantine=2"), ("--byzantine=2",)),
            (("--rounds=1", "--chunk=1000"), ("--chunk=1000", "multiple")),
            (("--rounds=9", "--warmup=10"), ("--warmup=10", "--rounds=9")),
        ):
            with self.subTest(flags=flags):
                self.refused(cluster.run_command(*cluster.SMALL, *flags), *words)

    def test_wrong_values_are_refused(self):
        for flag, word in (
            ("--batch=0", "--batch"),
            ("--lr=fast", "--lr"),
            ("--optimizer=lbfgs", "adamw"),
            ("--wire=int8", "bfloat16"),
            ("--model=mlp:0", "mlp"),
            ("--model=transformer", "mlp"),
            ("--data=synthetic:20,4", "synthetic"),
            ("--rule=no_such_rule", "no_such_rule"),
        ):
            with self.subTest(flag=flag):
                self.refused(cluster.run_command(*cluster.SMALL, "--rounds=1", flag), word)

    def test_addresses_are_checked(self):
        worker = [cluster.BIN / "parapet-worker", "--rounds=1", "--workers=2"]
        self.refused([*worker, "--servers=127.0.0.1:1"], "--id")
        self.refused([*worker, "--id=2", "--servers=127.0.0.1:1"], "--id=2")
        self.refused([*worker, "--id=0", "--servers=nowhere"], "nowhere")
        self.refused([*worker, "--id=0", "--servers=192.0.2.1:7000"], "--insecure")

    def test_no_command(self):
        self.refused(cluster.parapet("fly"), "fly", "run", "ckpt")
        self.refused(cluster.parapet(), "usage")

    def test_help_has_groups_units_and_defaults(self):
        for argv in (
            cluster.parapet("run", "--help"),
            [cluster.BIN / "parapet-server", "--help"],
            [cluster.BIN / "parapet-worker", "--help"],
        ):
            process = self.start("help", argv)
            self.assertEqual(process.wait(20), 0)
            self.assertRegex(process.out, r"(?m)^Snapshots")
            self.assertRegex(process.out, r"--batch=SAMPLES[\s\S]{0,200}32")

    def test_bad_data_is_named(self):
        samples = idx_data.make_samples(50, 1)
        idx_data.write_data(self.folder / "data", samples, samples)
        labels = self.folder / "data/train-labels-idx1-ubyte"
        good = labels.read_bytes()
        for what, content in (("label", good[:-1] + b"\x63"), ("", good[:-1]), ("", b"\x01" + good[1:])):
            labels.write_bytes(content)
            job = (f"--data=idx:{self.folder}/data", "--model=softmax", "--rounds=1")
            # Who is still waiting for the one that failed leaves after the grace.
            argv = cluster.run_command(*job, "--grace=1s")
            process = self.start("bad data", argv)
            self.assertNotEqual(process.wait(), 0)
            self.assertIn("train-labels-idx1-ubyte", process.err)
            self.assertIn(what, process.err)

    def test_missing_data_is_named(self):
        argv = cluster.run_command(f"--data=idx:{self.folder}/nothing", "--model=softmax", "--rounds=1")
        process = self.start("no data", argv)
        self.assertNotEqual(process.wait(), 0)
        self.assertTrue(re.search(r"no file \S*/nothing/train-images-idx3-ubyte", process.err))


if __name__ == "__main__":
    cluster.main()
