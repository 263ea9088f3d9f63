package agent

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

var (
	// errRunning is returned by Uninstall while an agent would undo it.
	errRunning = errors.New("an agent runs on this node and would put everything back: delete the DaemonSet limpet-agent first")
	// errUninstalling is returned by Run while somebody uninstalls.
	errUninstalling = errors.New("limpet-agent uninstall runs on this node")
)

// hold takes a lock on the state directory until it is released, or the process has
// ended: agents share it (unix.LOCK_SH), who uninstalls must be alone (unix.LOCK_EX). A
// node without the directory has nothing to lock.
func hold(dir string, how int) (release func(), err error) {
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
	return func() { _ = f.Close() }, nil // it was only locked
}
