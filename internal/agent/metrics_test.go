package agent_test

import (
	"testing"

	"github.com/limpet-io/limpet/internal/agent"
	"github.com/limpet-io/limpet/internal/testenv"
)

// Each label has few values, whatever tenants do. A label that is added here needs its bound.
func TestLabelsOfTheAgentAreBounded(t *testing.T) {
	bounds := map[string]string{
		"network": "names of networks, which the node's administrator configures; host-local's files know no others",
		"state":   "attached, reserved, free",
		"to":      "pod, reservation",
		"what":    "pod, reservation",
		"by":      "limpet-ipam, other, unknown",
		"version": "one at a time: the installed plugin",
		"kind":    "constants of internal/audit",
		"source":  "kubelet, runtime, api",
		"step":    "constants in round.go",
		"cause":   "workload, namespace, released",
		"verb":    "constants of internal/agent/plan",
		"outcome": "constants of internal/agent/plan",
		"code":    "constants of internal/agent/plan",
		"age":     "constants of internal/agent/plan",
	}
	n, metrics := newNode(t, "labels"), &testenv.Collectors{}
	n.Registry = metrics
	if _, err := agent.New(n.Config); err != nil {
		t.Fatal(err)
	}
	all := metrics.Labels()
	if len(all) < 10 {
		t.Errorf("found %d metrics: the test tests little", len(all))
	}
	for metric, labels := range all {
		for _, label := range labels {
			if bounds[label] == "" {
				t.Errorf("%s has the label %s, for which no bound is known", metric, label)
			}
		}
	}
}
