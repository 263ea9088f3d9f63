#!/usr/bin/env bash
# Builds binaries twice and compares them: here, with the cache of all other builds, and from a copy in another
# directory, with an empty cache.
# Usage: PLUGIN_FLAGS='-gcflags=… -gcflags=…' reproducible.sh PACKAGE...   (for example ./cmd/ipam-plugin)
# PLUGIN_FLAGS are the flags with which the Makefile builds the plugin, beside those of all binaries; spaces part them.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT

# build OUT PACKAGE... builds packages of the current directory.
build() {
	local out=$1 package flags
	shift
	echo "building in $PWD" >&2
	for package in "$@"; do
		flags=()
		if [[ $package == */ipam-plugin ]]; then
			read -ra flags <<<"${PLUGIN_FLAGS:?the flags of the plugin in the Makefile}"
		fi
		CGO_ENABLED=0 "${GO:-go}" build -tags grpcnotrace -trimpath -buildvcs=false \
			-ldflags "-s -w -X github.com/limpet-io/limpet/internal/version.release=reproducible" "${flags[@]}" -o "$out/" "$package"
	done
}

build "$work/here" "$@"
mkdir -p "$work/copy/deeper"
git ls-files -z | xargs -0 cp -t "$work/copy/deeper" --parents
(cd "$work/copy/deeper" && GOCACHE="$work/cache" build "$work/there" "$@")
for file in "$work"/here/*; do
	cmp "$file" "$work/there/${file##*/}"
	echo "${file##*/}: two builds give the same $(stat -c %s "$file") bytes, sha256 $(sha256sum <"$file" | cut -c1-16)…"
done
