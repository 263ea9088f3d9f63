package main

import (
	"context"
	"fmt"

	"github.com/limpet-io/limpet/internal/agent"
	"github.com/limpet-io/limpet/internal/agent/pods"
)

// readPodsFrom sets the source of pods that the flag --pods names. The agent keeps the source until it
// ends.
func readPodsFrom(ctx context.Context, c *agent.Config, o options) error {
	kubelet, err := pods.SocketPath(o.KubeletSocket)
	if err != nil {
		return err
	}
	from := o.Pods
	if from == "auto" {
		from = "api"
		if pods.Listens(ctx, kubelet) {
			from = "kubelet"
		}
	}
	switch from {
	case "kubelet":
		c.Pods = pods.NewKubelet(kubelet, c.Clock, c.Log)
	case "runtime":
		socket, err := pods.SocketPath(o.RuntimeEndpoint)
		if err != nil {
			return err
		}
		if c.Pods, err = pods.NewRuntime(socket); err != nil {
			return err
		}
	case "api": // the agent watches pods itself
	default:
		return fmt.Errorf("--pods: unknown source %q", from)
	}
	c.PodsFrom = from
	c.Log.Info("Source of the node's pods", "source", from)
	return nil
}
