"""Arguments of the core: integers, numbers, and that all of it is described."""
import array
import unittest

import talus
from talus import _c


def floats(*values):
    return array.array("f", values)


class Arguments(unittest.TestCase):
    def test_integers_are_not_cut(self):
        opt = talus.Optimizer("sgd")
        opt.add(floats(1), floats(1))
        schedule, wide, huge = talus.Schedule("constant"), 1 << 32, 1 << 64
        with opt:
            for call, name in ((lambda: opt.param(1 << 70), "index"),
                               (lambda: opt.set(group=wide, lr=3), "group"),
                               (lambda: opt.get("lr", -wide), "group"),
                               (lambda: opt.group_rule(wide), "group"),
                               (lambda: opt.add(floats(1), group=wide), "group"),
                               (lambda: opt.grad_norm(group=wide), "group"),
                               (lambda: opt.attach("lr", schedule, wide), "group"),
                               (lambda: opt.set_steps(0, huge + 5), "steps"),
                               (lambda: opt.steps(huge), "index"),
                               (lambda: opt.set_clock(huge), "t"),
                               (lambda: opt.move([huge], 0), "params"),
                               (lambda: opt.remove([huge]), "params"),
                               (lambda: opt.add(floats(), shape=(huge, 0)), "shape"),
                               (lambda: opt.add(talus.Raw(huge + 64, "f32", (1,))), "address"),
                               (lambda: schedule.value(1, huge), "t"),
                               (lambda: talus.Optimizer("sgd", device=(wide + 1, 0)), "device")):
                with self.subTest(name), self.assertRaisesRegex(OverflowError, name):
                    call()
            for call in (lambda: opt.add(floats(1), dtype=_c.F32 + wide),
                         lambda: opt.add(floats(1), master=wide)):
                with self.assertRaises(TypeError):
                    call()
            self.assertEqual((opt.param_count, opt.steps(0)), (1, 0))
        with self.assertRaisesRegex(OverflowError, "milestones"):
            talus.Schedule("multistep", milestones=[huge])

    def test_what_is_no_number_is_refused_by_name(self):
        with talus.Optimizer("sgd") as opt:
            for call in (lambda: opt.set(lr="x"), lambda: opt.set_setting("lr", None)):
                with self.assertRaisesRegex(TypeError, "lr is .*, expected a number"):
                    call()

    def test_what_is_public_is_described(self):
        for kind in (talus.Optimizer, talus.Schedule, talus.Scaler):
            for name in dir(kind):
                if name[0] != "_":
                    self.assertTrue(getattr(kind, name).__doc__, f"{kind.__name__}.{name}")


if __name__ == "__main__":
    unittest.main()
