"""Chunks and LSA side by side, on whole texts and on what the structural teacher reads of them."""

import numpy as np
import pytest

from lib.distillation.variants import parse
from lib.evaluation.joined import join_rows
from lib.experiments.cutting import cut_texts

TASK = "ARXIV"
MODELS = ("SBERT", "SBERT, mean of chunks", "LSA", "LSA;cut", "chunks + LSA", "chunks + LSA;cut")


def test_both_parts_are_those_that_are_judged_alone(make_bench):
    bench = make_bench()
    records = bench.run(MODELS, seeds=[0], tasks=[TASK])
    assert records["model"].tolist() == [*MODELS] and records["fingerprint"].is_unique
    texts = bench.examples(TASK, "validation").texts
    sbert, chunks, lsa, cut, both, both_cut = (
        bench._embed_texts(parse(label), 0, texts) for label in MODELS
    )
    np.testing.assert_array_equal(both, join_rows(chunks, lsa))
    np.testing.assert_array_equal(both_cut, join_rows(sbert, cut))
    assert not np.allclose(lsa, cut), "ARXIV's texts are longer than the teacher reads"


@pytest.mark.parametrize("label", ["LSA", "chunks + LSA"])
def test_only_models_of_cut_texts_depend_on_where_the_teacher_stops(make_bench, label):
    """A record of cut texts must not be kept when the teacher reads further."""

    def name(limit, label):
        bench = make_bench(structural_teacher__max_tokens=limit)
        return bench._name_model(parse(label), 0).key

    assert name(48, f"{label};cut") != name(32, f"{label};cut")
    if label == "LSA":
        assert name(48, label) == name(32, label)


def test_a_cut_text_is_what_the_teacher_reads(make_bench):
    bench = make_bench()
    texts = [*bench.examples(TASK, "validation").texts[:3], "short"]
    cut = cut_texts(bench.profile.structural_teacher, texts)
    teacher = bench.structural_teacher()
    np.testing.assert_array_equal(teacher.encode(cut), teacher.encode(texts))
    assert all(text.startswith(part) for text, part in zip(texts, cut, strict=True))
    assert cut[-1] == "short" and len(cut[0]) < len(texts[0])
