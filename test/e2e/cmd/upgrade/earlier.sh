#!/usr/bin/env bash
# Builds an earlier commit in a worktree, and runs the command upgrade from it. Usage: earlier.sh COMMIT [FLAG…]
set -euo pipefail
cd "$(dirname "$0")/../../../.."
commit=${1:-}
shift || true
if [[ -z $commit ]]; then
	echo "earlier.sh: which commit? make test-upgrade FROM=COMMIT" >&2
	exit 2
fi
if ! git cat-file -e "$commit^{commit}" 2>/dev/null; then
	echo "earlier.sh: this checkout does not have the commit $commit. A shallow clone has no history: git fetch --unshallow" >&2
	exit 1
fi
earlier=$(mktemp -d)
trap 'git worktree remove --force "$earlier"' EXIT
git worktree add --quiet --detach "$earlier" "$commit"
env -u LIMPET_PROGRAMS -u MAKEFLAGS make -C "$earlier" build
cd test/e2e
"${GO:-go}" run ./cmd/upgrade -from "$earlier" "$@"
