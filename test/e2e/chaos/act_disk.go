package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// DiskSize is the size of each node's file system for the state of CNI plugins. FillDisk needs such a file system.
const DiskSize = "16m"

// largestDisk is the largest file system that is filled: a larger one is not DiskSize's.
const largestDisk = 64 << 20

// fillDisk fills the file system of a node's state and of the runtime's CNI results, and keeps it full for a while.
// Pods must come back to a full disk's node too, once the disk has space again.
func fillDisk(ctx context.Context, r *runner, f Fault, _ *rand.Rand) error {
	dir := filepath.Join(r.bed.Cluster.Disk(f.Node), "var/lib/cni")
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		return fmt.Errorf("look at the disk of %s: %w", f.Node, err)
	}
	if size := int64(disk.Blocks) * disk.Bsize; size > largestDisk { //nolint:gosec // no disk has 2^63 blocks
		return fmt.Errorf("the disk of %s has %d bytes, and is not filled", f.Node, size)
	}
	path := filepath.Join(dir, "fill")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("fill the disk of %s: %w", f.Node, err)
	}
	full, cancel := context.WithTimeout(ctx, f.For)
	defer cancel()
	for full.Err() == nil && err == nil {
		err = fill(file)
		_ = r.wait(full, 50*time.Millisecond) // the loop ends with the context
	}
	return errors.Join(err, file.Close(), os.Remove(path))
}

// fill appends to a file until its disk is full.
func fill(file *os.File) error {
	for block := make([]byte, 1<<16); ; {
		if _, err := file.Write(block); errors.Is(err, unix.ENOSPC) {
			return nil
		} else if err != nil {
			return fmt.Errorf("fill disk: %w", err)
		}
	}
}
