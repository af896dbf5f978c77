"""A change costs what it changes: what is made again, and what is not."""

import ast
import json

import pytest

from lib.distillation import variants
from lib.distillation.variants import Variant
from lib.experiments.judging import READOUTS
from lib.store.cache import list_stale

CONTEXTUAL = "cosine;100d;S:768x100;C:-"
STUDENTS = ("cosine", "MSE", "max-margin;MSE;γ=1.0", "contrastive", CONTEXTUAL)


def name_students(bench):
    return {
        label: bench.student_product(variants.parse(label), 0).name
        for label in STUDENTS
        if label != CONTEXTUAL
    }


def count_files(bench, kind):
    return {path.name for path in (bench.cache.folder / kind).glob("*.json")}


def add_constant(source):
    return source + "\nEXTRA = 1\n"


def add_comment(source):
    return source + "\n# A comment.\n"


def reword_errors(source):
    """Put a comma into every text of an error."""
    texts = [
        part.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Raise)
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    ]
    words = {word for text in texts for word in text.split(" ") if len(word) > 8 and word.isalpha()}
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise):
            for number in range(node.lineno - 1, node.end_lineno):
                for word in words:
                    lines[number] = lines[number].replace(f" {word} ", f" {word}, ")
    return "".join(lines)


@pytest.mark.parametrize(
    ("module", "change"),
    [
        ("lib.student.packing", reword_errors),
        ("lib.student.weights", reword_errors),
        ("lib.distillation.training", add_comment),
        ("lib.experiments.students", add_comment),
        ("lib.data.check", add_constant),
        ("lib.data.task_files", add_constant),
        ("lib.experiments.bench", add_constant),
        ("lib.distillation.held_out_cca", add_constant),
        ("lib.teachers.paragraph_vector", add_constant),
        ("lib.teachers.sbert", add_constant),
    ],
)
def test_what_does_not_compute_a_structural_student_trains_none(
    make_bench, edit_source, module, change
):
    before = name_students(make_bench())
    edit_source(module, change)
    assert name_students(make_bench()) == before


@pytest.mark.parametrize(
    ("module", "users"),
    [
        ("lib.losses.mse", {"MSE", "max-margin;MSE;γ=1.0"}),
        ("lib.losses.max_margin", {"max-margin;MSE;γ=1.0"}),
        ("lib.losses.contrastive", {"contrastive"}),
        ("lib.losses.soft_cca", set()),
        ("lib.distillation.training", {*STUDENTS} - {CONTEXTUAL}),
        ("lib.student.attention", {*STUDENTS} - {CONTEXTUAL}),
    ],
)
def test_changed_code_trains_the_students_that_use_it(make_bench, edit_source, module, users):
    before = name_students(make_bench())
    edit_source(module, add_constant)
    after = name_students(make_bench())
    assert {label for label in before if before[label] != after[label]} == users


@pytest.mark.parametrize(
    ("key", "value"),
    [("training.warmup_share", 0.5), ("training.clip", 0.5), ("training.learning_rate", 1e-5)],
)
def test_a_changed_scheme_trains_every_student(make_bench, key, value):
    before = name_students(make_bench())
    after = name_students(make_bench(**{key.replace(".", "__"): value}))
    assert not {*before.values()} & {*after.values()}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("heads.epochs", 3),
        ("soft_cca.beta", 0.5),
        ("contextual_teacher.epochs", 3),
        ("training.contextual_features", "raw"),
        ("training.max_structural_len", 40),
        ("final.documents", 18),
    ],
)
def test_what_a_structural_student_does_not_read_trains_none(make_bench, key, value):
    before = name_students(make_bench())
    assert name_students(make_bench(**{key.replace(".", "__"): value})) == before


def test_heads_are_trained_again_for_other_heads_alone(make_bench):
    bench = make_bench(heads__epochs=3)
    trained, records = count_files(bench, "student"), count_files(bench, "record")
    bench.run(["cosine"], seeds=[0])
    assert count_files(bench, "student") == trained
    assert len(count_files(bench, "record") - records) == 6


def test_a_readout_trains_no_student_and_keeps_records_of_its_own(make_bench):
    bench = make_bench()
    trained, records = count_files(bench, "student"), count_files(bench, "record")
    by_readout = {name: bench.with_readout(name).run(["cosine"], seeds=[0]) for name in READOUTS}
    assert count_files(bench, "student") == trained
    assert len(count_files(bench, "record") - records) == 2 * 6, "the thesis' are there already"
    for name, frame in by_readout.items():
        assert set(frame["readout"]) == {name} and len(frame) == 6
    heads = bench.with_readout("compare").changed("heads", epochs=9)
    assert heads.readout == heads.reading().readout == "compare" and bench.readout == "thesis"
    assert heads.run(["cosine"], seeds=[0])["value"].tolist() == (
        by_readout["compare"]["value"].tolist()
    ), "it has no heads"
    assert len(count_files(bench, "record") - records) == 2 * 6


@pytest.fixture
def more_data(tmp_path):
    """A data root with one classification of sixteen short texts."""
    folder = tmp_path / "mine" / "words"
    task = folder / "tasks" / "side"
    task.mkdir(parents=True)
    rows = [(f"t{i}", f"{'left' if i % 2 else 'right'} turn number {i} ahead") for i in range(16)]

    def write(texts):
        lines = [json.dumps({"id": i, "text": text}) for i, text in texts]
        (folder / "documents.jsonl").write_text("\n".join(lines) + "\n")

    write(rows)
    for split, part in (("train", rows[:8]), ("validation", rows[8:12]), ("test", rows[12:])):
        lines = [json.dumps({"id": i, "label": text.split()[0]}) for i, text in part]
        (task / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    return folder.parent, rows, write


def with_ninth_task(make_bench, root):
    folders = {
        name: entry.model_dump(mode="json")
        for name, entry in make_bench().profile.tasks.folders.items()
    }
    return make_bench(
        data_roots=["built", str(root)], tasks__folders=folders | {"turns": "words/side"}
    )


def test_a_ninth_task_trains_no_student(make_bench, more_data):
    bench = with_ninth_task(make_bench, more_data[0])
    trained, records = count_files(bench, "student"), count_files(bench, "record")
    frame = bench.run(["Longformer", "cosine", "MSE"], seeds=[0])
    assert "turns" in set(frame["task"])
    assert count_files(bench, "student") == trained
    assert len(count_files(bench, "record") - records) == 3


def test_a_changed_text_of_a_task_is_embedded_alone(make_bench, more_data, monkeypatch):
    root, rows, write = more_data
    with_ninth_task(make_bench, root).run(["cosine"], seeds=[0])
    write([(i, text + " again" if i == "t3" else text) for i, text in rows])
    bench = with_ninth_task(make_bench, root)
    embedded = []
    real = bench.cache.__class__.rows

    def rows_of(cache, product, items, make):
        def counted(part):
            embedded.append((product.kind, len(part)))
            return make(part)

        return real(cache, product, items, counted)

    monkeypatch.setattr(bench.cache.__class__, "rows", rows_of)
    records = count_files(bench, "record")
    bench.run(["cosine"], seeds=[0])
    assert sorted(embedded) == [("tokens", 1), ("vectors", 1)]
    assert len(count_files(bench, "record") - records) == 1


def test_a_stale_student_is_said_and_kept_or_made_again(make_bench, edit_source):
    edit_source("lib.losses.mse", add_constant)
    bench = make_bench()
    product = bench.student_product(Variant("student", structural="MSE"), 0)
    assert bench.cache.find(product) is None
    stale = list_stale(bench.cache.used.values())
    assert [note["model"] for note in stale["lib.losses.mse"]] == ["MSE"]
    keeping = make_bench(keep=True)
    trained = count_files(keeping, "student")
    keeping.run(["MSE"], seeds=[0])
    assert count_files(keeping, "student") == trained
    assert ("student", product.key) in keeping.cache.kept


def test_reading_finds_everything_and_computes_nothing(make_bench):
    bench = make_bench().reading()
    frame = bench.run(["Longformer", "cosine", "MSE"], seeds=[0])
    assert len(frame) == 18
    with pytest.raises(LookupError, match="missing"):
        bench.run(["contrastive"], seeds=[0])


def test_lsa_knows_what_paragraph_vectors_read(make_bench):
    """As many dimensions as it read documents, and as the profile's width allows: 0.05 x 1024."""
    texts = ["one text of a task"]
    for documents, dim in ((20, 20), (None, 51)):
        bench = make_bench(contextual_teacher__documents=documents)
        assert bench._embed_texts(variants.parse("LSA"), 0, texts).shape == (1, dim)
    few, all_ = (
        make_bench(contextual_teacher__documents=documents).run(["LSA"], seeds=[0], tasks=["OC"])
        for documents in (20, None)
    )
    assert few["embedding_fingerprint"][0] != all_["embedding_fingerprint"][0]
