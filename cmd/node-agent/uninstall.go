package main

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/limpet-io/limpet/internal/agent"
)

// uninstallPeriod is the time between two tries of an uninstallation that waits.
const uninstallPeriod = 2 * time.Second

var errNotDone = errors.New("not uninstalled yet: the log says why")

// uninstall takes Limpet off the node. With --wait it tries until no pod needs the plugin, and stays: the pod of a
// DaemonSet is Ready from then on. Routes go when that pod is deleted, because pods of other nodes may need them.
func uninstall(ctx context.Context, c agent.Config, o options) error {
	if !o.Wait {
		return agent.Uninstall(ctx, c)
	}
	var done atomic.Bool
	probes := http.NewServeMux()
	probes.Handle("/readyz", check(func() error {
		if !done.Load() {
			return errNotDone
		}
		return nil
	}))
	go serve(ctx, o.Address, probes, c.Log)
	tick := c.Clock.NewTicker(uninstallPeriod)
	defer tick.Stop()
	tries := agent.Uninstallation{Config: c}
	for said := ""; ; {
		if !done.Load() {
			err := tries.Try(ctx)
			done.Store(err == nil)
			if err != nil && err.Error() != said {
				said = err.Error()
				c.Log.Error(err, "Not uninstalled yet, trying again")
			}
		}
		select {
		case <-ctx.Done():
			if done.Load() {
				return agent.RemoveRoutes()
			}
			return nil
		case <-tick.C():
		}
	}
}
