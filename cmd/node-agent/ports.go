package main

import (
	"context"
	"net/http"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/limpet-io/limpet/internal/agent"
	"github.com/limpet-io/limpet/internal/platform/endpoint"
)

// servePorts serves probes and metrics, on one address or on two.
func servePorts(ctx context.Context, o options, a *agent.Agent, registry *prometheus.Registry, log logr.Logger) {
	probes := http.NewServeMux()
	probes.Handle("/healthz", check(a.Alive))
	probes.Handle("/readyz", check(a.Ready))
	metrics := probes
	if o.MetricsAddress != "" {
		metrics = http.NewServeMux()
		go serve(ctx, o.MetricsAddress, metrics, log)
	}
	metrics.Handle("/metrics", endpoint.Metrics(registry))
	go serve(ctx, o.Address, probes, log)
}

// check answers a probe.
func check(of func() error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := of(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n")) // a client that is gone needs no answer
	})
}

// serve serves until the agent ends. An address that is in use does not stop the agent: the
// probes fail, and Kubernetes restarts the pod.
func serve(ctx context.Context, address string, handler http.Handler, log logr.Logger) {
	if address == "" || address == "0" {
		return
	}
	l, err := endpoint.Listen(ctx, address, endpoint.Reads)
	if err == nil {
		err = endpoint.NewReadServer(ctx, handler, log).Serve(l)
	}
	log.Error(err, "Probes and metrics are no longer served", "address", address)
}
