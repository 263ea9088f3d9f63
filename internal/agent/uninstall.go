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

// readAgain is how long it holds what the state says about attached pods while no verb writes it. A pod can also lose its
// network namespace without a verb.
const readAgain = 30 * time.Second

// Uninstallation tries to take Limpet off a node, mostly several times.
type Uninstallation struct {
	Config
	attached error     // which pods kept the plugin when the state was last read
	read     time.Time // when that was
	modified time.Time // of the state file, before that
}

// Uninstall is an Uninstallation that tries once.
func Uninstall(ctx context.Context, c Config) error {
	return (&Uninstallation{Config: c}).Try(ctx)
}

// Try removes what the agent put on the node: first the network configuration and the
// routes, then the plugin. A patched network configuration gets its original content. The plugin
// stays while pods are attached, because their DEL needs it, and while a network configuration
// names it. The state file stays. Try fails while an agent runs on the node.
func (u *Uninstallation) Try(ctx context.Context) error {
	c := u.Config
	release, err := lock(c.StateDir, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer release()
	if err := removeNetwork(c); err != nil {
		return err
	}
	if err := pluginNamed(c); err != nil {
		return err
	}
	if err := u.podsAttached(ctx); err != nil {
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
	return errors.Join(err, errors.Join(left...), remove(filepath.Join(c.ConfDir, plan.ConflistName)),
		remove(filepath.Join(c.StateDir, settingsFile)), ApplyRoutes(links, nil))
}

// pluginNamed returns an error while a network configuration names the plugin.
func pluginNamed(c Config) error {
	files, err := readConfigs(c.ConfDir)
	if err != nil {
		return err
	}
	for _, f := range files {
		if plan.FindIPAM([]plan.ConfigFile{f}).By == plan.IPAMLimpet {
			return fmt.Errorf("%s names %s: change it, then uninstall again; the plugin stays for the pods that start with it", filepath.Join(c.ConfDir, f.Name), plan.PluginName)
		}
	}
	return nil
}

// podsAttached returns an error while pods need the plugin for their DEL. Verbs wait while the state is read, so it is
// read again only after a verb has written it, or after a while.
func (u *Uninstallation) podsAttached(ctx context.Context) error {
	now, modified := u.Clock.Now(), time.Time{}
	if info, err := os.Stat(filepath.Join(u.StateDir, "limpet.db")); err == nil {
		modified = info.ModTime()
	}
	if u.attached != nil && modified.Equal(u.modified) && now.Sub(u.read) < readAgain {
		return u.attached
	}
	networks, err := readState(ctx, persistence.New(persistence.Options{Dir: u.StateDir}))
	if err != nil {
		return err
	}
	u.attached, u.read, u.modified = nil, now, modified
	for _, n := range networks {
		if running := plan.Running(u.withSandboxes(n.Attachments)); running > 0 {
			u.attached = fmt.Errorf("%d pods of network %s are still attached: delete them, then uninstall again; the plugin stays for their DEL", running, n.Name)
			break
		}
	}
	return u.attached
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("uninstall: %w", err)
	}
	return nil
}
