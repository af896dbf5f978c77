"""Are the losses' tests able to fail? Each loss is broken on purpose, and its own tests have to notice.

A mutation replaces one piece of a loss' source text, in memory. The broken module is compiled, put in the place of the
real one inside a fresh copy of the loss' test file, and that file's by-hand and reference tests run. At least one must
fail, and by an assertion: a mutation that merely crashes proves nothing.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import types
from pathlib import Path

import pytest

# loss file: {what is broken: (source text, its replacement)}
MUTATIONS = {
    "mse": {
        "sum for mean": (".mean(dim=1)", ".sum(dim=1)"),
        "no square": (".square()", ".abs()"),
        "sign of the teacher": ("student - teacher", "student + teacher"),
        "mean over the batch": ("mean(dim=1)", "mean(dim=0)"),
    },
    "cosine": {
        "sign": ("1 - (unit_rows", "1 + (unit_rows"),
        "similarity for distance": ("1 - (unit_rows", "(unit_rows"),
        "teacher not normalised": ("* unit_rows(teacher)", "* teacher"),
        "student not normalised": ("(unit_rows(student)", "(student"),
    },
    "max_margin": {
        "sign of the negatives": ("positive - gamma", "positive + gamma"),
        "no positive": ("loss = positive - gamma", "loss = -gamma"),
        "no negatives": ("positive - gamma *", "positive - 0 *"),
        "no gamma": ("- gamma * to_negatives", "- to_negatives"),
        "sum over negatives for mean": ("to_negatives.mean(dim=1)", "to_negatives.sum(dim=1)"),
        "own positive among the negatives": (
            "distances[~torch.eye(n, dtype=torch.bool, device=y.device)].view(n, max(n - 1, 0))",
            "distances",
        ),
        "teacher against student": (
            "distances = _to_all(distance, y, y_pos)",
            "distances = _to_all(distance, y_pos, y)",
        ),
        "mask ignored": (
            "y, y_pos = student[mask], teacher[mask]",
            "mask = mask | True; y, y_pos = student, teacher",
        ),
        "pairs mixed up": ("repeat_interleave(m, dim=0)", "repeat(m, 1)"),
        "explicit negatives ignored": (
            "_to_all(distance, y, negatives)",
            "_to_all(distance, y, y_pos)",
        ),
    },
    "contrastive": {
        "sign": ("masked_scatter(mask, loss)", "masked_scatter(mask, -loss)"),
        "teacher against student": (
            "unit_rows(student[mask]) @ unit_rows(teacher[mask]).T",
            "unit_rows(teacher[mask]) @ unit_rows(student[mask]).T",
        ),
        "student against itself": ("@ unit_rows(teacher[mask])", "@ unit_rows(student[mask])"),
        "dot product for cosine": ("@ unit_rows(teacher[mask])", "@ teacher[mask]"),
        "printed form keeps the positive": ("cosines.masked_fill(itself, 0)", "cosines"),
        "mask ignored": (
            "mask = _checks.row_mask(mask, student)",
            "mask = _checks.row_mask(None, student)",
        ),
        "wrong label": (
            "torch.arange(len(cosines), device",
            "0 * torch.arange(len(cosines), device",
        ),
    },
    "soft_cca": {
        "no history": ("beta=self.beta, alpha", "beta=0, alpha"),
        "history not faded": ("beta=self.beta, alpha", "beta=1, alpha"),
        "normaliser without history": (
            "self.beta * self.normaliser + 1",
            "0 * self.normaliser + 1",
        ),
        "not normalised by the normaliser": (") / normaliser", ") / 1"),
        "gradient through history": (
            "phi1.detach(), phi2.detach(), normaliser.detach()",
            "phi1, phi2, normaliser",
        ),
        "sum for mean in the decorrelation": (
            'total / max(self.dim**2 - self.dim, 1) if self.form == "code" else total',
            "total",
        ),
        "mean over all entries": ("max(self.dim**2 - self.dim, 1)", "self.dim**2"),
        "sum for mean in L2": (
            'squared.mean(dim=1) if self.form == "code" else squared.sum(dim=1)',
            "squared.sum(dim=1)",
        ),
        "mean for sum in the printed L2": (
            'squared.mean(dim=1) if self.form == "code" else squared.sum(dim=1)',
            "squared.mean(dim=1)",
        ),
        "no normalisation": ("z = z / (z.square().mean(dim=0) + VARIANCE_EPSILON).sqrt()", "pass"),
        "normalisation in the printed form": (
            'if self.form == "code":\n            z = z /',
            "if True:\n            z = z /",
        ),
        "no centring": ("z = z - z.mean(dim=0)", "pass"),
        "b for b - 1": ("alpha=1 / (len(z) - 1)", "alpha=1 / len(z)"),
        "sign of the decorrelation": ("l2 + self.delta * sdl", "l2 - self.delta * sdl"),
        "no delta": ("self.delta * sdl", "sdl"),
        "one view only": (
            "(self._off_diagonal(phi1) + self._off_diagonal(phi2))",
            "2 * self._off_diagonal(phi1)",
        ),
        "one history for both views": (
            "self._accumulated(self.phi2, z2)",
            "self._accumulated(self.phi1, z2)",
        ),
        "no absolute values": ("matrix.abs().sum()", "matrix.sum()"),
        "diagonal included": (" - matrix.diagonal().abs().sum()", ""),
        "no L2": ("return l2 + self.delta", "return 0 * l2 + self.delta"),
        "evaluation stores": ("if self.training:", "if True:"),
        "evaluation leaves the normaliser behind": (
            "normaliser = self.beta * self.normaliser + 1",
            "normaliser = self.beta * self.normaliser + 1 if self.training else self.normaliser",
        ),
    },
    "cca": {
        "sign": ("return -correlations", "return correlations"),
        "no epsilon": ("+ epsilon * _identity(x)", "+ 1e-12 * _identity(x)"),
        "no centring": ("x = x - x.mean(dim=0)", "pass"),
        "student not whitened": (
            "half = torch.linalg.solve_triangular(root1, _covariance(x1, x2), upper=False)",
            "half = _covariance(x1, x2)",
        ),
        "first correlation only": ("[: batch - 1]", "[:1]"),
        "squares of the correlations": ("correlations.sum()", "correlations.square().sum()"),
        "Frobenius norm": ("correlations.sum()", "correlations.norm()"),
        "b for b - 1": ("/ (len(x) - 1)", "/ len(x)"),
    },
    "weighting": {
        "weights swapped": (
            "lam * structural + (1 - lam) * contextual",
            "(1 - lam) * structural + lam * contextual",
        ),
        "contextual not weighted": ("(1 - lam) * contextual", "contextual"),
        "masked rows dropped": (
            "torch.where(mask, lam * structural + (1 - lam) * contextual, contextual)",
            "torch.where(mask, lam * structural + (1 - lam) * contextual, 0 * contextual)",
        ),
        "masked rows weighted": (
            "torch.where(mask, lam * structural + (1 - lam) * contextual, contextual)",
            "torch.where(mask, lam * structural + (1 - lam) * contextual, (1 - lam) * contextual)",
        ),
        "limit exclusive": (
            "return lengths <= max_structural_len",
            "return lengths < max_structural_len",
        ),
        "mask reversed": (
            "return lengths <= max_structural_len",
            "return lengths > max_structural_len",
        ),
        "sign in no-weighting": (
            "structural + contextual, contextual)",
            "structural - contextual, contextual)",
        ),
        "no-weighting ignores the mask": (
            "torch.where(mask, structural + contextual, contextual)",
            "structural + contextual",
        ),
    },
}


def failed_checks(loss: str, source: str) -> list[str]:
    """The by-hand and reference tests of tests/losses/test_<loss>.py that fail when the loss is `source`."""
    broken = types.ModuleType(f"lib.losses.{loss}")
    exec(compile(source, f"<mutated {loss}>", "exec"), vars(broken))
    path = Path(__file__).with_name(f"test_{loss}.py")
    spec = importlib.util.spec_from_file_location(f"checks_of_{loss}", path)
    tests = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tests)
    replaced = [
        name
        for name, value in vars(broken).items()
        if getattr(value, "__module__", "") == broken.__name__
    ]
    replaced = [name for name in replaced if hasattr(tests, name)]
    assert replaced, f"{path.name} uses nothing that {loss}.py defines"
    for name in replaced:
        setattr(tests, name, getattr(broken, name))
    checks = {
        n: f for n, f in vars(tests).items() if n.startswith(("test_by_hand", "test_reference"))
    }
    assert {n[5:7] for n in checks} == {"by", "re"}, (
        f"{path.name} needs both by-hand and reference tests"
    )
    failed = []
    for name, check in checks.items():
        try:
            check()
        except AssertionError:
            failed.append(name)
    return failed


def source_of(loss: str) -> str:
    return inspect.getsource(importlib.import_module(f"lib.losses.{loss}"))


@pytest.mark.parametrize("loss", MUTATIONS)
def test_every_mutation_is_noticed(loss):
    source = source_of(loss)
    assert failed_checks(loss, source) == [], "without a mutation all checks pass"
    unnoticed = []
    for name, (old, new) in MUTATIONS[loss].items():
        assert source.count(old) == 1, (
            f"{old!r} occurs {source.count(old)} times in {loss}.py; update the mutation"
        )
        if not failed_checks(loss, source.replace(old, new)):
            unnoticed.append(name)
    assert unnoticed == [], "no by-hand or reference test notices these"


def test_every_loss_has_mutations():
    files = {
        path.stem
        for path in Path(inspect.getfile(importlib.import_module("lib.losses"))).parent.glob(
            "[!_]*.py"
        )
    }
    assert files == set(MUTATIONS)
