package leader

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Manager returns a manager that starts what needs a leader after the first election. The manager
// below runs no election of its own.
func Manager(mgr ctrl.Manager, e *Elector) ctrl.Manager { return electing{mgr, e} }

type electing struct {
	ctrl.Manager
	elector *Elector
}

// Elected is closed when this replica leads for the first time.
func (m electing) Elected() <-chan struct{} { return m.elector.Elected() }

// Add adds a Runnable. As in any manager, it needs a leader unless it says otherwise.
func (m electing) Add(r manager.Runnable) error {
	if needs, says := r.(manager.LeaderElectionRunnable); !says || needs.NeedLeaderElection() {
		r = after{r, m.elector}
	}
	return m.Manager.Add(r)
}

// after is a Runnable that begins after the first election.
type after struct {
	manager.Runnable
	elector *Elector
}

// Start waits for the election, and runs until ctx ends.
func (a after) Start(ctx context.Context) error {
	select {
	case <-a.elector.Elected():
		return a.Runnable.Start(ctx)
	case <-ctx.Done():
		return nil
	}
}
