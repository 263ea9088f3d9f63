#!/usr/bin/env bash
# Runs the tests of all modules, also after one has failed, and ends with the minutes of each part and all failures.
# Usage: test/run.sh unit|e2e|test|all|versions
#   unit   what needs no three-node cluster
#   e2e    the promises to users on such a cluster
#   test   both
#   all    both with what is rare and long, which `go test -short` leaves out, and with the race detector
#   versions   with the API server, the scheduler and the controllers of each other Kubernetes; MINORS="1.30" takes one
set -uo pipefail
cd "$(dirname "$0")/.."
suite=${1:-} go=${GO:-go} logs=bin/logs beside=
short=(-short)
[[ $suite != all ]] || short=()
unit=(limpet limpet/race limpet/servers test/cluster test/console release release/chart)
e2e=(test/e2e)
long=(test-fresh reproducible test/autoscalers test/certmanager release/chart/install test/e2e/upgrade test/e2e/flannel test/e2e/multus test/e2e/offline test/e2e/crio test/e2e/segment test/e2e/newcomer test/plugin/arm64)
case $suite in
unit) parts=("${unit[@]}") ;;
e2e) parts=("${e2e[@]}") ;;
test) parts=("${unit[@]}" "${e2e[@]}") ;;
all) parts=("${unit[@]}" "${e2e[@]}" "${long[@]}") ;;
versions)
	parts=()
	for minor in ${MINORS:=1.30 1.32 1.34 1.37}; do parts+=("kubernetes/$minor"); done
	;;
*)
	echo "test/run.sh: there is no suite '$suite'; unit, e2e, test, all and versions are the suites" >&2
	exit 2
	;;
esac
mkdir -p "$logs"
rm -f "$logs"/*.result

# Job control gives the suite that runs beside a process group of its own, which gets the interrupt.
stop() {
	trap - INT TERM
	[[ -z $beside ]] || kill -INT -- "-$beside" && wait "$beside"
	exit 130
} 2>/dev/null
trap stop INT TERM

# shown leaves out the lines that name each test at its start. An interrupt does not end it before the tests have cleaned up.
shown() (
	trap '' INT
	grep -v --line-buffered '^=== '
)

# part NAME COMMAND… runs a part, and keeps its output and its minutes.
part() {
	local name=$1 log=$logs/${1//\//-} start=$SECONDS result=ok
	shift
	echo "== $name"
	"$@" 2>&1 | tee -i "$log.log" | shown || result=FAILED
	local seconds=$((SECONDS - start))
	printf '%-21s %-6s %3d.%d min\n' "$name" "$result" $((seconds / 60)) $((seconds % 60 / 6)) >"$log.result"
}

# tests DIRECTORY FLAGS… tests a module, or some packages of it. Results are never taken from the cache: tests build
# programs, which Go does not count among what a result depends on. `make lint` vets, and not only what is tested.
tests() (
	cd "$1" && "$go" test -count=1 -vet=off "${short[@]}" "${@:2}"
)

# estimate tells how much there is to compile before the first test runs. Two cores compile about 8 packages a second.
estimate() {
	local stale
	stale=$("$go" list -test -deps -f '{{if .Stale}}{{.ImportPath}}{{end}}' ./... 2>/dev/null | wc -l)
	if ((stale > 300)); then
		echo "compiling $stale packages first: about $(((stale / 8 + 59) / 60)) min on two cores, once"
	fi
}

# raced lists the packages of test/race.txt, without those that only `make test-all` runs with the race detector.
raced() {
	sed 's/ *#.*//; /^$/d' test/race.txt | if [[ $suite == all ]]; then sed 's/ all$//'; else sed '/ all$/d'; fi
}

# others lists the packages that start API servers, or with -v the rest, without those of raced, and without those of
# `make test-fresh`.
others() {
	local servers
	servers=$(grep -rl --include='*_test.go' 'testenv\.Main' cmd internal pkg test | xargs dirname | sort -u | sed 's,^,./,')
	"$go" list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}' ./... | sed "s,^$PWD/,./," |
		grep -vFx ./test/programs | grep -vFxf <(raced) | grep "$@" -Fxf <(echo "$servers")
}

# limpet runs packages without API servers first, because they are the first to fail. The others wait much.
limpet() {
	estimate
	part limpet tests . -shuffle=on -timeout 20m $(others -v)
	CGO_ENABLED=1 part limpet/race tests . -race -shuffle=on -timeout 30m -p "$(($(nproc) + 1))" $(raced)
	part limpet/servers tests . -shuffle=on -timeout 30m -p "$(($(nproc) + 1))" $(others)
}

# nodes compares the machine before and after, so that nothing may run beside it.
nodes() {
	part test/cluster tests test/cluster -shuffle=on -timeout 20m ./...
}

modules() {
	part test/console tests test/console -shuffle=on -timeout 10m ./...
	part release tests release -shuffle=on -timeout 20m ./...
	part release/chart tests release/chart -shuffle=on -timeout 20m .
}

# The packages start clusters, one after the other. The time of each test shows how far it is.
end_to_end() {
	part test/e2e tests test/e2e -v -p 1 -timeout 45m -skip "^($upgrade|$flannel|$multus|$offline|$crio|$segment|$newcomer)\$" ./...
}

# These start clusters of their own, and run beside the others.
upgrade=TestAnUpgradeAndBack flannel=TestFlannelChangesOverAndBack multus=TestSecondaryNetworksKeepTheirAddresses
offline=TestPodsOfEveryKindKeepTheirAddressesOffline crio=TestPodsOfCRIOKeepTheirAddresses segment=TestAddressesFollowOnASharedSegment newcomer=TestANewcomerKeepsAnAddress
rare() {
	part test-fresh test/programs/fresh.sh
	part test/autoscalers tests test/autoscalers -shuffle=on -parallel 10 -timeout 15m ./... # its cases wait for most of the time
	part test/certmanager tests test/certmanager -shuffle=on -timeout 15m ./...
	part reproducible make --no-print-directory reproducible
	part release/chart/install tests release/chart/install -timeout 20m .
	part test/e2e/upgrade tests test/e2e -v -timeout 20m -run "^$upgrade\$" ./upgrade
	part test/e2e/flannel tests test/e2e -v -timeout 20m -run "^$flannel\$" ./flannel
	part test/e2e/multus tests test/e2e -v -timeout 20m -run "^$multus\$" ./multus
	part test/e2e/offline tests test/e2e -v -timeout 20m -run "^$offline\$" ./offline
	part test/e2e/crio tests test/e2e -v -timeout 20m -run "^$crio\$" ./crio
	part test/e2e/segment tests test/e2e -v -timeout 20m -run "^$segment\$" ./segment
	part test/e2e/newcomer tests test/e2e -v -timeout 20m -run "^$newcomer\$" ./newcomer
	LIMPET_EMULATED=arm64 part test/plugin/arm64 tests . -short -timeout 60m ./test/plugin ./test/monitoring # an emulator takes 0.2 s to start
}

# The end-to-end tests wait for pods most of the time: the rest runs beside them, with a lower priority.
together() {
	nodes
	set -m
	end_to_end </dev/null &
	beside=$!
	set +m
	renice -n 10 -p $$ >/dev/null
	limpet
	modules
	[[ $suite == test ]] || rare
	echo "waiting for the end-to-end tests"
	wait "$beside"
}

# other MINOR runs the packages that start API servers with the programs of another Kubernetes.
other() {
	export LIMPET_KUBERNETES=$1 LIMPET_PROGRAMS=$PWD/bin/kubernetes-$1
	# shellcheck disable=SC2046 # names without spaces
	bin/limpet-cluster assets --dir "$LIMPET_PROGRAMS" $(sed 's/#.*//' test/programs/programs.txt) &&
		tests . -v -timeout 40m -p "$(($(nproc) + 1))" $(others)
}

# versions_page writes what the last part of each version says.
versions_page() {
	printf '# API server tests with other versions of Kubernetes\n\nWritten by `make test-versions`, at commit %s.\n\n' "$(git rev-parse --short HEAD)"
	printf '| Kubernetes | result | minutes | packages | tests passed | failed | skipped |\n|---|---|---|---|---|---|---|\n'
	local minor log result minutes
	for minor in $MINORS; do
		log=$logs/kubernetes-$minor.log
		read -r _ result minutes _ <"$logs/kubernetes-$minor.result"
		count() { grep -cE -- "$1" "$log"; }
		printf '| %s | %s | %s | %s | %s | %s | %s |\n' "$minor" "$result" "$minutes" "$(count '^ok ')" \
			"$(count '^ *--- PASS')" "$(count '^ *--- FAIL')" "$(count '^ *--- SKIP')"
	done
	printf '\nTests that are skipped, and why:\n\n'
	for minor in $MINORS; do
		awk -v minor="$minor" '/_test.go:[0-9]+: (-short |Kubernetes )/ { said = $0; sub(/^.*_test.go:[0-9]+: /, "", said) }
			/^ *--- SKIP/ { sub(/\/.*/, "", $3); print "* " minor ", `" $3 "`: " said }' "$logs/kubernetes-$minor.log"
	done | sort -u | fold -s -w 116 | sed 's/^[^*]/  &/; s/ *$//'
}

began=$SECONDS
case $suite in
versions)
	for minor in $MINORS; do part "kubernetes/$minor" other "$minor"; done
	versions_page >docs/operate/runs/versions.md
	;;
unit)
	limpet
	nodes
	modules
	;;
e2e) end_to_end ;;
*) together ;;
esac

echo
failed=0
for name in "${parts[@]}"; do
	cat "$logs/${name//\//-}.result" 2>/dev/null || printf '%-21s %s\n' "$name" "FAILED (no result)"
done
printf '%-28s %3d min\n' "all together" $(((SECONDS - began + 59) / 60))
for name in "${parts[@]}"; do
	grep -qs ' ok ' "$logs/${name//\//-}.result" && continue
	failed=1
	echo
	echo "failures of $name (all of its output: $logs/${name//\//-}.log):"
	# of each failed test also the first lines that it printed
	awk '/^[[:space:]]*--- FAIL/ { print; n = 6; next }
		/^FAIL|^panic:|DATA RACE|\[(build|setup) failed\]/ { print; n = 0; next }
		/^[[:space:]]/ && n-- > 0 { print substr($0, 1, 400); next }
		{ n = 0 }' "$logs/${name//\//-}.log" | grep . || tail -n 5 "$logs/${name//\//-}.log"
done
exit "$failed"
