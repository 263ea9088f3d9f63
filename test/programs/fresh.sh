#!/usr/bin/env bash
# Checks that the built components and Go's own caches are all that tests take from outside the
# repository: with an empty HOME and a cache that holds the components alone, every program of
# programs.txt starts, and so does a test API server with a scheduler.
set -euo pipefail
cd "$(dirname "$0")/../.."
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
mkdir -p "$temp/home" "$temp/cache/limpet/build"
for component in $(bin/limpet-cluster build); do
	ln -s "$component" "$temp/cache/limpet/build/"
done
eval "$("${GO:-go}" env | grep -E '^(GOCACHE|GOMODCACHE|GOPATH|GOPROXY|GOSUMDB|GONOSUMDB|GOPRIVATE|GOFLAGS|GOTOOLCHAIN)=' | sed 's/^/export /')"
export HOME=$temp/home XDG_CACHE_HOME=$temp/cache
unset LIMPET_CACHE LIMPET_PROGRAMS KUBECONFIG
LIMPET_PROGRAMS=$(bin/limpet-cluster assets --dir "$temp/assets" $(sed 's/#.*//' test/programs/programs.txt))
export LIMPET_PROGRAMS
"${GO:-go}" test -count=1 ./test/programs/
built=$(find "$temp/cache/limpet/build" -mindepth 1 -maxdepth 1 -type d)
if [[ -n $built ]]; then
	echo "not all components were in the cache; these were built again: $built" >&2
	exit 1
fi
