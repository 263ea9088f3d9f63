package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// cniState is the directory of a node that holds the state of CNI plugins.
const cniState = "var/lib/cni"

// mountCNIDisk gives a node's /var/lib/cni a file system of its own. The mount is the machine's, so its files survive
// a power loss of the node.
func (c *Cluster) mountCNIDisk(node string) error {
	if c.config.CNIDisk == "" {
		return nil
	}
	dir := filepath.Join(c.disk(node), cniState)
	if err := unix.Mount("cni", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size="+c.config.CNIDisk); err != nil {
		return fmt.Errorf("mount %s of %s: %w", cniState, node, err)
	}
	return nil
}

// unmountCNIDisks unmounts what mountCNIDisk mounted.
func unmountCNIDisks(name string) error {
	dirs, err := filepath.Glob(filepath.Join(dataDir(name), "*", cniState))
	if err != nil {
		return fmt.Errorf("list disks: %w", err)
	}
	var errs []error
	for _, dir := range dirs {
		err := unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, fs.ErrNotExist) { // EINVAL: nothing is mounted
			errs = append(errs, fmt.Errorf("unmount %s: %w", dir, err))
		}
	}
	return errors.Join(errs...)
}
