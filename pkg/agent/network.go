package agent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// beNetwork keeps the routes to the other nodes, and writes the network configuration
// as the last thing, since with it the node becomes Ready. A route that cannot be set
// is told of, but one odd node must not keep all the others from getting ready.
func (a *Agent) beNetwork(ctx context.Context) error {
	nodes, err := a.world.nodes(ctx)
	if err != nil {
		return err
	}
	foreign, err := foreignConfig(a.ConfDir)
	if err != nil {
		return err
	}
	if foreign != "" {
		a.network.Store(true)
		return fmt.Errorf("%s is the node's network configuration: it and the routes are left alone; remove it, or run the agent with --network=none", filepath.Join(a.ConfDir, foreign))
	}
	err = ApplyRoutes(a.world.links, PlanRoutes(a.Node, nodes))
	self := slices.IndexFunc(nodes, func(n corev1.Node) bool { return n.Name == a.Node })
	if self < 0 {
		return errors.Join(err, fmt.Errorf("node %s is not registered yet", a.Node))
	}
	return errors.Join(err, a.installConflist(nodes[self]))
}

func (a *Agent) installConflist(n corev1.Node) error {
	if len(n.Spec.PodCIDRs) == 0 {
		return fmt.Errorf("node %s has no pod CIDR: run kube-controller-manager with --allocate-node-cidrs, or use another network", n.Name)
	}
	data, err := conflist(n.Spec.PodCIDRs, a.Config)
	if err != nil {
		return err
	}
	path := filepath.Join(a.ConfDir, conflistName)
	changed, err := installFile(path, data, 0o644)
	if changed {
		a.Log.Info("Installed network configuration", "path", path, "podCIDRs", n.Spec.PodCIDRs)
	}
	a.network.Store(err == nil)
	return err
}
