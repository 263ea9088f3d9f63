package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

var errNoServer = errors.New("no API server of this benchmark is running")

// findServer returns the process of the API server, and its arguments.
func (b *bench) findServer() (pid int, args []string, err error) {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, nil, fmt.Errorf("look for the API server: %w", err)
	}
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(text, []byte(b.audit.path)) {
			continue // a process that has ended, or another one
		}
		args := strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
		if filepath.Base(args[0]) != "kube-apiserver" {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		return pid, args, err
	}
	return 0, nil, errNoServer
}

// restartServer kills the API server, leaves it away for a while, and waits until it is ready
// again.
func (b *bench) restartServer(ctx context.Context, away time.Duration) error {
	pid, args, err := b.findServer()
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill API server: %w", err)
	}
	if err := wait(ctx, away); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // the same program as before
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start API server again: %w", err)
	}
	b.restarted = cmd
	return poll(ctx, longestWait, func(ctx context.Context) error {
		text, err := b.raw.Get().AbsPath("/readyz").DoRaw(ctx)
		if err != nil {
			return fmt.Errorf("ask API server: %w: %s", err, text)
		}
		return nil
	})
}
