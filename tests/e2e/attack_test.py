"""Workers that attack: --attack and --attackers."""

import cluster

# Four classes that lie far apart: honest workers reach over 90 %.
JOB = (*cluster.SMALL, "--epochs=3", "--lr=0.05")


class AttackTest(cluster.ClusterTest):
    def attacked(self, attack, *flags, attackers=2, **counts):
        counts = {"workers": 5, "evaluators": 1, **counts}
        return self.run_job(*JOB, f"--attack={attack}", f"--attackers={attackers}", *flags, **counts)

    def test_a_mean_is_turned_around(self):
        honest = self.run_job(*JOB, workers=5, evaluators=1).summary["test_accuracy"]
        self.assertGreater(honest, 0.8)
        # Two of five that send -10 x: the mean points the wrong way.
        attacked = self.attacked("sign_flip").summary["test_accuracy"]
        self.assertLess(attacked, honest - 0.4)

    def test_a_mean_leaves_out_nan(self):
        finished = self.attacked("nan")
        self.assertGreater(finished.summary["test_accuracy"], 0.8)
        self.assertRegex(finished.err, r"worker [34].*not finite")

    def test_it_is_said_loudly(self):
        finished = self.attacked("zero")
        self.assertRegex(finished.err, r"parapet run: ATTACK: workers 3 to 4 send lies on purpose \(--attack=zero\)")
        for worker in (3, 4):
            self.assertRegex(finished.err, rf"worker {worker} *\|.*ATTACK")
        self.assertNotRegex(finished.err, r"worker [012] *\|.*ATTACK")

    def test_every_vector_is_the_same_in_every_run(self):
        hashes = {}
        for attack in ("none", "ipm", "alie", "gaussian(0.1)", "mimic(1)", "scale(2)", "min_max", "min_sum", "label_flip"):
            flags = [f"--attack={attack}", f"--attackers={0 if attack == 'none' else 2}"]
            job = (*cluster.SMALL, "--rounds=20", "--worker_momentum=0.9", *flags)
            hashes[attack] = self.run_job(*job, workers=5).summary["weights_hash"]
            again = self.run_job(*job, workers=5, servers=1).summary["weights_hash"]
            self.assertEqual(hashes[attack], again, attack)
        self.assertEqual(len(set(hashes.values())), len(hashes), hashes)

    def test_what_is_refused_twice_does_not_count(self):
        """Other bytes for a chunk, old rounds and rounds to come: the job goes on without them."""
        for attack in ("equivocate", "replay", "flood"):
            with self.subTest(attack=attack):
                finished = cluster.Finished(
                    self.start(
                        attack,
                        cluster.run_command(
                            *cluster.SMALL, "--rounds=60", f"--attack={attack}", "--attackers=1", workers=3
                        ),
                    ),
                    cluster.PATIENCE,
                )
                # The attacker may have been sent away.
                self.assertIn(finished.code, (0, 5), finished.err[-2000:])
                self.assertEqual(finished.summary["rounds"], 60)

    def test_who_sends_nothing_is_sent_away(self):
        for attack in ("silent", "partial"):
            with self.subTest(attack=attack):
                flags = (*cluster.SMALL, "--rounds=30", "--round_deadline=500ms", f"--attack={attack}", "--attackers=1")
                process = self.start(attack, cluster.run_command(*flags, workers=3))
                finished = cluster.Finished(process, cluster.PATIENCE)
                self.assertEqual(finished.code, 5, finished.err[-2000:])
                self.assertEqual(finished.summary["rounds"], 30)

    def test_contradictions_are_refused(self):
        for flags, words in (
            (("--attack=alie",), "--attackers"),
            (("--attackers=1",), "--attack="),
            (("--attack=sign_flop", "--attackers=1"), "sign_flip"),
            (("--attack=nan", "--attackers=2"), "--workers=2"),
        ):
            with self.subTest(flags=flags):
                process = self.start("refused", cluster.run_command(*cluster.SMALL, "--rounds=1", *flags))
                self.assertEqual(process.wait(20), 2)
                self.assertIn(words, process.err)


if __name__ == "__main__":
    cluster.main()
