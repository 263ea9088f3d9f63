package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/pkg/persistence"
)

// Uninstall removes what the agent put on the node, in the order in which it can be
// done without: first the network configuration and the routes, then the plugin, and
// that only when no pod is attached any more, since its DEL needs it. The state stays.
// It fails while an agent runs here.
func Uninstall(ctx context.Context, c Config) error {
	release, err := hold(c.StateDir, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer release()
	links, err := netlink.NewHandle()
	if err != nil {
		return fmt.Errorf("talk to the kernel about routes: %w", err)
	}
	defer links.Close()
	err = errors.Join(remove(filepath.Join(c.ConfDir, conflistName)), ApplyRoutes(links, nil))
	if err != nil {
		return err
	}
	networks, err := read(ctx, persistence.New(persistence.Options{Dir: c.StateDir}))
	if err != nil {
		return err
	}
	a := Agent{Config: c}
	for _, n := range networks {
		running := slices.DeleteFunc(n.Attachments, a.gone) // those may have had their DEL from host-local
		if len(running) > 0 {
			return fmt.Errorf("%d pods of network %s are still attached: delete them, then uninstall again; the plugin stays for their DEL", len(running), n.Name)
		}
	}
	return remove(filepath.Join(c.BinDir, pluginName))
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("uninstall: %w", err)
	}
	return nil
}
