"""10,000 optimizers one after the other, and what they leave behind."""
import array
import gc
import pathlib
import unittest

import talus

CYCLES, WARM_UP = 10_000, 1_000
MOST_GROWTH = 1 << 20  # bytes of the resident set
PAGE = 4096
STATM = pathlib.Path("/proc/self/statm")


def live_once(weights, gradient, falls):
    with talus.Optimizer("adamw", lr=0.1) as opt, talus.Scaler() as scaler:
        opt.add(weights, gradient, name="w")
        opt.attach("lr", falls)
        opt.attach_scaler(scaler)
        opt.step()
        scaler.update()


@unittest.skipUnless(STATM.exists(), "no /proc/self/statm")
class Life(unittest.TestCase):
    def test_a_life_leaves_nothing(self):
        weights, gradient = array.array("f", [1] * 64), array.array("f", [1] * 64)
        falls = talus.Schedule("exponential", gamma=0.9)
        for _ in range(WARM_UP):
            live_once(weights, gradient, falls)
        gc.collect()
        before = int(STATM.read_text().split()[1]) * PAGE
        for _ in range(CYCLES):
            live_once(weights, gradient, falls)
        gc.collect()
        self.assertLessEqual(int(STATM.read_text().split()[1]) * PAGE - before, MOST_GROWTH)


if __name__ == "__main__":
    unittest.main()
