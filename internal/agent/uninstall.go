package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
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
	modified time.Time // of the state, before that
}

// Uninstall is an Uninstallation that tries once, and then removes the routes.
func Uninstall(ctx context.Context, c Config) error {
	if err := (&Uninstallation{Config: c}).Try(ctx); err != nil {
		return err
	}
	return RemoveRoutes()
}

// Try removes what the agent put on the node. A patched network configuration gets its original content at once, and that
// of the own network goes where another network stands. Else it stays while pods are attached, because no runtime ends a
// pod without one. The plugin stays as well, and while a network configuration names it. State and routes stay. Try
// fails while an agent runs on the node.
func (u *Uninstallation) Try(ctx context.Context) error {
	c := u.Config
	release, err := lock(c.StateDir, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer release()
	left, err := restoreNetworks(c)
	if err = errors.Join(err, errors.Join(left...)); err != nil {
		return err
	}
	another, err := anotherNetwork(c)
	attached := u.podsAttached(ctx)
	if attached != nil && !another {
		return errors.Join(err, fmt.Errorf("%w, and so does the network configuration: give the node another one, and it goes at once", attached))
	}
	if err := errors.Join(err, remove(filepath.Join(c.ConfDir, plan.ConflistName)), attached); err != nil {
		return err
	}
	_, _, err = removeTemps(c, time.Time{}, math.MinInt64) // of any age: no agent runs
	for _, name := range recordFiles {
		err = errors.Join(err, remove(filepath.Join(c.StateDir, name)))
	}
	if err = errors.Join(err, remove(filepath.Join(c.BinDir, plan.PluginName))); err != nil {
		return err
	}
	c.Log.Info("Uninstalled Limpet from this node; the state and the log of the verbs stay", "state", c.StateDir)
	return nil
}

// RemoveRoutes removes the routes and rules of the agent. Pods of other nodes need them until they have ended, too.
func RemoveRoutes() error {
	links, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open netlink socket for routes: %w", err)
	}
	defer links.Close()
	filter, err := openNFT()
	if err != nil {
		return err
	}
	defer filter.Close()
	return errors.Join(ApplyRoutes(links, nil), applyGuestRules(filter, nil, netip.Prefix{}))
}

// anotherNetwork reports whether the node has a network of another owner. The error says that one names the plugin.
func anotherNetwork(c Config) (another bool, err error) {
	files, err := readConfigs(c.ConfDir)
	for _, f := range files {
		by := plan.FindIPAM([]plan.ConfigFile{f}).By
		switch {
		case f.Name == plan.ConflistName || bytes.Contains(f.Data, []byte(`"loopback"`)): // which is no network for pods
		case by == plan.IPAMOther:
			another = true
		case by == plan.IPAMLimpet:
			err = fmt.Errorf("%s names %s: change it, then uninstall again; the plugin stays for the pods that start with it", filepath.Join(c.ConfDir, f.Name), plan.PluginName)
		}
	}
	return another, err
}

// podsAttached returns an error while pods need the plugin for their DEL. The state is read again only after a verb has
// written it, or after a while.
func (u *Uninstallation) podsAttached(ctx context.Context) error {
	now := u.Clock.Now()
	modified, err := stateModified(u.StateDir)
	if err != nil {
		return err
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
		return fmt.Errorf("remove what is not needed: %w", err)
	}
	return nil
}
