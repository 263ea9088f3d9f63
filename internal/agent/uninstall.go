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
// routes, then the plugin. The plugin stays while pods are attached, because their DEL needs
// it. The state file stays. Uninstall fails while an agent runs on the node.
func Uninstall(ctx context.Context, c Config) error {
	release, err := lock(c.StateDir, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer release()
	links, err := netlink.NewHandle()
	if err != nil {
		return fmt.Errorf("open netlink socket for routes: %w", err)
	}
	defer links.Close()
	err = errors.Join(remove(filepath.Join(c.ConfDir, plan.ConflistName)), ApplyRoutes(links, nil))
	if err != nil {
		return err
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
	_, err = removeTemps(c, time.Time{}, math.MinInt64) // of any age: no agent runs
	return errors.Join(err, remove(filepath.Join(c.BinDir, plan.PluginName)))
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("uninstall: %w", err)
	}
	return nil
}
