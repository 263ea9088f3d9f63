#!/usr/bin/env bash
# Builds binaries twice, in two directories and with two empty caches, and compares them.
# Usage: PLUGIN_FLAGS=-gcflags=… reproducible.sh PACKAGE...   (for example ./cmd/ipam-plugin)
# PLUGIN_FLAGS are the flags with which the Makefile builds the plugin, beside those of all binaries.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT
for name in first second/deeper; do
	mkdir -p "$work/$name"
	git ls-files -z | xargs -0 cp -t "$work/$name" --parents
	(
		cd "$work/$name"
		echo "building in $name" >&2
		for package in "$@"; do
			flags=()
			if [[ $package == */ipam-plugin ]]; then
				flags=("${PLUGIN_FLAGS:?the flags of the plugin in the Makefile}")
			fi
			GOCACHE="$work/cache-${name%%/*}" CGO_ENABLED=0 "${GO:-go}" build -tags grpcnotrace -trimpath -buildvcs=false \
				-ldflags "-s -w -X github.com/limpet-io/limpet/internal/version.release=reproducible" "${flags[@]}" -o bin/ "$package"
		done
	)
	rm -rf "$work/cache-${name%%/*}"
done
for file in "$work"/first/bin/*; do
	cmp "$file" "$work/second/deeper/bin/${file##*/}"
	echo "${file##*/}: two builds give the same $(stat -c %s "$file") bytes, sha256 $(sha256sum <"$file" | cut -c1-16)…"
done
