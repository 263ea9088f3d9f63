package agent

import (
	"fmt"
	"strings"

	"github.com/limpet-io/limpet/internal/machine"
)

// replaced returns an error when the host has removed or renamed a directory since the container of the agent was made.
// What the agent reads and writes there concerns no pod any more: it ends, and its next container has the new directory.
func (a *Agent) replaced() (why error) {
	a.step("directories", func() error {
		now, err := machine.Mounted(a.Directories...)
		if err != nil {
			return err
		}
		if a.roots == nil {
			a.roots = now
		}
		for dir, root := range now {
			if root != a.roots[dir] || strings.HasSuffix(root, "//deleted") {
				why = fmt.Errorf("%s was removed or renamed on the host (%s): the agent ends, to be started with the new directory", dir, root)
			}
		}
		return why
	})
	return why
}
