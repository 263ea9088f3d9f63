package chaos

import (
	"fmt"
	"strings"
)

// Header is the head of a table of reports.
const Header = `| seed | minutes | faults | rebuilt pods that ask | kept | free to move | disruptions | refused | looks into sandboxes | violations |
|---|---|---|---|---|---|---|---|---|---|
`

// Row returns a report as a row of the table.
func (r Report) Row() string {
	return fmt.Sprintf("| %d | %.0f | %d | %d | %d | %d | %d | %d | %d | %d |\n", r.Seed, r.Length.Minutes(), r.total(),
		r.Rebuilt, r.Kept, r.FreeToMove, r.Budgets.Disruptions, r.Budgets.Refusals, r.Looks, len(r.Violations))
}

// Kinds returns how often each kind of fault was done, in the order of the lanes.
func (r Report) Kinds() string {
	var parts []string
	told := map[Kind]bool{}
	for _, l := range lanes {
		for _, k := range l.kinds {
			if !told[k] {
				parts = append(parts, fmt.Sprintf("%s: %d", k, r.Faults[k]))
			}
			told[k] = true
		}
	}
	return strings.Join(parts, ", ")
}

func (r Report) total() int {
	n := 0
	for _, count := range r.Faults {
		n += count
	}
	return n
}

// Page returns the document with the rows of all seeds, and how often each kind of fault was done.
func Page(rows, kinds string) string {
	return `# Chaos

<!-- Made by make chaos. -->

` + "`make chaos`" + ` disturbs a three-node cluster at random and watches whether Limpet's promises hold. A seed decides
all faults and their times: ` + "`make chaos CHAOS_FLAGS=\"-seed 7\"`" + ` does them again. Each row was one run.

` + Header + rows + `
A pod is free to move if its node was drained, had no power, no network or a damaged state when the pod was rebuilt, or if
the pod had been Ready for less than five seconds. A violation is one of these:

* Two sandboxes have one address. All sandboxes of each node are looked into every two seconds.
* A pod has an address that a node holds for another pod.
* A pod does not come back to its node with its addresses, and is not free to move. A pod that must return to its node is
  never free to leave the node.
* A budget is broken, or refuses without need. The audit log of the API server decides.
* At the end a pod is not Ready, or another pod answers at its address.
* At the end the state of a node, its NodeIPPool and its sandboxes disagree, or attached, reserved and free addresses
  are not all of them.

What was done:

` + kinds + `
Not done here: steps of the clock, which all nodes share with this machine, and full disks. ` +
		"`TestClockSteps`" + ` and ` + "`test/crash`" + ` cover them without a cluster.
`
}
