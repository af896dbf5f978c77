#!/usr/bin/env bash
# Every table and figure of the thesis, from one command. Set-up if needed, then lib/runner/run_all.py.
set -euo pipefail

usage() {
    cat <<'HELP'
usage: ./run_all.sh [profile] [label or notebook ...] [options]

  profile   mini (default: a laptop, offline), lab (real documents, your own data in THESIS_DATA),
            thesis (as published), smoke (what the tests use),
            published (the published figures and tables redrawn, a minute; nothing is trained)
  label     make only these: fig4_2 tab4_3 ...; or notebooks: 02_structural_loss, 02. Default: all

  --budget gpu          lab at the published counts, on one GPU (the profile lab_gpu); without it some eight core-hours
  --size medium         mini with twice the texts, documents and seeds (the profile mini_medium), several hours
  --set key=value ...   change the profile: --set training.documents=60 training.learning_rate=1e-4
  --seeds 0,1           seeds of every student, instead of the profile's
  --only PATTERN        only these variants, comma separated: --only 'cosine,max-margin;MSE*'
  --jobs N              processes that train at once (default: the cores, at most 4, and in mini all but one of these
                        once more, at a low priority, for what later notebooks ask for; with a GPU 1)
  --dask ADDRESS        instead of --jobs: the workers of a Dask scheduler, tcp://host:8786 (docs/scale.md)
  --force               run notebooks although nothing changed; trained models still valid are kept
  --dry-run             say what would run, and why, and do nothing
  --setup               alone: make the environment, if none is ready, and do nothing else
  --lab [notebook ...]  first: open JupyterLab in that environment
  --help                this text

A changed run (--set, --seeds, --only) draws under the artifact root, not into figures/<profile>.
THESIS_ARTIFACTS names the artifact root (default: artifacts/).
Ctrl-C ends everything at once, and the same command goes on from there.
Exit code: 0 done, 1 something failed, 2 the request cannot be met.
HELP
}

for word in "$@"; do
    case "$word" in -h | --help) usage; exit 0 ;; esac
done

root="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)"
source "$root/lib/runner/set_up.sh"
case " $* " in
    " --setup ") set -- -c 'import sys; print("ready:", sys.executable)' ;;
    *" --setup "*) echo "run_all.sh: --setup stands alone: it sets up and does nothing else" >&2; exit 2 ;;
    " --lab "*) shift; set -- -m jupyterlab --ServerApp.root_dir="$root" "$@" ;; # or no link leaves a notebook's folder
    *" --dry-run "*) set -- --look -m lib.runner.run_all "$@" ;;
    *) set -- -m lib.runner.run_all "$@" ;;
esac
exec "$base" -I "$root/lib/runner/set_up.py" "$@"
