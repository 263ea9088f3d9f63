package agent

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

var (
	// errRunning is returned by Uninstall while an agent runs, which would undo it.
	errRunning = errors.New("an agent runs on this node and would install everything again: delete the DaemonSet limpet-agent first")
	// errUninstalling is returned by Run while Uninstall runs.
	errUninstalling = errors.New("limpet-agent uninstall runs on this node")
)

// lock locks the state directory until release is called or the process ends. Agents take a
// shared lock (unix.LOCK_SH), Uninstall an exclusive one (unix.LOCK_EX). A node without the
// directory has nothing to lock.
func lock(dir string, how int) (release func(), err error) {
	f, err := os.Open(dir)
	if errors.Is(err, os.ErrNotExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lock state directory: %w", err)
	}
	err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = errUninstalling
		if how == unix.LOCK_EX {
			err = errRunning
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock state directory %s: %w", dir, err), f.Close())
	}
	return func() { _ = f.Close() }, nil // nothing was written
}
