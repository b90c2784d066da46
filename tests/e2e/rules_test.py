"""Robust rules in real jobs: the same bits for every number of servers, resuming, and the account."""

import json
import pathlib
import signal

import cluster

WORKERS = 5
JOB = (*cluster.LARGE, "--rounds=6", "--chunk=16Ki", "--byzantine=1")

# Coordinate-wise, a selection, weights, a mixture, the previous aggregate, a secret permutation.
RULES = {
    "median": (),
    "krum": (),
    "nnm + trimmed_mean": (),
    "clip(0.5) + mda": ("--clip_norm=0.5",),
    "centered_clip(tau=0.1)": ("--wire=bfloat16",),
    "bucketing(2) + geometric_median": ("--rule_secret=5",),
}


class RulesTest(cluster.ClusterTest):
    def read_audit(self, path):
        """The rounds; without the lines that a start of the lead begins with."""
        lines = [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]
        return [line for line in lines if "job" not in line]

    def report(self, path):
        process = self.call("audit", str(path), "--json")
        self.assertEqual(process.wait(), 0, process.err)
        return json.loads(process.out)

    def test_the_same_bits_whatever_the_number_of_servers(self):
        hashes = set()
        for rule, flags in RULES.items():
            found, accounts = set(), []
            for servers in (1, 2, 3):
                with self.subTest(rule=rule, servers=servers):
                    audit = self.folder / f"audit-{len(hashes)}-{servers}"
                    job = (*JOB, f"--rule={rule}", f"--audit={audit}", *flags)
                    finished = self.run_job(*job, servers=servers, workers=WORKERS)
                    found.add(finished.summary["weights_hash"])
                    accounts.append(self.read_audit(audit))
            self.assertEqual(len(found), 1, rule)
            # The same selections, scores and weights too.
            self.assertEqual(accounts[0], accounts[1], rule)
            self.assertEqual(accounts[0], accounts[2], rule)
            hashes |= found
        self.assertEqual(len(hashes), len(RULES), "two rules gave the same weights")

    def test_the_account(self):
        audit = self.folder / "audit"
        job = (*JOB, "--rule=krum", f"--audit={audit}")
        summary = self.run_job(*job, servers=2, workers=WORKERS).summary
        records = self.read_audit(audit)
        self.assertEqual([record["round"] for record in records], list(range(6)))
        for record in records:
            self.assertEqual(record["rule"], "krum")
            self.assertEqual(record["participants"], list(range(WORKERS)))
            self.assertEqual(sorted(record["weights"]), [0, 0, 0, 0, 1])
            stage = record["stages"][0]
            self.assertEqual(stage["selected"], [record["weights"].index(1)])
            best = stage["scores"].index(min(stage["scores"]))
            self.assertEqual(stage["selected"], [best])
            self.assertEqual(record["why_bad"], "")
        self.assertEqual(summary["left_out"], {})
        self.assertEqual(summary["strikes"], {})
        self.assertEqual(len(summary["suspicion"]), WORKERS)
        # A second job does not write over the account of the first.
        self.run_job(*job, servers=1, workers=WORKERS)
        self.assertEqual(self.read_audit(f"{audit}.1"), records)
        report = self.report(audit)
        self.assertEqual((report["rounds"], report["again"], report["earlier_jobs"]), (6, 0, 1))
        self.assertEqual((report["job"], report["rule"], report["f"]), ("parapet", "krum", 1))

    def test_the_account_is_bounded(self):
        audit = self.folder / "audit"
        job = (*cluster.SMALL, "--rounds=200", "--byzantine=1", "--rule=krum")
        self.run_job(*job, f"--audit={audit}", "--audit_bytes=8Ki", servers=1, workers=WORKERS)
        for suffix in ("", ".1", ".2", ".3"):
            path = pathlib.Path(f"{audit}{suffix}")
            # One batch of lines may go beyond.
            self.assertLess(path.stat().st_size, 2 * 8192 + 65536)
            self.read_audit(path)
        self.assertFalse(pathlib.Path(f"{audit}.4").exists())
        self.assertEqual(self.read_audit(audit)[-1]["round"], 199)

    def test_resumed_with_the_previous_aggregate(self):
        job = (*cluster.SMALL, "--byzantine=1", "--rule=nnm + centered_clip(tau=0.05)", "--rounds=300")
        snapshots = self.folder / "snapshots"
        kept = (*job, f"--snapshot_dir={snapshots}", "--snapshot_every=20")
        expected = self.run_job(*job, servers=1, workers=WORKERS).summary["weights_hash"]
        launcher = self.start("interrupted", cluster.run_command(*kept, servers=2, workers=WORKERS))
        cluster.wait_until(lambda: self.latest(snapshots), cluster.PATIENCE, "snapshot")
        launcher.send(signal.SIGKILL)
        launcher.wait()
        version = self.latest(snapshots)
        self.assertLess(version, 300, "the job was over before it could be interrupted")
        finished = self.run_job(*kept, "--resume", servers=3, workers=WORKERS)
        self.assertIn(f"(version {version})", finished.err)
        self.assertEqual(finished.summary["weights_hash"], expected)

    def test_rules_that_cannot_be_are_refused_before_anything_starts(self):
        for flags, words in (
            (("--rule=medan",), "there is no rule 'medan'"),
            (("--rule=bulyan", "--byzantine=2"), "needs at least 11 workers; this job has 5"),
            (("--rule=krum", "--byzantine=1", "--quorum=4"), "--quorum=4 is too few"),
        ):
            with self.subTest(flags=flags):
                command = cluster.run_command(*cluster.SMALL, "--rounds=1", *flags, servers=1, workers=WORKERS)
                process = self.start("refused", command)
                self.assertEqual(process.wait(), 2)
                self.assertIn(words, process.err)

    def test_a_rule_without_enough_workers_ends_the_job_with_its_words(self):
        """Krum needs five; when one is gone for good there is nothing to wait for."""
        flags = (*cluster.SMALL, cluster.ENDLESS, "--byzantine=1", "--rule=krum", "--dead_after=2s", "--grace=5s")
        job = cluster.Job(self, *flags, servers=2, workers=WORKERS).start()
        job.train_a_while()
        job["worker 3"].send(signal.SIGKILL)
        codes = job.wait(except_for=("worker 3",))
        self.assertEqual(codes["server 0"], 4)
        self.assertIn("krum with f=1 needs at least 5", job["server 0"].err)


if __name__ == "__main__":
    cluster.main()
