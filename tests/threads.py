"""Calls in threads of their own; one that never ends fails its test and holds nothing up."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

LIMIT = 120  # seconds, which only a fault lets pass


def call_in_threads(*calls: Callable[[], Any]) -> list[Any]:
    """What all calls give that run at once, in their order; raises what one raises."""
    results: list[Future] = [Future() for _ in calls]

    def work(call: Callable[[], Any], result: Future) -> None:
        try:
            result.set_result(call())
        except BaseException as error:
            result.set_exception(error)

    for pair in zip(calls, results, strict=True):
        threading.Thread(target=work, args=pair, daemon=True).start()
    return [result.result(LIMIT) for result in results]
