#!/usr/bin/env bash
# Runs the tests of the modules of each named suite, also after one has failed, and lists all
# failures at the end. The end-to-end tests wait for pods most of the time, so the other suite
# runs beside them, with a lower priority, and two further clusters after this suite.
# Usage: test/run.sh unit|e2e…
set -uo pipefail
cd "$(dirname "$0")/.."
logs=bin/logs
mkdir -p "$logs"

modules=() beside=
rm -f "$logs"/*.result

# Job control gives the suite that runs beside a process group of its own, which gets the interrupt.
stop() {
	trap - INT TERM
	[[ -z $beside ]] || kill -INT -- "-$beside" && wait "$beside"
	exit 130
} 2>/dev/null
trap stop INT TERM

# estimate tells how much there is to compile before the first test of a module runs.
# Measured on two cores: about 8 packages a second.
estimate() {
	local stale
	stale=$("${GO:-go}" list "$@" -test -deps -f '{{if .Stale}}{{.ImportPath}}{{end}}' ./... 2>/dev/null | wc -l)
	if ((stale > 100)); then
		echo "compiling $stale packages first: about $(((stale / 8 + 59) / 60)) min on two cores, once"
	fi
}

# shown leaves out the lines that name each test at its start. An interrupt does not end it before the tests have cleaned up.
shown() (
	trap '' INT
	grep -v --line-buffered '^=== '
)

# run NAME DIRECTORY FLAGS… runs the tests of one module, or of its packages in $only. Results are never taken
# from the cache: tests build programs, which Go does not count among what a result depends on.
run() {
	local name=$1 dir=$2 log=$logs/${1//\//-} start=$SECONDS result=ok
	shift 2
	echo "== tests of $name"
	(cd "$dir" && estimate $([[ " $* " == *" -race "* ]] && echo -race))
	(cd "$dir" && "${GO:-go}" test "$@" "${only:-./...}") 2>&1 | tee -i "$log.log" | shown || result=FAILED
	printf '%-21s %-6s %4d s\n' "$name" "$result" $((SECONDS - start)) >"$log.result"
}

# nodes compares the machine before and after, so that nothing may run beside it.
nodes() {
	run test/cluster test/cluster -race -count=1 -shuffle=on -timeout 20m
}

packages() {
	run limpet . -race -count=1 -shuffle=on -timeout 30m -p "$(($(nproc) + 1))" # packages wait, for processes and API servers
	run test/console test/console -count=1 -shuffle=on -timeout 10m
	run test/certmanager test/certmanager -count=1 -shuffle=on -timeout 15m
	run release release -count=1 -shuffle=on -timeout 20m
	only=. run release/chart release/chart -count=1 -shuffle=on -timeout 20m
}

unit() {
	nodes
	packages
}

# The packages start clusters, one after the other. The time of each test shows how far it is.
end_to_end() {
	run test/e2e test/e2e -v -p 1 -count=1 -timeout 45m -skip "^$upgrade\$"
}

upgrade=TestAnUpgradeAndBack
upgrades() {
	only=./upgrade run test/e2e/upgrade test/e2e -v -count=1 -timeout 20m -run "^$upgrade\$"
}

installation() {
	run release/chart/install release/chart/install -count=1 -timeout 20m
}

e2e() {
	end_to_end
	upgrades
	installation
}

for suite in "$@"; do
	case $suite in
	unit) modules+=(test/cluster limpet test/console test/certmanager release release/chart) ;;
	e2e) modules+=(test/e2e test/e2e/upgrade release/chart/install) ;;
	*)
		echo "test/run.sh: there is no suite $suite; unit and e2e are the suites" >&2
		exit 2
		;;
	esac
done

if [[ " $* " == *" unit "* && " $* " == *" e2e "* ]]; then
	nodes
	set -m
	end_to_end </dev/null &
	beside=$!
	set +m
	renice -n 10 -p $$ >/dev/null
	packages
	installation
	upgrades
	echo "waiting for the end-to-end tests"
	wait "$beside"
else
	"$1"
fi

echo
failed=0
for name in "${modules[@]}"; do
	cat "$logs/${name//\//-}.result" 2>/dev/null || printf '%-21s %s\n' "$name" "FAILED (no result)"
done
for name in "${modules[@]}"; do
	grep -qs ' ok ' "$logs/${name//\//-}.result" && continue
	failed=1
	echo
	echo "failures of $name (all of its output: $logs/${name//\//-}.log):"
	grep -E '^[[:space:]]*--- FAIL|^FAIL|^panic:|DATA RACE|\[(build|setup) failed\]' "$logs/${name//\//-}.log"
done
exit "$failed"
