package text

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/limpet-io/limpet/internal/console"
)

// Status prints the cluster at a glance.
func Status(w io.Writer, s Style, r console.StatusReport) {
	table(w, "PROGRAM\tREADY\tIMAGE\tNODES", []string{program(s, r.Controller), program(s, r.Agent)})
	fmt.Fprintln(w)
	var rows []string
	for _, n := range r.Nodes {
		ready := "Ready"
		if !n.Ready {
			ready = "NotReady"
		}
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d", n.Node, ready, n.Agent, or(n.Network), n.Total, n.Attached, n.Reserved, n.Free))
	}
	table(w, "NODE\tSTATUS\tAGENT\tNETWORK\tTOTAL\tATTACHED\tRESERVED\tFREE", rows)
	fmt.Fprintf(w, "\n%s PersistentPodStates, %s budgets, %s WorkloadSpreads\n",
		number(r.Workloads), number(r.Budgets), number(r.Spreads))
	if n := r.Rebuilt; n != nil {
		fmt.Fprintf(w, "rebuilt pods: %d kept, %d moved, %d lost their address\n", n.Kept, n.Moved, n.Lost)
	}
	keeping(w, r.Keeping)
	none := "Nothing needs attention."
	if len(r.Unread) > 0 {
		none = "Unknown whether something needs attention."
	}
	fmt.Fprintln(w)
	problems(w, s, r.Problems, none)
	unread(w, r.Unread)
}

// mostKeeping is how many namespaces are named.
const mostKeeping = 10

// keeping prints the namespaces that ask for their pods.
func keeping(w io.Writer, all []console.Keeping) {
	var named []string
	for _, k := range all[:min(len(all), mostKeeping)] {
		named = append(named, fmt.Sprintf("%s (%s, %d workloads)", k.Namespace, k.For, k.Workloads))
	}
	if more := len(all) - mostKeeping; more > 0 {
		named = append(named, fmt.Sprintf("and %d more", more))
	}
	if len(named) > 0 {
		fmt.Fprintf(w, "namespaces that keep addresses: %s\n", strings.Join(named, ", "))
	}
}

func number(n *int) string {
	if n == nil {
		return "unknown"
	}
	return strconv.Itoa(*n)
}

func program(s Style, p console.Program) string {
	nodes := strings.Join(p.Nodes, ",")
	if len(p.Nodes) > 4 && !s.Wide {
		nodes = fmt.Sprintf("%d nodes", len(p.Nodes))
	}
	ready := fmt.Sprintf("%d/%d", p.Ready, p.Desired)
	if p.Unknown {
		ready = "unknown"
	}
	return fmt.Sprintf("%s\t%s\t%s\t%s", p.Name, ready, or(p.Image), or(nodes))
}

// History prints what is known of a pod.
func History(w io.Writer, s Style, r console.HistoryReport) {
	table(w, "POD\tSTATUS\tNODE\tIPS", []string{fmt.Sprintf("%s/%s\t%s\t%s\t%s", r.Namespace, r.Pod, r.State, or(r.Node), or(r.IPs))})
	if r.RecordedBy != "" {
		fmt.Fprintf(w, "\nrecorded by PersistentPodState %s: node %s, addresses %s", r.RecordedBy, or(r.RecordedNode), or(r.RecordedIPs))
		if r.RecordedAt != nil {
			fmt.Fprintf(w, ", since %s ago", duration.HumanDuration(s.Now.Sub(r.RecordedAt.Time)))
		}
		fmt.Fprintln(w)
	}
	if r.Subset != "" {
		line(w, "placed by %s", r.Subset)
	}
	var rows []string
	for _, h := range r.Held {
		left := "while the pod runs"
		if h.Until != nil {
			left = duration.HumanDuration(h.Until.Sub(s.Now))
		}
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s\t%s", h.Node, h.Network, h.IPs, h.State, left))
	}
	if len(rows) > 0 {
		fmt.Fprintln(w)
	}
	table(w, "HELD ON\tNETWORK\tIPS\tSTATE\tLEFT", rows)
	if l := r.Last; l != nil {
		fmt.Fprintf(w, "\nlast rebuild, %s ago: %s, %s %s → %s %s\n", duration.HumanDuration(s.Now.Sub(l.Time.Time)),
			l.Outcome, or(l.From.NodeName), or(l.From.IPs), or(l.To.NodeName), or(l.To.IPs))
		if l.Cause != "" {
			line(w, "  %s", strings.TrimSuffix(l.Cause+": "+l.Message, ": "))
		}
	}
	if r.Next != "" {
		fmt.Fprintln(w)
		line(w, "if it were rebuilt now: %s", r.Next)
	}
	told(w, s, r.Events)
	unread(w, r.Unread)
}

func told(w io.Writer, s Style, events []console.Told) {
	var rows []string
	for _, e := range events {
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s", duration.HumanDuration(s.Now.Sub(e.Time)), e.Reason, e.Object, e.Message))
	}
	if len(rows) > 0 {
		fmt.Fprintln(w)
	}
	table(w, "LAST SEEN\tREASON\tOBJECT\tMESSAGE", rows)
}

// Drain prints the plan of a drain.
func Drain(w io.Writer, s Style, r console.DrainReport) {
	var rows []string
	for _, d := range r.Pods {
		if d.Outcome == console.Stays && !s.Wide {
			continue
		}
		wave, why := fmt.Sprint(d.Wave), d.Why
		if d.Blocked != "" {
			wave, why = "never", d.Blocked
		}
		if d.Outcome == console.Stays {
			wave = "-"
		}
		rows = append(rows, fmt.Sprintf("%s/%s\t%s\t%s\t%s\t%s\t%s", d.Namespace, d.Pod, d.Node, wave, d.Outcome, or(strings.Join(d.Budgets, ",")), why))
	}
	table(w, "POD\tNODE\tWAVE\tTHEN\tBUDGETS\tWHY", rows)
	if len(rows) > 0 {
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "%d return when their node is uncordoned, %d move, %d end, %d cannot go\n", r.Returns, r.Moves, r.Ends, r.Blocked)
	if r.Waves > 1 {
		fmt.Fprintf(w, "%d waves; no order of the pods needs fewer than %d. Each waits until the pods of the wave before it are available again\n", r.Waves, r.LeastWaves)
	}
}

// Audit prints what contradicts.
func Audit(w io.Writer, s Style, r console.AuditReport) {
	fmt.Fprintf(w, "compared %d pods, %d reservations and %d pools\n", r.Pods, r.Reservations, r.Pools)
	problems(w, s, r.Problems, "Nothing contradicts.")
}

// Eviction prints whether a pod may be evicted.
func Eviction(w io.Writer, r console.EvictionReport) {
	if r.Allowed {
		fmt.Fprintf(w, "eviction of %s/%s: allowed now\n", r.Namespace, r.Pod)
	} else {
		fmt.Fprintf(w, "eviction of %s/%s: refused (%d): %s\n", r.Namespace, r.Pod, r.Code, r.Message)
	}
	for _, c := range r.Causes {
		fmt.Fprintf(w, "  %s\n", c)
	}
	for _, b := range r.Budgets {
		fmt.Fprintf(w, "pods of %s/%s: ", b.Namespace, b.Name)
		ring(w, b.Places)
	}
	unread(w, r.Unread)
}

// Explain prints the answer to one question.
func Explain(w io.Writer, e console.Explanation) {
	line(w, "%s of %s/%s: %s", e.Question, e.Namespace, e.Pod, e.Answer)
	for _, because := range e.Because {
		line(w, "  %s", because)
	}
	if e.Remedy != "" {
		line(w, "  remedy: %s", e.Remedy)
	}
	unread(w, e.Unread)
}

// Explained prints the answers to all questions about a pod.
func Explained(w io.Writer, r console.Explained) {
	if r.Eviction != nil {
		Eviction(w, *r.Eviction)
	}
	for _, e := range r.Answers {
		Explain(w, e)
	}
	unread(w, r.Unread)
}

// Trial prints whether a pod came back to its place.
func Trial(w io.Writer, r console.TrialReport) {
	kept := map[bool]string{true: "kept", false: "not kept"}
	fmt.Fprintf(w, "node %s: %s → %s\naddress %s: %s → %s\ntook %.1f s\n",
		kept[r.NodeKept], r.From.NodeName, r.To.NodeName, kept[r.AddressKept], or(r.From.IPs), or(r.To.IPs), r.Seconds)
	for _, because := range r.Because {
		fmt.Fprintf(w, "  %s\n", because)
	}
	if r.Remedy != "" {
		fmt.Fprintf(w, "  next: %s\n", r.Remedy)
	}
}
