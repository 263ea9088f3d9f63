package agent

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/pkg/persistence"
)

// Uninstall removes what the agent put on the node: first the network configuration and the
// routes, then the plugin. A patched network configuration gets its original content. The plugin
// stays while pods are attached, because their DEL needs it, and while a network configuration
// names it. The state file stays. Uninstall fails while an agent runs on the node.
func Uninstall(ctx context.Context, c Config) error {
	release, err := lock(c.StateDir, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer release()
	if err := removeNetwork(c); err != nil {
		return err
	}
	if err := pluginInUse(ctx, c); err != nil {
		return err
	}
	_, _, err = removeTemps(c, time.Time{}, math.MinInt64) // of any age: no agent runs
	if err = errors.Join(err, remove(filepath.Join(c.BinDir, plan.PluginName))); err != nil {
		return err
	}
	c.Log.Info("Uninstalled Limpet from this node; the state and the log of the verbs stay", "state", c.StateDir)
	return nil
}

// removeNetwork ends the network of own mode, and restores a patched one.
func removeNetwork(c Config) error {
	links, err := netlink.NewHandle()
	if err != nil {
		return fmt.Errorf("open netlink socket for routes: %w", err)
	}
	defer links.Close()
	left, err := restoreNetworks(c)
	return errors.Join(err, errors.Join(left...), remove(filepath.Join(c.ConfDir, plan.ConflistName)), ApplyRoutes(links, nil))
}

// pluginInUse returns why the plugin must stay: a network configuration names it, or a pod needs it for its DEL.
func pluginInUse(ctx context.Context, c Config) error {
	files, err := readConfigs(c.ConfDir)
	if err != nil {
		return err
	}
	for _, f := range files {
		if plan.FindIPAM([]plan.ConfigFile{f}).By == plan.IPAMLimpet {
			return fmt.Errorf("%s names %s: change it, then uninstall again; the plugin stays for the pods that start with it", filepath.Join(c.ConfDir, f.Name), plan.PluginName)
		}
	}
	networks, err := readState(ctx, persistence.New(persistence.Options{Dir: c.StateDir}))
	if err != nil {
		return err
	}
	for _, n := range networks {
		if running := plan.Running(c.withSandboxes(n.Attachments)); running > 0 {
			return fmt.Errorf("%d pods of network %s are still attached: delete them, then uninstall again; the plugin stays for their DEL", running, n.Name)
		}
	}
	return nil
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("uninstall: %w", err)
	}
	return nil
}
