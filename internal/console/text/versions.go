package text

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/limpet-io/limpet/internal/console"
)

// Versions prints which version each program has.
func Versions(w io.Writer, s Style, r console.VersionReport) {
	agents, plugins := map[string]int{}, map[string]int{}
	rows := make([]string, 0, len(r.Nodes))
	for _, n := range r.Nodes {
		agents[or(n.Agent)]++
		plugins[or(n.Plugin)]++
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s", n.Node, or(n.Agent), or(n.Plugin)))
	}
	table(w, "PROGRAM\tVERSION", []string{
		"kubectl-limpet\t" + r.Client, "limpet-controller\t" + numbers(r.Replicas), "limpet-agent\t" + numbers(agents), "limpet-ipam\t" + numbers(plugins),
	})
	fmt.Fprintln(w)
	if s.Wide && len(rows) > 0 {
		table(w, "NODE\tAGENT\tPLUGIN", rows)
		fmt.Fprintln(w)
	}
	if len(r.Problems) > 0 || len(r.Unread) == 0 {
		problems(w, s, r.Problems, "All have one version.")
	}
	unread(w, r.Unread)
}

// numbers says how many there are of each version.
func numbers(of map[string]int) string {
	var all []string
	for _, v := range slices.Sorted(maps.Keys(of)) {
		all = append(all, fmt.Sprintf("%s (%d)", v, of[v]))
	}
	return or(strings.Join(all, ", "))
}
