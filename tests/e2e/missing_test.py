"""Somebody dies or stands still. Nothing hangs, everybody is named, and training goes on where it can."""

import os
import pathlib
import signal
import time

import cluster

# A round is closed after two seconds, a silent process is lost after three.
QUICK = ("--round_deadline=2s", "--dead_after=3s", "--ping_every=500ms")


class WorkerLostTest(cluster.ClusterTest):
    def lose(self, number, *flags, workers=3):
        flags = (*cluster.SMALL, cluster.ENDLESS, *QUICK, *flags)
        job = cluster.Job(self, *flags, workers=workers, evaluators=1).start()
        job.train_a_while()
        job["worker 1"].send(number)
        return job

    def stop(self, job, gone):
        """The rest stops when asked."""
        job["worker 0"].send(signal.SIGTERM)
        self.assert_all_exit(job, 0, except_for=[gone])
        summary = job.summary()
        self.assertTrue(summary["complete"])
        return summary

    def finish(self, job):
        """The others have gone on without worker 1, and the account says so."""
        job["server 0"].wait_for(r"goes on without worker 1\b", 20)
        job["server 0"].wait_for(r"worker 1 is out of the job", 20)
        time.sleep(0.3)
        summary = self.stop(job, "worker 1")
        self.assertEqual(list(summary["left_out"]), ["1"], "nobody else was dragged along")
        self.assertGreater(summary["rounds"], summary["left_out"]["1"])
        self.assertGreater(summary["test_accuracy"], 0.5)
        return summary

    def test_killed(self):
        snapshots = self.folder / "snapshots"
        more = (f"--snapshot_dir={snapshots}", "--snapshot_every=200", "--worker_momentum=0.5", "--grace=10s")
        job = self.lose(signal.SIGKILL, *more)
        summary = self.finish(job)
        self.assertEqual(self.shown(snapshots)["version"], str(summary["rounds"]))

    def test_does_not_come_back(self):
        """Not in this release, and it is told so."""
        job = self.lose(signal.SIGKILL)
        job["server 0"].wait_for("worker 1 is out of the job", 20)
        back = job.worker(1)
        self.assertEqual(back.wait(15), 5)
        self.assertIn("cannot come back", back.err)
        self.assertTrue(job["worker 0"].running())

    def test_stopped(self):
        """One that stands still is left out; if it goes on when all is over it ends."""
        job = self.lose(signal.SIGSTOP)
        self.finish(job)
        job["worker 1"].send(signal.SIGCONT)
        self.assertIn(job["worker 1"].wait(30), (0, 3, 5))

    def test_left_out_of_three_rounds(self):
        """Long before it would count as dead. The job still runs, and tells it."""
        job = self.lose(signal.SIGSTOP, "--dead_after=60s", "--round_deadline=1500ms")
        job["server 0"].wait_for("worker 1 is out of the job: left out of 3 rounds in a row", 30)
        job["worker 1"].send(signal.SIGCONT)
        self.assertEqual(job["worker 1"].wait(20), 5)
        self.assertIn("left out of 3 rounds in a row", job["worker 1"].err)
        # Rounds that had been promised to it before count too: eight at most.
        self.assertIn(self.finish(job)["left_out"]["1"], range(3, 12))

    def test_short_stop_is_forgiven(self):
        job = self.lose(signal.SIGSTOP, "--round_deadline=20s", "--dead_after=20s")
        time.sleep(0.5)
        job["worker 1"].send(signal.SIGCONT)
        time.sleep(0.2)
        self.assertEqual(self.stop(job, None)["left_out"], {})

    def test_a_long_wait_is_reported(self):
        """With a deadline far away, who is missing is named within --patience."""
        job = self.lose(signal.SIGSTOP, "--patience=1s", "--round_deadline=1h", "--dead_after=1h")
        job["server 0"].wait_for(r"has waited \S+ .*worker 1\b", 15)
        job["worker 1"].send(signal.SIGCONT)
        self.assertEqual(self.stop(job, None)["left_out"], {})

    def test_evaluator(self):
        """Training does not depend on it."""
        flags = (*cluster.SMALL, cluster.ENDLESS, "--dead_after=3s", "--ping_every=500ms")
        job = cluster.Job(self, *flags, evaluators=1).start()
        job.train_a_while()
        job["evaluator 0"].send(signal.SIGKILL)
        job["server 0"].wait_for("evaluator 0 is out of the job", 20)
        self.assertEqual(self.stop(job, "evaluator 0")["left_out"], {})

    def test_all_workers(self):
        job = self.lose(signal.SIGKILL, "--insufficient_for=2s", workers=2)
        job["worker 0"].send(signal.SIGKILL)
        self.assert_all_exit(job, 4, 40, except_for=["worker 0", "worker 1"])
        for name in ("server 0", "server 1"):
            self.assertRegex(job[name].err, "too few workers|no worker")

    def test_quorum(self):
        """Two of three are enough: who stands still costs the time of --deadline, not the round's."""
        more = ("--quorum=2", "--deadline=500ms", "--round_deadline=1h", "--dead_after=1h")
        job = self.lose(signal.SIGSTOP, *more)
        job["server 0"].wait_for(r"goes on without worker 1\b.*quorum", 15)
        job["server 0"].wait_for("worker 1 is out of the job", 15)
        self.finish(job)


class ServerLostTest(cluster.ClusterTest):
    def lose(self, name, number=signal.SIGKILL):
        flags = (*cluster.SMALL, cluster.ENDLESS, *QUICK)
        job = cluster.Job(self, *flags, servers=3, evaluators=1).start()
        job.train_a_while()
        job[name].send(number)
        self.assert_all_exit(job, 3, 30, except_for=[name])
        return job

    def test_killed(self):
        job = self.lose("server 1")
        for name in ("server 0", "server 2", "worker 0", "worker 1", "evaluator 0"):
            self.assertRegex(job[name].err, r"server 1\b.* lost", f"log of {name}")

    def test_stopped(self):
        self.assertRegex(self.lose("server 2", signal.SIGSTOP)["worker 0"].err, r"server 2\b.* lost")

    def test_lead_killed(self):
        job = self.lose("server 0")
        for name in ("server 1", "server 2", "worker 0", "worker 1", "evaluator 0"):
            self.assertRegex(job[name].err, r"the lead .*not .*heard", f"log of {name}")

    def test_lead_stopped(self):
        self.lose("server 0", signal.SIGSTOP)


class LauncherTest(cluster.ClusterTest):
    def launch(self, *flags, **counts):
        argv = cluster.run_command(*cluster.SMALL, cluster.ENDLESS, *QUICK, *flags, **counts)
        launcher = self.start("run", argv)
        launcher.wait_for(r"\| round \d+/")
        children = {}
        for pid in cluster.children_of(launcher.pid):
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            number = next(w.partition("=")[2] for w in reversed(words) if w.startswith(("--index=", "--id=")))
            children[f"{'server' if 'parapet-server' in words[0] else 'worker'} {number}"] = pid
        return launcher, children

    def gone(self, children, seconds):
        cluster.wait_until(
            lambda: not any(cluster.is_running(pid) for pid in children.values()), seconds, "end of all children"
        )

    def test_killed_itself(self):
        launcher, children = self.launch(workers=3)
        self.assertEqual(len(children), 5)
        launcher.send(signal.SIGKILL)
        self.assertEqual(launcher.wait(5), -signal.SIGKILL)
        self.gone(children, 5)

    def test_server_killed(self):
        """The exit code is that of the first that failed: the one that was killed."""
        launcher, children = self.launch()
        os.kill(children["server 1"], signal.SIGKILL)
        self.assertEqual(launcher.wait(30), 128 + signal.SIGKILL)
        self.assertIn("server 1 was ended by SIGKILL", launcher.err)
        self.gone(children, 1)

    def test_lead_killed(self):
        launcher, children = self.launch()
        os.kill(children["server 0"], signal.SIGKILL)
        self.assertEqual(launcher.wait(30), 128 + signal.SIGKILL)
        self.assertIn("no summary", launcher.err)
        self.gone(children, 1)

    def test_worker_killed(self):
        """The job goes on, and ends when it is stopped; the exit code tells of the worker all the same."""
        launcher, children = self.launch(workers=3)
        os.kill(children["worker 2"], signal.SIGKILL)
        launcher.wait_for("worker 2 is out of the job", 20)
        self.assertTrue(cluster.is_running(children["worker 0"]))
        launcher.send(signal.SIGTERM)
        self.assertEqual(launcher.wait(30), 128 + signal.SIGKILL)
        self.assertEqual(list(cluster.Finished(launcher, 1).summary["left_out"]), ["2"])
        self.gone(children, 1)


if __name__ == "__main__":
    cluster.main()
