package bed

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// DownAfter removes the cluster at the end of a test, and describes it first if the test has failed.
func (b *Bed) DownAfter(t testing.TB) {
	t.Cleanup(func() {
		if t.Failed() {
			fmt.Fprintln(os.Stderr, Describe(context.WithoutCancel(t.Context()), b))
		}
		if err := b.Down(); err != nil {
			t.Error(err)
		}
	})
}

// Describe returns what helps to understand a failure: objects, events and logs.
func Describe(ctx context.Context, b *Bed) string {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var report strings.Builder
	for _, args := range [][]string{
		{"get", "nodes,pods", "-A", "-o", "wide"},
		{"get", "persistentpodstates,workloadspreads,ipreservations,borrowedaddresses,nodeippools,podunavailablebudgets,distributedpoddisruptionbudgets,disruptionbooks", "-A"},
		{"get", "events", "-A", "--field-selector=type!=Normal", "--sort-by=.lastTimestamp"},
		{"-n", System, "logs", "-l", "app.kubernetes.io/name=limpet-agent", "--tail=30", "--prefix"},
		{"-n", System, "logs", "-l", "app.kubernetes.io/name=limpet-controller", "--tail=30", "--prefix"},
	} {
		out, err := b.Kubectl(ctx, args...)
		fmt.Fprintf(&report, "$ kubectl %s\n%s", strings.Join(args, " "), out)
		if err != nil {
			fmt.Fprintf(&report, "%v\n", err)
		}
	}
	fmt.Fprintf(&report, "control plane logs: %s, logs of a node, here n1: %s\n", b.Cluster.LogDir(), b.Cluster.Disk("n1")+"/var/log")
	return report.String()
}
