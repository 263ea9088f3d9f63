#!/usr/bin/env bash
# Runs kube-score over the manifests on standard input, and compares its findings with the
# exceptions in a file. Usage: kubectl kustomize DIR | score.sh EXCEPTIONS
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
exceptions=$(sed -e '/^#/d' -e 's/ | [^|]*$//' "$1" | sort)
kube_score=("${GO:-go}" tool -modfile="$here/go.mod" kube-score)
if ! "${kube_score[@]}" version >/dev/null; then
	echo "kube-score does not run. Its modules must be in Go's module cache, or the network must be there to load them." >&2
	exit 1
fi
# kube-score fails where it finds something.
findings=$({ "${kube_score[@]}" score --output-format ci --kubernetes-version v1.30 - || true; } |
	sed -nE 's#^\[(CRITICAL|WARNING)\] ([^ /]+)[^ ]* [^ ]*/([A-Za-z]+): (\([^)]*\) )?(.*)$#\3 \2 | \5#p' | sort -u)
if [[ $findings != "$exceptions" ]]; then
	echo "kube-score finds other things in the manifests than $1 explains (< explained, > found):" >&2
	diff <(echo "$exceptions") <(echo "$findings") >&2
	exit 1
fi
echo "kube-score: $(wc -l <<<"$findings") findings, each with its reason in $1"
