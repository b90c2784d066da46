"""tools/byzantine_demo on a small data set of its own."""

import json
import subprocess
import sys
import xml.etree.ElementTree

import cluster
import idx_data


class DemoTest(cluster.ClusterTest):
    def demo(self, *flags):
        data, out = self.folder / "data", self.folder / "out"
        if not data.exists():
            idx_data.write_data(data, idx_data.make_samples(1500, 1), idx_data.make_samples(300, 2))
        argv = [sys.executable, cluster.ROOT / "tools/byzantine_demo", f"--bin={cluster.BIN}", f"--data={data}", f"--out={out}"]
        done = subprocess.run([*argv, *flags], capture_output=True, text=True, timeout=cluster.PATIENCE, check=False)
        return done, out

    def test_a_mean_under_attack(self):
        flags = ("--rules=mean", "--attacks=none,sign_flip(10),nan", "--rounds=60", "--train_samples=1500")
        done, out = self.demo(*flags)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = {row["attack"]: row for row in json.loads((out / "results.json").read_text())}
        # Ten classes that are easy to tell apart.
        self.assertGreater(rows["none"]["accuracy"], 60)
        self.assertLess(rows["sign_flip(10)"]["accuracy"], rows["none"]["accuracy"] - 20)
        self.assertGreater(rows["nan"]["accuracy"], rows["none"]["accuracy"] - 20)
        # 250 samples a round: an epoch is 6 of them. An evaluator that is busy skips some, but not the last.
        versions = [version for version, _ in rows["none"]["course"]]
        self.assertLessEqual(set(versions), set(range(6, 61, 6)))
        self.assertEqual(versions[-1], 60)
        page = (out / "byzantine.md").read_text()
        self.assertIn(f"| `sign_flip(10)` | **{rows['sign_flip(10)']['accuracy']:.1f}** |", page)
        lines = xml.etree.ElementTree.parse(out / "byzantine.svg").findall(".//{*}polyline")
        self.assertEqual(len(lines), 3)

    def test_what_fails_is_named_and_no_link_is_dead(self):
        flags = ("--rules=no_such_rule", "--attacks=none", "--rounds=6")
        done, out = self.demo(*flags)
        self.assertEqual(done.returncode, 1)
        page = (out / "byzantine.md").read_text()
        self.assertIn("no_such_rule", page)
        self.assertIn("exit code 2", done.stdout)
        self.assertNotIn("](rules.md)", page)
        (out / "rules.md").write_text("as in docs/")
        self.demo(*flags)
        self.assertIn("[rules.md](rules.md)", (out / "byzantine.md").read_text())


if __name__ == "__main__":
    cluster.main()
