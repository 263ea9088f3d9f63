#!/usr/bin/env bash
# Prints how large the project is. It is no gate: a change says what it adds and takes away.
set -euo pipefail
cd "$(dirname "$0")/.."

# lines FILES… counts lines of files that Git knows, comments and blank lines included.
lines() { git ls-files -- "$@" | xargs -r cat | wc -l; }
words() { git ls-files -- "$@" | xargs -r cat | wc -w; }
row() { printf '%-52s %7s\n' "$1" "$2"; }

generated=':!*zz_generated*'
product=('cmd/*.go' 'internal/*.go' 'pkg/*.go' ':!*_test.go' "$generated" ':!internal/testenv/*')
# exported counts names at the start of a line: functions, methods and types.
exported() {
	git ls-files -- "${product[@]}" ':!pkg/api/*' | xargs cat |
		grep -cE '^(func (\([^)]*\) )?|type )[A-Z]'
}

row "product: lines of Go without tests and generated" "$(lines "${product[@]}")"
row "manifests in deploy: lines without CRDs" "$(lines 'deploy/*.yaml' ':!deploy/crds/*')"
row "harness and tools: lines of Go without tests" "$(lines 'internal/testenv/*.go' 'test/*.go' 'tools/*.go' 'release/*.go' ':!*_test.go' "$generated")"
row "tests: lines of Go" "$(lines '*_test.go')"
row "docs: words, without the reference and raw runs" "$(words '*.md' ':!docs/operate/reference.md' ':!docs/operate/runs/*')"
row "docs: words of the generated reference" "$(words docs/operate/reference.md)"
row "exported functions and types outside pkg/api" "$(exported)"

# What a user must learn, from the reference: names of metadata without those that Limpet alone writes, kinds, flags, keys.
# learn FROM TO PATTERN counts lines of the reference between two headings.
learn() { sed -n "/^##* $1\$/,/^##* $2\$/p" docs/operate/reference.md | grep -cE -- "$3" || true; }
ours=$(sed -n '/^## What Limpet writes itself$/,/^## /p' docs/use/annotations.md | grep -oE '`[a-z.]+/[a-z0-9-]+`' | sort -u)
row "to learn: annotations, labels and gates, all" "$(learn 'Annotations, .*' Reasons '^\| `')"
row "to learn: of these, not only written by Limpet" "$(sed -n '/^## Annotations,/,/^## Reasons/p' docs/operate/reference.md | grep -E '^\| `' | grep -cvFf <(echo "$ours"))"
row "to learn: kinds" "$(learn Objects 'Commands and flags' '^### ')"
row "to learn: flags of agent and controller" "$(learn limpet-agent limpet-ipam '^ +(-[a-z], )?--')"
row "to learn: keys of the network configuration" "$(learn 'Network configuration' 'ConfigMap: kinds whose pods return' '^\| `')"
row "to learn: commands of kubectl limpet" "$(grep -c '^### kubectl limpet ' docs/operate/reference.md)"
row "to learn: values of the chart" "$(grep -cE '^ +[a-zA-Z]+: [^ ].* # |^ +[a-zA-Z]+: # |^commonLabels' deploy/chart/values.yaml)"
for binary in limpet-ipam limpet-agent limpet-controller kubectl-limpet; do
	[[ ! -f bin/$binary ]] || row "bin/$binary: kB" "$(($(stat -c %s "bin/$binary") / 1000))"
done
