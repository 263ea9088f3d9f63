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

	"github.com/limpet-io/limpet/test/bench/measure"
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
		if err != nil || !bytes.Contains(text, []byte(b.Audit.Path)) {
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

// serverProcessor returns the processor time of the API server so far.
func (b *bench) serverProcessor() (time.Duration, error) {
	pid, _, err := b.findServer()
	if err != nil {
		return 0, err
	}
	return measure.Processor(pid)
}

// settleMost is the longest wait for an API server that has little to do.
const settleMost = 2 * time.Minute

// settle waits until the API server has little to do: its caches follow what was written into etcd. In
// a real cluster the pods come over days, and not in the minute before the first start of a controller.
func (b *bench) settle(ctx context.Context) error {
	b.progress("wait until the API server has read what was written")
	before, err := b.serverProcessor()
	if err != nil {
		return err
	}
	look := min(2*time.Second, b.size.Rest/4)
	for waited := time.Duration(0); waited < settleMost; waited += look {
		if err := measure.Wait(ctx, look); err != nil {
			return err
		}
		now, err := b.serverProcessor()
		if err != nil || now-before < look/10 {
			return err
		}
		before = now
	}
	return nil
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
	if err := measure.Wait(ctx, away); err != nil {
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
