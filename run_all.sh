#!/usr/bin/env bash
# Every table and figure of the thesis, from one command.
set -euo pipefail

usage() {
    cat <<'HELP'
usage: ./run_all.sh [profile] [label or notebook ...] [options]

  profile   mini (default: a laptop, offline), lab (real documents, your own data in THESIS_DATA),
            thesis (as published), smoke (what the tests use),
            published (the published figures and tables redrawn, a minute; nothing is trained)
  label     run only the notebooks that make these: fig4_2 tab4_3 ...; or notebooks by name or
            number: 02_structural_loss, 02. Default: all that make something in this profile

  --set key=value ...   change the profile: --set training.documents=60 training.learning_rate=1e-4
  --seeds 0,1           seeds instead of the profile's; closely compared students also have reference_seeds
  --only PATTERN        only these variants, comma separated: --only 'cosine,max-margin;MSE*'
  --jobs N              processes that train at once (default: the cores, at most 4; with a GPU 1)
  --dask ADDRESS        instead of --jobs: the workers of a Dask scheduler, tcp://host:8786 (docs/scale.md)
  --force               run notebooks although nothing changed; trained models still valid are kept
  --keep                use models that older code made; the provenance of figures says so
  --dry-run             say what would run, why, and how long it took last time, and do nothing
  --setup               alone: make the environment, if none is ready, and do nothing else
  --lab [notebook ...]  as the first word: open JupyterLab in that environment
  --help                this text

A changed run (--set, --seeds, --only) saves its figures under the artifact root, not in figures/<profile>.
THESIS_ARTIFACTS names the artifact root (default: artifacts/).
Ctrl-C ends everything at once, and the same command continues from there.
Exit code: 0 done, 1 something failed, 2 the request cannot be met, 130 Ctrl-C.
HELP
}

for word in "$@"; do
    case "$word" in -h | --help) usage; exit 0 ;; esac
done

# 1. Where this checkout is. With -P, `import lib` cannot find another clone in the caller's folder.
root="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)"
source "$root/lib/runner/set_up.sh"
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"

# 2. A dry run, which installs nothing.
case " $* " in *" --dry-run "*)
    find_ready || { echo "would set up first: no environment has the pinned packages (./run_all.sh --setup makes one)"; exit 0; }
    exec "$python" -P -m lib.runner.run_all "$@"
    ;;
esac
case " $* " in
    " --setup ") ;;
    *" --setup "*) echo "run_all.sh: --setup takes no other arguments: it sets up and does nothing else" >&2; exit 2 ;;
esac

# 3. The environment: an active one with the pinned packages, or .venv.
set_up
if [ "$*" = "--setup" ]; then
    echo "ready: $python"
    exit 0
fi

# 4. JupyterLab, for those who want to change something.
if [ "${1:-}" = "--lab" ]; then
    shift
    exec "$python" -P -m jupyterlab --ServerApp.root_dir="$root" "$@" # else links could not leave notebooks/
fi

# 5. The notebooks, one after another through papermill: 00 to 10, or those that make what was asked for.
exec "$python" -P -m lib.runner.run_all "$@"
