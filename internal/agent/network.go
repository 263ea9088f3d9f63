package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/pkg/persistence"
)

// setUpNetwork makes the agent the pod network of its node: routes first, then the network
// configuration, with which the node becomes Ready. Routes that cannot be set are an error,
// but do not keep the node from becoming Ready.
func (a *Agent) setUpNetwork(ctx context.Context) error {
	files, err := readConfigs(a.ConfDir)
	if err != nil {
		return err
	}
	settings, told, unrecorded := a.settings()
	in := plan.OwnNetworkInput{
		Node: a.Node, Network: plan.NetworkName, Nodes: a.cluster.allNodes(), Configs: files, Options: a.pluginOptions(), Settings: settings,
		Untold: !told, Waited: a.Clock.Since(a.started) >= untold && unrecorded == nil, Accepts: a.Accepts,
		PodNetworks: a.PodNetworks, Services: append(a.cluster.serviceRanges(), apiServer(a.REST.Host)),
	}
	a.lending.kernel.Lock()
	defer a.lending.kernel.Unlock()
	if in.Have, err = ownRoutes(a.cluster.links); err != nil {
		return err
	}
	unrecorded = errors.Join(unrecorded, a.lending.addLoans(ctx, &in))
	if settings != nil {
		if in.NodeMTU, err = nodeMTU(a.cluster.links, plan.InternalIPs(a.Node, in.Nodes)); err != nil {
			return err
		}
	}
	if i := slices.IndexFunc(files, func(f plan.ConfigFile) bool { return f.Name == plan.ConflistName }); i >= 0 {
		in.Current = files[i].Data
	}
	d := plan.OwnNetwork(in)
	a.decided = d
	if d.Foreign != "" {
		a.networkSettled.Store(true)
		return fmt.Errorf("%s is the node's network configuration: it and the routes are left as they are; remove it, or run the agent with --network=none", filepath.Join(a.ConfDir, d.Foreign))
	}
	unrecorded = errors.Join(d.Refused, unrecorded)
	err = errors.Join(a.makeRoutes(in.Have, d), d.Err)
	if d.Err != nil {
		if (settings != nil || !told) && in.Current != nil {
			a.networkSettled.Store(true) // with the settings that the node had before
		}
		return errors.Join(err, unrecorded)
	}
	if d.Fresh && !a.lending.knows(d.Owns) { // another node may have an address of a new range, as a guest
		a.networkSettled.Store(in.Current != nil)
		return errors.Join(err, unrecorded)
	}
	err = errors.Join(err, a.installConflist(in.Current, d))
	a.decided.Failed(err)
	return errors.Join(err, unrecorded)
}

// apiServer returns the address in a URL; none of a name.
func apiServer(host string) netip.Prefix {
	u, err := url.Parse(host)
	if err != nil {
		return netip.Prefix{}
	}
	ip, _ := netip.ParseAddr(u.Hostname())
	return netip.PrefixFrom(ip, ip.BitLen())
}

func (a *Agent) pluginOptions() plan.PluginOptions {
	o := plan.PluginOptions{DataDir: a.StateDir, StateDir: a.StateDir, MaxRetain: a.MaxRetain, SharePercent: a.SharePercent}
	if o.DataDir == persistence.DefaultDir {
		o.DataDir = ""
	}
	return o
}

// installConflist writes the network configuration, with pauses while another program changes it back.
func (a *Agent) installConflist(current []byte, d plan.OwnNetworkDecision) error {
	path, now := filepath.Join(a.ConfDir, plan.ConflistName), a.Clock.Now()
	a.networkSettled.Store(current != nil)
	if bytes.Equal(current, d.Conflist) {
		return nil
	}
	if a.patches = recent(a.patches, now); bytes.Equal(a.wrote, d.Conflist) {
		if err := plan.Contested(plan.ConflistName, a.patches, now); err != nil {
			return err
		}
		a.patches = append(a.patches, now)
	}
	var err error
	if a.wrote = d.Conflist; current == nil {
		_, err = installFile(path, d.Conflist, 0o644)
	} else {
		err = swapFile(path, current, d.Conflist)
	}
	if err == nil {
		a.Log.Info("Installed network configuration", "path", path, "ranges", d.Ranges)
		a.networkSettled.Store(true)
	}
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
