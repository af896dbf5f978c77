#!/usr/bin/env bash
# Joblib's Dask backend: where jobs run, and what is left of Dask's resilience.
#
# Versions: joblib 1.6.0, dask and distributed 2026.8.0, numpy 2.4.6, Python 3.11, Linux.
# Needs: Python 3.11 or newer with venv, and a package index that pip knows. It takes 50 to 90 s.
# Exit code: 0 all as described here, 1 something behaves differently, 2 it could not be run.
#
# 1. With a cluster of one worker of one thread, joblib.parallel_config("dask") runs all jobs in the
#    calling process and none on the worker, without a warning. A worker that was started for its
#    memory, its GPU or its files has no part in it.
#    Guess beforehand: the jobs run on the worker, as they do with two workers.
#    Why: n_jobs is the number of threads that the cluster has, and with n_jobs=1 joblib.Parallel
#    calls the functions itself. One worker of two threads gets all of the jobs.
#
# 2. An argument of more than 1 kB, such as an array of 8 kB, is scattered: the array is on one
#    worker, and Dask does not know how to make it again. If this worker is lost and replaced,
#    joblib.Parallel raises FutureCancelledError. The same jobs with an array of 0.8 kB all finish
#    on the new worker, and so do those with 8 kB if they are given to Dask's own client.submit.
#    After client.scatter they fail there, too, so scattering is the cause.
#    Guess beforehand: Dask's resilience carries over, so the jobs are run again on the new worker.
#
# There is a third behaviour of this backend, a wait without end. It is not reproduced here.
#
# Output seen:
#   joblib, 1 worker of 1 thread: 6 in the calling process, 0 on workers, 0 warnings
#   joblib, 1 worker of 2 threads: 0 in the calling process, 6 on workers, 0 warnings
#   joblib, 2 workers of 1 thread: 0 in the calling process, 6 on workers, 0 warnings
#   worker replaced, joblib, 8 kB: FutureCancelledError
#   worker replaced, joblib, 0.8 kB: 6 jobs finished
#   worker replaced, client.submit, 8 kB: 6 jobs finished
#   worker replaced, client.scatter and submit, 8 kB: FutureCancelledError
#   unchanged
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"  # so that nothing of this project can be imported

if ! { "${PYTHON:-python3}" -m venv env && env/bin/python -m pip install --quiet \
    joblib==1.6.0 dask==2026.8.0 distributed==2026.8.0 numpy==2.4.6; } >install.log 2>&1; then
    cat install.log >&2
    echo "could not install the packages" >&2
    exit 2
fi

# A file instead of standard input, since workers are new processes that load the main script.
cat >probe.py <<'PROBE'
import os
import signal
import sys
import threading
import time
import warnings
from pathlib import Path

import joblib
import numpy as np
from distributed import Client, LocalCluster

JOBS = 6
CHANGED = 3  # an exit code that Python itself does not use


def start(workers, threads):
    return LocalCluster(n_workers=workers, threads_per_worker=threads, processes=True,
                        dashboard_address=None, silence_logs=50)


def where(number):
    time.sleep(0.05)
    return os.getpid()


def wait_until(reached, what):
    end = time.monotonic() + 30
    while not reached():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.02)


def place(workers, threads):
    """Where joblib runs the jobs, and whether it says anything about it."""
    with start(workers, threads) as cluster, Client(cluster) as client:
        client.wait_for_workers(workers)
        on_workers = set(client.run(os.getpid).values())
        with warnings.catch_warnings(record=True) as said, joblib.parallel_config("dask"):
            warnings.simplefilter("always")
            pids = joblib.Parallel()(joblib.delayed(where)(n) for n in range(JOBS))
    here = pids.count(os.getpid())
    there = sum(pid in on_workers for pid in pids)
    return f"{here} in the calling process, {there} on workers, {len(said)} warnings"


def total(number, values, flag):
    """A job that ends only after the first worker is gone, so that no run depends on timing."""
    end = time.monotonic() + 30
    while not os.path.exists(flag):
        if time.monotonic() > end:
            raise TimeoutError("the worker was not replaced")
        time.sleep(0.02)
    return number + float(values.sum())


def replace_worker(cluster, pid, flag, problems):
    """End the only worker while all jobs wait on it. Its nanny starts another one."""
    try:
        scheduler = cluster.scheduler
        first = {worker.server_id for worker in scheduler.workers.values()}
        # Dask has all jobs by then, and none has ended, so that every run is the same.
        wait_until(lambda: sum(task.state in ("processing", "queued")
                               for task in list(scheduler.tasks.values())) == JOBS, "no jobs")
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: [worker for worker in list(scheduler.workers.values())
                            if worker.server_id not in first], "no new worker")
    except Exception as problem:
        problems.append(problem)
    Path(flag).touch()


def with_joblib(client, jobs):
    # Everything is dispatched at once, as replace_worker waits until Dask has all jobs.
    with joblib.parallel_config("dask"):
        return joblib.Parallel(pre_dispatch="all", batch_size=1)(
            joblib.delayed(total)(*job) for job in jobs)


def with_dask(client, jobs):
    return client.gather([client.submit(total, *job, pure=False) for job in jobs])


def with_scatter(client, jobs):
    """What joblib does with large arguments, to see that this is the cause."""
    values = client.scatter(jobs[0][1], hash=False)
    return with_dask(client, [(number, values, flag) for number, _, flag in jobs])


def lose(run, name, length):
    """What comes of the jobs if the worker is replaced. It has two threads because of part 1."""
    values = np.ones(length)
    flag = os.path.abspath(f"{name}-{length}")
    jobs = [(number, values, flag) for number in range(JOBS)]
    problems = []
    with start(1, 2) as cluster, Client(cluster) as client:
        client.wait_for_workers(1)
        (pid,) = client.run(os.getpid).values()
        killer = threading.Thread(target=replace_worker, args=(cluster, pid, flag, problems))
        killer.start()
        try:
            results = run(client, jobs)
            assert results == [number + length for number in range(JOBS)], results
            outcome = f"{len(results)} jobs finished"
        except Exception as error:
            outcome = type(error).__name__
        killer.join()
    if problems:
        raise problems[0]
    return outcome


if __name__ == "__main__":
    changed = 0
    for label, measure, arguments, expected in [
        ("joblib, 1 worker of 1 thread", place, (1, 1),
         "6 in the calling process, 0 on workers, 0 warnings"),
        ("joblib, 1 worker of 2 threads", place, (1, 2),
         "0 in the calling process, 6 on workers, 0 warnings"),
        ("joblib, 2 workers of 1 thread", place, (2, 1),
         "0 in the calling process, 6 on workers, 0 warnings"),
        ("worker replaced, joblib, 8 kB", lose, (with_joblib, "joblib", 1000),
         "FutureCancelledError"),
        ("worker replaced, joblib, 0.8 kB", lose, (with_joblib, "joblib", 100),
         "6 jobs finished"),
        ("worker replaced, client.submit, 8 kB", lose, (with_dask, "dask", 1000),
         "6 jobs finished"),
        ("worker replaced, client.scatter and submit, 8 kB", lose, (with_scatter, "scatter", 1000),
         "FutureCancelledError"),
    ]:
        seen = measure(*arguments)
        print(f"{label}: {seen}", flush=True)
        if seen != expected:
            print(f"  CHANGED, it was: {expected}", flush=True)
            changed = CHANGED
    sys.exit(changed)
PROBE

# Settings of Dask in the caller's environment or home could change what happens. Folders of workers
# go where the trap removes them. The time limit ends the workers, too.
code=0
timeout --kill-after=5 100 env -i PATH="$PATH" HOME="$work" TMPDIR="$work" \
    env/bin/python probe.py 2>probe.log || code=$?
case "$code" in
    0) echo "unchanged" ;;
    3) echo "the behaviour changed" >&2; exit 1 ;;
    *) cat probe.log >&2; echo "could not be measured (exit code $code)" >&2; exit 2 ;;
esac
