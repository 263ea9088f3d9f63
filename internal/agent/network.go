package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/pkg/persistence"
)

// setUpNetwork makes the agent the pod network of its node: routes first, then the network
// configuration, with which the node becomes Ready. Routes that cannot be set are an error,
// but do not keep the node from becoming Ready.
func (a *Agent) setUpNetwork() error {
	names, err := configNames(a.ConfDir)
	if err != nil {
		return err
	}
	settings, told, unrecorded := a.settings()
	in := plan.OwnNetworkInput{
		Node: a.Node, Nodes: a.cluster.allNodes(), ConfigNames: names, Options: a.pluginOptions(), Settings: settings,
		Untold: !told, Waited: a.Clock.Since(a.started) >= untold && unrecorded == nil, Accepts: a.Accepts,
	}
	if settings != nil {
		if in.NodeMTU, err = nodeMTU(a.cluster.links, plan.InternalIPs(a.Node, in.Nodes)); err != nil {
			return err
		}
	}
	if conflist, err := os.ReadFile(filepath.Join(a.ConfDir, plan.ConflistName)); err == nil { // without it no range is applied
		in.Applied = plan.Applied(conflist)
	}
	d := plan.OwnNetwork(in)
	a.decided = d
	if d.Foreign != "" {
		a.networkInstalled.Store(true)
		return fmt.Errorf("%s is the node's network configuration: it and the routes are left as they are; remove it, or run the agent with --network=none", filepath.Join(a.ConfDir, d.Foreign))
	}
	err = errors.Join(ApplyRoutes(a.cluster.links, d.Routes, d.Stay...), d.Err)
	if d.Err != nil {
		if (settings != nil || !told) && slices.Contains(names, plan.ConflistName) {
			a.networkInstalled.Store(true) // with the settings that the node had before
		}
		return errors.Join(err, unrecorded)
	}
	err = errors.Join(err, a.installConflist(d))
	a.decided.Failed(err)
	return errors.Join(err, unrecorded)
}

func (a *Agent) pluginOptions() plan.PluginOptions {
	o := plan.PluginOptions{DataDir: a.StateDir, StateDir: a.StateDir, MaxRetain: a.MaxRetain, SharePercent: a.SharePercent}
	if o.DataDir == persistence.DefaultDir {
		o.DataDir = ""
	}
	return o
}

func (a *Agent) installConflist(d plan.OwnNetworkDecision) error {
	path := filepath.Join(a.ConfDir, plan.ConflistName)
	changed, err := installFile(path, d.Conflist, 0o644)
	if changed {
		a.Log.Info("Installed network configuration", "path", path, "ranges", d.Ranges)
	}
	a.networkInstalled.Store(err == nil)
	return err
}

// configNames returns the sorted names of the files in the directory of network
// configurations.
func configNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("list network configurations: %w", err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}
