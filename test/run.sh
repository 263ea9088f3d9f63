#!/usr/bin/env bash
# Runs the tests of the modules of each named suite, also after one has failed, and lists all
# failures at the end. Usage: test/run.sh unit|e2e…
set -uo pipefail
cd "$(dirname "$0")/.."
logs=bin/logs
mkdir -p "$logs"
trap 'exit 130' INT TERM

summary=() failed=()

# estimate tells how much there is to compile before the first test of a module runs.
# Measured on two cores: about 8 packages a second.
estimate() {
	local stale
	stale=$("${GO:-go}" list "$@" -test -deps -f '{{if .Stale}}{{.ImportPath}}{{end}}' ./... 2>/dev/null | wc -l)
	if ((stale > 100)); then
		echo "compiling $stale packages first: about $(((stale / 8 + 59) / 60)) min on two cores, once"
	fi
}

# run NAME DIRECTORY FLAGS… runs the tests of one module. Results are never taken from the cache: tests
# build programs, which Go does not count among what a result depends on.
run() {
	local name=$1 dir=$2 log=$logs/${1//\//-}.log start=$SECONDS result=ok
	shift 2
	echo "== tests of $name"
	(cd "$dir" && estimate $([[ " $* " == *" -race "* ]] && echo -race))
	(cd "$dir" && "${GO:-go}" test "$@" ./...) 2>&1 | tee "$log" || result=FAILED
	if [[ $result == FAILED ]]; then
		failed+=("$name")
	fi
	summary+=("$(printf '%-13s %-6s %4d s' "$name" "$result" $((SECONDS - start)))")
}

for suite in "$@"; do
	case $suite in
	unit)
		run limpet . -race -count=1 -shuffle=on -timeout 20m
		run test/cluster test/cluster -race -count=1 -shuffle=on -timeout 20m
		run release release -count=1 -shuffle=on -timeout 20m
		;;
	e2e) run test/e2e test/e2e -count=1 -timeout 25m ;;
	*)
		echo "test/run.sh: there is no suite $suite; unit and e2e are the suites" >&2
		exit 2
		;;
	esac
done

echo
printf '%s\n' "${summary[@]}"
for name in "${failed[@]}"; do
	echo
	echo "failures of $name (all of its output: $logs/${name//\//-}.log):"
	grep -E '^[[:space:]]*--- FAIL|^FAIL|^panic:|DATA RACE|\[(build|setup) failed\]' "$logs/${name//\//-}.log"
done
((${#failed[@]} == 0))
