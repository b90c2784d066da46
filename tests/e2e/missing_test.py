"""Somebody is missing: never comes, comes twice, is another, or dies. Nothing hangs, everything is named."""

import os
import pathlib
import signal
import time

import cluster
import idx_data

# A round is closed after a second, a silent process is dead after three.
QUICK = ("--round_deadline=1s", "--dead_after=3s", "--ping_every=500ms")


class NeverComesTest(cluster.ClusterTest):
    def job(self, *flags, **counts):
        return cluster.Job(self, *cluster.SMALL, "--rounds=20", "--patience=1s", *flags, **counts)

    def test_worker(self):
        job = self.job(evaluators=1)
        for start, number in ((job.server, 0), (job.server, 1), (job.worker, 0)):
            start(number)
        job["server 0"].wait_for(r"has waited \S+ for worker 1, evaluator 0", 15)
        self.assertTrue(job["worker 0"].running())
        # Whoever comes late is welcome.
        job.worker(1)
        job["server 0"].wait_for(r"has waited \S+ for evaluator 0", 15)
        job.evaluator()
        self.assert_all_exit(job, 0)

    def test_server(self):
        job = self.job()
        for start, number in ((job.server, 0), (job.worker, 0), (job.worker, 1)):
            start(number)
        job["server 0"].wait_for(r"has waited \S+ for server 1", 15)
        job["worker 0"].wait_for(r"waits to be connected to server 1", 15)
        job.server(1)
        self.assert_all_exit(job, 0)

    def test_lead(self):
        job = self.job()
        job.server(1)
        job.worker(0)
        job.worker(1)
        for name in job.processes:
            job[name].wait_for(r"wait\S* .*(server 0|the lead)", 15)
        job.server(0)
        self.assert_all_exit(job, 0)

    def test_time_to_start_is_over(self):
        job = self.job("--start_timeout=3s")
        for start, number in ((job.server, 0), (job.server, 1), (job.worker, 0)):
            start(number)
        self.assert_all_exit(job, 3, 30)
        for name in job.processes:
            self.assertIn("worker 1", job[name].err)

    def test_lead_never_comes(self):
        job = self.job("--start_timeout=2s")
        job.server(1)
        job.worker(0)
        self.assert_all_exit(job, 3, 30)


class RefusedTest(cluster.ClusterTest):
    """One that does not belong here is sent away with a reason; the job goes on when the right one comes."""

    def begin(self, *flags):
        job = cluster.Job(self, *cluster.SMALL, "--rounds=20", *flags)
        for start, number in ((job.server, 0), (job.server, 1), (job.worker, 0)):
            start(number)
        job["server 0"].wait_for("worker 0 is here")
        return job

    def check(self, job, wrong, *words):
        self.assertEqual(wrong.wait(15), 5)
        for word in words:
            self.assertIn(word, wrong.err)
            self.assertIn(word, job["server 0"].err)
        self.assertTrue(job["worker 0"].running())
        job.worker(1)
        self.assert_all_exit(job, 0, except_for=[n for n, p in job.processes.items() if p is wrong])
        self.assertEqual(job.summary()["rounds"], 20)

    def test_twice(self):
        job = self.begin()
        self.check(job, job.worker(0), "worker 0 already")

    def test_another_model(self):
        job = self.begin()
        self.check(job, job.worker(1, "--model=mlp:17"), "worker 1", "model=mlp:17", "model=mlp:16")

    def test_another_seed(self):
        job = self.begin()
        self.check(job, job.worker(1, "--seed=2"), "worker 1", "seed=2", "seed=1")

    def test_another_wire(self):
        job = self.begin()
        self.check(job, job.worker(1, "--wire=bfloat16"), "wire=bfloat16", "wire=float32")

    def test_another_job(self):
        job = self.begin()
        self.check(job, job.worker(1, "--job_id=other"), "job_id=other")

    def test_another_number_of_samples(self):
        test = idx_data.make_samples(20, 9)
        for place, count in (("here", 100), ("there", 90)):
            idx_data.write_data(self.folder / place / "data", idx_data.make_samples(count, 1), test)
        here = {"cwd": self.folder / "here"}
        job = cluster.Job(self, "--data=idx:data", "--model=mlp:16", "--rounds=20", "--batch=8")
        for start, number in ((job.server, 0), (job.server, 1), (job.worker, 0)):
            start(number, **here)
        wrong = job.worker(1, cwd=self.folder / "there")
        self.assertEqual(wrong.wait(15), 5)
        for log in (wrong.err, job["server 0"].err):
            self.assertRegex(log, r"worker 1 has 90 training samples, this job 100")
        job.worker(1, **here)
        self.assert_all_exit(job, 0, except_for=["worker 1"])

    def test_another_server(self):
        job = cluster.Job(self, *cluster.SMALL, "--rounds=20")
        job.server(0)
        wrong = job.server(1, "--model=mlp:17")
        self.assertEqual(wrong.wait(15), 5)
        self.assertIn("model=mlp:17", wrong.err)
        job.server(1)
        job.worker(0)
        job.worker(1)
        self.assert_all_exit(job, 0, except_for=["server 1"])

    def test_too_late(self):
        """A worker that died does not come back in this release, and is told so."""
        job = cluster.Job(self, *cluster.SMALL, cluster.ENDLESS, *QUICK).start()
        job.train_a_while()
        job["worker 1"].send(signal.SIGKILL)
        job["server 0"].wait_for("worker 1 is out of the job", 20)
        back = job.worker(1)
        self.assertEqual(back.wait(15), 5)
        self.assertIn("cannot come back", back.err)
        self.assertTrue(job["worker 0"].running())


class WorkerLostTest(cluster.ClusterTest):
    def lose(self, number, *flags):
        job = cluster.Job(self, *cluster.SMALL, cluster.ENDLESS, *QUICK, *flags, workers=3, evaluators=1).start()
        job.train_a_while()
        job["worker 1"].send(number)
        return job

    def finish(self, job):
        """The others still train, stop when asked, and the account has who was left out."""
        job["server 0"].wait_for(r"goes on without worker 1\b", 20)
        job["server 0"].wait_for(r"worker 1 is out of the job", 20)
        # Nobody else was dragged along, and rounds go on.
        time.sleep(0.5)
        job["worker 0"].send(signal.SIGTERM)
        self.assert_all_exit(job, 0, except_for=["worker 1"])
        summary = job.summary()
        self.assertEqual(list(summary["left_out"]), ["1"])
        self.assertGreaterEqual(summary["left_out"]["1"], 1)
        self.assertTrue(summary["complete"])
        self.assertGreater(summary["test_accuracy"], 0.5)
        return summary

    def test_killed(self):
        self.finish(self.lose(signal.SIGKILL))

    def test_killed_with_snapshots_and_worker_momentum(self):
        snapshots = self.folder / "snapshots"
        job = self.lose(
            signal.SIGKILL,
            f"--snapshot_dir={snapshots}",
            "--snapshot_every=200",
            "--worker_momentum=0.5",
            "--grace=10s",
        )
        summary = self.finish(job)
        self.assertEqual(self.shown(snapshots)["version"], str(summary["rounds"]))

    def test_stopped(self):
        """One that stands still is left out; when it goes on it hears so and leaves."""
        job = self.lose(signal.SIGSTOP)
        self.finish(job)
        job["worker 1"].send(signal.SIGCONT)
        self.assertIn(job["worker 1"].wait(20), (3, 5))

    def test_stopped_for_a_while(self):
        """Left out, and told so by a job that still runs."""
        job = self.lose(signal.SIGSTOP)
        job["server 0"].wait_for(r"worker 1 is out of the job", 20)
        job["worker 1"].send(signal.SIGCONT)
        self.assertEqual(job["worker 1"].wait(20), 5)
        self.finish(job)

    def test_short_stop_is_forgiven(self):
        """Half a second is less than the deadline: nothing happens."""
        job = cluster.Job(self, *cluster.SMALL, cluster.ENDLESS, "--round_deadline=20s").start()
        job.train_a_while()
        job["worker 1"].send(signal.SIGSTOP)
        time.sleep(0.5)
        job["worker 1"].send(signal.SIGCONT)
        time.sleep(0.2)
        job["worker 1"].send(signal.SIGTERM)
        self.assert_all_exit(job, 0)
        self.assertEqual(job.summary()["left_out"], {})

    def test_a_long_wait_is_reported(self):
        """With a deadline far away, who is missing is named within --patience."""
        flags = ("--patience=1s", "--round_deadline=1h", "--dead_after=1h")
        job = cluster.Job(self, *cluster.SMALL, cluster.ENDLESS, *flags).start()
        job.train_a_while()
        job["worker 1"].send(signal.SIGSTOP)
        job["server 0"].wait_for(r"has waited \S+ .*worker 1\b", 15)
        job["worker 1"].send(signal.SIGCONT)
        job["worker 1"].send(signal.SIGTERM)
        self.assert_all_exit(job, 0)

    def test_evaluator(self):
        """Training does not depend on it."""
        job = cluster.Job(self, *cluster.SMALL, cluster.ENDLESS, *QUICK, evaluators=1).start()
        job.train_a_while()
        job["evaluator 0"].send(signal.SIGKILL)
        job["server 0"].wait_for("evaluator 0 is out of the job", 20)
        job["worker 0"].send(signal.SIGTERM)
        self.assert_all_exit(job, 0, except_for=["evaluator 0"])
        self.assertEqual(job.summary()["left_out"], {})

    def test_all_workers(self):
        job = cluster.Job(self, *cluster.SMALL, cluster.ENDLESS, *QUICK, "--insufficient_for=2s").start()
        job.train_a_while()
        for name in ("worker 0", "worker 1"):
            job[name].send(signal.SIGKILL)
        self.assert_all_exit(job, 4, 40, except_for=["worker 0", "worker 1"])
        for name in ("server 0", "server 1"):
            self.assertRegex(job[name].err, "too few workers|no worker")

    def test_quorum(self):
        """Two of three are enough: who stands still costs the time of --deadline, not the round's."""
        flags = ("--quorum=2", "--deadline=200ms", "--round_deadline=1h", "--dead_after=3s")
        job = cluster.Job(self, *cluster.SMALL, cluster.ENDLESS, *flags, workers=3, evaluators=1).start()
        job.train_a_while()
        job["worker 1"].send(signal.SIGSTOP)
        self.finish(job)


class ServerLostTest(cluster.ClusterTest):
    def lose(self, name, number=signal.SIGKILL):
        job = cluster.Job(self, *cluster.SMALL, cluster.ENDLESS, *QUICK, servers=3, evaluators=1).start()
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
        launcher.wait_for("training from version")
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
