"""One target of two teachers: dense and lexical vectors, turned onto a student's own space."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class JointTarget:
    """What makes targets of dense and lexical vectors; made by `fit_joint_target`.

    Attributes
    ----------
    centre : (dense + lexical,)
        The mean of joined rows.
    turn : (dense + lexical, dim)
        The largest principal directions, and the rotation that turns them.
    offset : (dim,)
        The mean of the student's vectors.
    kept : float
        The share of the variance that the principal directions have.
    """

    centre: np.ndarray
    turn: np.ndarray
    offset: np.ndarray
    kept: float

    def transform(self, dense: np.ndarray, lexical: np.ndarray) -> np.ndarray:
        """Targets of texts, (n, dim) float32, from (n, dense) and (n, lexical)."""
        joined = join_parts(dense, lexical) - self.centre
        return (joined @ self.turn + self.offset).astype(np.float32)


def fit_joint_target(
    dense: np.ndarray,
    lexical: np.ndarray,
    student: np.ndarray,
) -> JointTarget:
    """Reduce [dense; lexical] to the student's width, and turn it onto the student's vectors.

        z = PCA([dense; lexical] / sqrt(2)),   R = U V',   U S V' = SVD(z' (s - mean of s))

    All rows are scaled to norm 1 first. R, (directions, dim), is the orthogonal map that brings z
    nearest to the student's rows s (orthogonal Procrustes). A turn leaves the distances within z as
    they are, and the student has the least to change. Its mean is added, which is large beside what
    tells texts apart, and which the cosines of a loss know nothing of otherwise.

    Parameters
    ----------
    dense : (n, dense)
        Vectors of texts by a dense teacher.
    lexical : (n, lexical)
        By a lexical one, such as LSA.
    student : (n, dim)
        By the untrained student; dim directions are kept at most.

    Raises
    ------
    ValueError
        If the rows do not match, or there is one alone.

    Examples
    --------
    >>> import numpy as np
    >>> from lib.distillation.joint_target import fit_joint_target
    >>> x = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> fit_joint_target(x, x, x[::-1]).transform(x, x).round(3)  # as the student has them
    array([[0., 1.],
           [1., 0.]], dtype=float32)
    """
    if not len(dense) == len(lexical) == len(student) or len(dense) < 2:
        told = f"{len(dense)}, {len(lexical)} and {len(student)}"
        raise ValueError(f"expected rows of the same texts, two at least, got {told}")
    joined, own = join_parts(dense, lexical), scale_rows(student)
    centre, offset = joined.mean(axis=0), own.mean(axis=0)
    _, values, directions = np.linalg.svd(joined - centre, full_matrices=False)
    found = int((values > 1e-6 * values[0]).sum()) if values[0] > 0 else 1
    count = min(found, own.shape[1])
    largest = directions[:count].T
    left, _, right = np.linalg.svd(
        ((joined - centre) @ largest).T @ (own - offset), full_matrices=False
    )
    variance = np.square(values)
    kept = float(variance[:count].sum() / max(variance.sum(), np.finfo(float).tiny))
    return JointTarget(centre, largest @ (left @ right), offset, kept)


def join_parts(dense: np.ndarray, lexical: np.ndarray) -> np.ndarray:
    """Both side by side, (n, dense + lexical): cosines of joined rows are means of both cosines."""
    return np.hstack([scale_rows(dense), scale_rows(lexical)]) * np.sqrt(0.5)


def scale_rows(x: np.ndarray) -> np.ndarray:
    """(n, dim) rows scaled to norm 1; a row of zeros stays one."""
    x = np.asarray(x, dtype=np.float64)
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    return np.divide(x, norms, out=np.zeros_like(x), where=norms > 0)
