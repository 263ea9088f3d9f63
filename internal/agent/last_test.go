package agent_test

import (
	"context"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/agent"
	"github.com/limpet-io/limpet/internal/agent/show"
	"github.com/limpet-io/limpet/internal/lifecycle"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestAnAgentThatEndsShowsTheLastPods ends a pod and then the agent, as a reboot of the node does.
func TestAnAgentThatEndsShowsTheLastPods(t *testing.T) {
	ns, n := env.Namespace(t), newNode(t, "reboots")
	n.Pace = show.Pace{Counts: time.Hour, Ends: time.Hour, Last: time.Minute}
	n.attach(t, ns, "web-0", "u0", n.liveNetNS(), 0)
	a, err := agent.New(n.Config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	n.apiShows(t, map[string]v1alpha1.IPState{"web-0": v1alpha1.IPAttached})
	n.update(t, func(tx *persistence.Tx) error {
		a, _, err := tx.Attachment(reservation.AttachmentID{Network: "net", ContainerID: "c-web-0", IfName: "eth0"})
		if err != nil {
			return err
		}
		_, err = lifecycle.End(tx, a, n.Now(), false)
		return err
	})
	stop()
	if err := <-done; err != nil {
		t.Errorf("run agent: %v", err)
	}
	n.apiShows(t, map[string]v1alpha1.IPState{"web-0": v1alpha1.IPReserved})
}
