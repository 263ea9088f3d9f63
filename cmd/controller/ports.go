package main

import (
	"context"
	"fmt"
	"net/http"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/limpet-io/limpet/internal/platform/endpoint"
	"github.com/limpet-io/limpet/internal/version"
)

// addPorts adds the servers of probes and metrics. The manager starts them before its
// caches. Its own ones answer any method, and bound no connections.
func addPorts(ctx context.Context, mgr ctrl.Manager, o options, c checks) error {
	probes, shown := http.NewServeMux(), http.NewServeMux()
	handleChecks(probes, "/healthz", c.alive())
	handleChecks(probes, "/readyz", c.ready())
	metrics.Registry.MustRegister(endpoint.BuildInfo("limpet-controller", version.Release()))
	shown.Handle("/metrics", endpoint.Metrics(metrics.Registry))
	for _, port := range []struct {
		name, address string
		handler       http.Handler
	}{{"health probe", o.HealthAddress, probes}, {"metrics", o.MetricsAddress, shown}} {
		if port.address == "" || port.address == "0" {
			continue
		}
		l, err := endpoint.Listen(ctx, port.address, endpoint.Reads)
		if err != nil {
			return fmt.Errorf("serve %s: %w", port.name, err)
		}
		server := endpoint.NewReadServer(ctx, port.handler, mgr.GetLogger().WithName(port.name))
		if err := mgr.Add(&manager.Server{Name: port.name, Server: server, Listener: l}); err != nil {
			return fmt.Errorf("serve %s: %w", port.name, err)
		}
	}
	return nil
}

// handleChecks serves all checks together, and each at a path below.
func handleChecks(mux *http.ServeMux, path string, all map[string]healthz.Checker) {
	handler := http.StripPrefix(path, &healthz.Handler{Checks: all})
	mux.Handle(path, handler)
	mux.Handle(path+"/", handler)
}
