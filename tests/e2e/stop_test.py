"""Ending a job before its time: everybody leaves with exit code 0, and a snapshot is whole."""

import os
import signal
import time

import cluster


class LauncherStopTest(cluster.ClusterTest):
    def launch(self, *flags, **counts):
        launcher = self.start("run", cluster.run_command(*cluster.SMALL, cluster.ENDLESS, *flags, **counts))
        launcher.wait_for(r"\| round \d+/")
        return launcher

    def check_stopped(self, launcher, children, snapshots):
        self.assertEqual(launcher.wait(), 0)
        self.assertEqual([pid for pid in children if cluster.is_running(pid)], [])
        summary = cluster.Finished(launcher, 1).summary
        self.assertGreater(summary["rounds"], 0)
        shown = self.shown(snapshots)
        self.assertEqual(
            (shown["version"], shown["weights hash"]), (str(summary["rounds"]), summary["weights_hash"])
        )

    def test_signals_to_the_launcher(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(signal=number.name):
                snapshots = self.folder / number.name
                launcher = self.launch(f"--snapshot_dir={snapshots}", evaluators=1)
                time.sleep(0.3)
                children = cluster.children_of(launcher.pid)
                self.assertEqual(len(children), 5)
                launcher.send(number)
                self.check_stopped(launcher, children, snapshots)
                self.assertIn("is passed on", launcher.err)

    def test_a_child_is_stopped(self):
        """SIGTERM to one of the launcher's children ends the whole job as well."""
        snapshots = self.folder / "snapshots"
        launcher = self.launch(f"--snapshot_dir={snapshots}")
        children = cluster.children_of(launcher.pid)
        os.kill(children[-1], signal.SIGTERM)
        self.check_stopped(launcher, children, snapshots)

    def test_second_signal_kills(self):
        launcher = self.launch()
        children = cluster.children_of(launcher.pid)
        # Both are there when it looks, so the children have no time to leave in between.
        for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
            launcher.send(number)
        self.assertEqual(launcher.wait(20), 128 + signal.SIGKILL)
        self.assertIn("a second signal", launcher.err)
        self.assertEqual([pid for pid in children if cluster.is_running(pid)], [])

    def test_before_it_began(self):
        """While the workers still make their data: nothing to save, nothing to complain about."""
        argv = cluster.run_command("--data=synthetic:100,9,50000", "--model=mlp:16", "--rounds=10")
        launcher = self.start("run", argv)
        cluster.wait_until(lambda: len(cluster.children_of(launcher.pid)) == 4, 20, "four children")
        children = cluster.children_of(launcher.pid)
        launcher.send(signal.SIGTERM)
        self.assertEqual(launcher.wait(), 0)
        self.assertEqual([pid for pid in children if cluster.is_running(pid)], [])


class ProcessStopTest(cluster.ClusterTest):
    """The same without a launcher."""

    def setUp(self):
        self.snapshots = self.folder / "snapshots"
        self.job = cluster.Job(
            self, *cluster.SMALL, cluster.ENDLESS, f"--snapshot_dir={self.snapshots}", evaluators=1
        )

    def check(self, *names):
        self.job.start().train_a_while()
        for name in names:
            self.job[name].send(signal.SIGTERM)
        self.assert_all_exit(self.job, 0)
        summary = self.job.summary()
        self.assertTrue(summary["complete"])
        self.assertGreater(summary["rounds"], 0)
        shown = self.shown(self.snapshots)
        self.assertEqual(
            (shown["version"], shown["weights hash"]), (str(summary["rounds"]), summary["weights_hash"])
        )
        # The last version is evaluated also when it came early.
        self.assertGreater(summary["test_accuracy"], 0.5)

    def test_worker(self):
        self.check("worker 1")

    def test_server(self):
        self.check("server 1")

    def test_lead(self):
        self.check("server 0")

    def test_evaluator(self):
        self.check("evaluator 0")

    def test_several(self):
        self.check("worker 0", "server 1")

    def test_all(self):
        self.check(*("server 0", "server 1", "worker 0", "worker 1", "evaluator 0"))


class EarlyStopTest(cluster.ClusterTest):
    def test_nobody_else_is_there(self):
        """Each by itself, still waiting for the others, leaves at once."""
        for name, start in (
            ("server 0", lambda job: job.server(0)),
            ("server 1", lambda job: job.server(1)),
            ("worker 0", lambda job: job.worker(0)),
            ("evaluator 0", lambda job: job.evaluator(0)),
        ):
            with self.subTest(process=name):
                flags = (*cluster.SMALL, cluster.ENDLESS, "--patience=100ms")
                job = cluster.Job(self, *flags, evaluators=1, name=name)
                process = start(job)
                process.wait_for("wait|listens")
                process.send(signal.SIGTERM)
                self.assertEqual(process.wait(15), 0)

    def test_a_worker_is_missing(self):
        job = cluster.Job(self, *cluster.SMALL, cluster.ENDLESS)
        for start, number in ((job.server, 0), (job.server, 1), (job.worker, 0)):
            start(number)
        for name in ("server 1", "worker 0"):
            job["server 0"].wait_for(f"{name} is here")
        job["worker 0"].send(signal.SIGTERM)
        self.assert_all_exit(job, 0, 15)


if __name__ == "__main__":
    cluster.main()
