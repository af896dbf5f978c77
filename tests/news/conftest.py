"""The news chapter of smoke, with its records."""

import pytest

from lib.experiments.bench import Bench
from lib.news import results
from lib.news.chapter import News
from tests.data.conftest import apart  # noqa: F401

TINY = {"news.documents": 32, "news.epochs": 1, "max_variants": 1}


@pytest.fixture(scope="session")
def smoke(tmp_path_factory):
    """The news chapter of smoke, and its records."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THESIS_ARTIFACTS", str(tmp_path_factory.mktemp("news")))
        news = News(Bench.load("smoke", overrides=TINY))
        yield news, results.make_records(news)
