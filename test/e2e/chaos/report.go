package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Header is the head of a table of reports.
const Header = `| seed | version | minutes | faults | not done | rebuilt | kept | followed | free to move | by a person | disruptions | refused | watch behind | unknown | looks | by ARP | violations |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
`

// Row returns a report as a row of the table.
func (r Report) Row() string {
	return fmt.Sprintf("| %d | %s | %.0f | %d | %d | %d | %d | %d | %d | %d | %d | %d | %.1f s | %d | %d | %d | %d |\n", r.Seed, r.Version, r.Length.Minutes(), r.total(), r.Failed,
		r.Rebuilt, r.Kept, r.Followed, r.FreeToMove, r.Ended, r.Budgets.Disruptions, r.Budgets.Refusals, r.Behind.Seconds(), r.Unknown, r.Looks, r.Asked, len(r.Violations))
}

// Kinds returns a row with the number of faults of each kind, in the order of the lanes.
func (r Report) Kinds() string {
	var cells strings.Builder
	fmt.Fprintf(&cells, "| %d |", r.Seed)
	for _, k := range kinds() {
		fmt.Fprintf(&cells, " %d |", r.Faults[k])
	}
	return cells.String() + "\n"
}

// KindsHeader returns the head of a table of these rows.
func KindsHeader() string {
	var names, rule strings.Builder
	for _, k := range kinds() {
		fmt.Fprintf(&names, " %s |", k)
		rule.WriteString("---|")
	}
	return "| seed |" + names.String() + "\n|---|" + rule.String() + "\n"
}

// kinds returns each kind of fault once.
func kinds() []Kind {
	var all []Kind
	for _, l := range lanes {
		for _, k := range l.kinds {
			if !slices.Contains(all, k) {
				all = append(all, k)
			}
		}
	}
	return all
}

func (r Report) total() int {
	n := 0
	for _, count := range r.Faults {
		n += count
	}
	return n
}

// Page returns the document with a report. It keeps the rows that an earlier document has for other seeds.
func Page(earlier string, r Report) string {
	rows, faults := map[uint64]string{r.Seed: r.Row()}, map[uint64]string{r.Seed: r.Kinds()}
	for line := range strings.Lines(earlier) {
		seed, ok := seedOf(line)
		switch cells := strings.Count(line, "|"); {
		case !ok || seed == r.Seed:
		case cells == strings.Count(r.Row(), "|"):
			rows[seed] = line
		case cells == strings.Count(r.Kinds(), "|"):
			faults[seed] = line
		}
	}
	return fmt.Sprintf(page, Header+inOrder(rows), KindsHeader()+inOrder(faults))
}

// seedOf returns the seed in the first cell of a row.
func seedOf(row string) (uint64, bool) {
	rest, found := strings.CutPrefix(row, "| ")
	number, _, ended := strings.Cut(rest, " |")
	seed, err := strconv.ParseUint(number, 10, 64)
	return seed, found && ended && err == nil
}

// inOrder returns the lines by their seeds.
func inOrder(lines map[uint64]string) string {
	var all strings.Builder
	for _, seed := range slices.Sorted(maps.Keys(lines)) {
		all.WriteString(lines[seed])
	}
	return all.String()
}

const page = "# Chaos\n" + `
<!-- Made by make chaos. -->

` + "`make chaos`" + ` disturbs a three-node cluster at random and watches whether Limpet's promises hold. A seed decides all
faults and their times. ` + "`make chaos CHAOS_FLAGS=\"-seed 7 -seeds 1\"`" + ` does those of seed 7 again, for as long as the
kinds of faults are the same. Each row is one run of the version in it. ` + "`make test`" + ` has a run of two minutes.

%s
* *Not done* counts faults that failed as a whole or in part. Most are drains that a budget stopped, and requests while
  the API server or all controllers were away.
* *Rebuilt* counts pods that ask for a reservation, and *followed* those that took their addresses to another node.
* *By a person* counts loans that came back with a state that was rolled back, and waited until a person
  [said](../../use/annotations.md#an-address-that-follows-its-pod) that no pod has the addresses. The test says so at
  the end, once no sandbox has them.
* *Watch behind* is the longest time after which a watch of the test itself showed a change. Outages of the API server
  count.
* *Unknown* counts disruptions that a budget would have refused, had the API server shown the loss of another pod in
  time: neither Limpet nor the watch of the test itself knew of it.
* *Looks* counts looks into all sandboxes of a node, and *by ARP* how often all addresses of a node were asked for.

A pod is free to move if its node was drained, had no power or no network, or lacked its plugin or its state when the
pod was rebuilt, or if the pod had been Ready for less than five seconds. A violation is one of these:

* Two sandboxes have one address, on one node or on two. All sandboxes of each node are looked into every two seconds.
* Two sandboxes answer by ARP for one address for longer than two seconds. All addresses are asked for every four
  seconds.
* A pod has an address that a node holds for another pod.
* A pod does not come back to its node with its addresses, and is not free to move. A pod that must return to its node
  is never free to leave the node. A pod of a node whose disk was full is not free to move.
* A pod whose addresses follow it has others, though no state of its node was lost.
* A budget is broken, or refuses without need. The audit log of the API server decides. A decision must know each change
  two seconds after the watch of the test itself has shown it. A pod is created and deleted by a request of the log.
  The log may lack requests of the ten seconds before the API server was killed: such a deletion counts as the loss of
  a pod.
* 90 seconds after the plugin of a node or the directory of the plugins was damaged or replaced, the plugin does not
  run. After the directory of the state was replaced, no agent has started that reads the new one.
* At the end a pod is not Ready, another pod answers at its address, or a sandbox answers for an address of no pod.
* At the end a loan does not say where its pod is.
* At the end the state of a node, its NodeIPPool and its sandboxes disagree, or attached, reserved and free addresses
  are not all of them.

## What was done

%s
A full disk is the file system of ` + "`/var/lib/cni`" + `: the state of limpet-ipam and the runtime's CNI results. Other files
of a node are on the disk of the machine, which is not filled. ` + "`TestDiskFull`" + ` (test/crash) fills disks at other
moments.

## Steps of the clock

No seed steps the clock. CLOCK_REALTIME belongs to the machine: a time namespace has offsets for CLOCK_MONOTONIC and
CLOCK_BOOTTIME alone, which ` + "`cat /proc/self/timens_offsets`" + ` shows. A step would reach all nodes, the control plane and
all other programs of the machine. These tests step the clock of the code instead:

| what steps | test |
|---|---|
| the wall clock between a DEL and the next ADD, also over a reboot | ` + "`TestClockSteps`" + ` (internal/cni) |
| the clocks with which deadlines are stored and read | ` + "`TestDeadlineLeft`" + ` (pkg/reservation) |
`
