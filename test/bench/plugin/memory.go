package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/limpet-io/limpet/test/cniexec"
)

// peakArgument makes this program run one plugin and print the plugin's peak memory. A child
// process has its parent's memory until its exec, so the parent must be small: the benchmark
// itself is too big.
const peakArgument = "peak-of"

// printPeak runs a command with this process's environment and standard input, and prints the
// peak of the command's resident memory in KiB.
func printPeak(ctx context.Context, command []string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin = os.Stdin
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", command[0], err, out)
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return errors.New("no resource usage on this system")
	}
	_, err = fmt.Println(usage.Maxrss)
	return err
}

// peak returns the peak of a call's resident memory in bytes.
func peak(ctx context.Context, call cniexec.Call) (int64, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("find this program: %w", err)
	}
	plugin := call.Plugin
	call.Plugin = self
	cmd := call.Command(ctx)
	cmd.Args = append(cmd.Args, peakArgument, plugin)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("measure memory: %w: %s", err, stderr.String())
	}
	kib, err := strconv.ParseInt(strings.TrimSpace(out.String()), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("measure memory: %w", err)
	}
	return kib << 10, nil
}

// memory is the highest peak of an ADD or DEL in a state, in bytes.
type memory struct {
	state             string
	hostLocal, limpet int64
}

// measuredPod is the pod whose verbs' memory is measured.
const measuredPod = "new"

func measureMemory(ctx context.Context, b bench, used int) (memory, error) {
	m := memory{state: fmt.Sprintf("%d in use", used)}
	dir, err := os.MkdirTemp(b.dir, "memory-")
	if err != nil {
		return m, fmt.Errorf("measure: %w", err)
	}
	defer b.remove(dir)
	for c, to := range map[*candidate]*int64{newLimpet(b.binaries, dir): &m.limpet, newHostLocal(b.binaries, dir): &m.hostLocal} {
		if err := c.fill(ctx, c.dir, used); err != nil {
			return m, err
		}
		highest, err := highestPeak(ctx, c)
		if err != nil {
			return m, err
		}
		*to = highest
	}
	return m, nil
}

// highestPeak returns the highest peak of some ADDs and DELs. A DEL reserves the address only with the result of
// its ADD, which the measurement of an ADD does not tell.
func highestPeak(ctx context.Context, c *candidate) (highest int64, err error) {
	for range 5 {
		added, err := peak(ctx, c.call("ADD", measuredPod))
		if err == nil && c.asks {
			err = c.attachAgain(ctx, measuredPod)
		}
		if err != nil {
			return 0, err
		}
		ended, err := peak(ctx, c.call("DEL", measuredPod))
		if err != nil {
			return 0, err
		}
		c.had.Delete(measuredPod)
		highest = max(highest, added, ended)
	}
	return highest, nil
}

// cpu returns the least CPU time of a command on the state, in three runs.
func (c *candidate) cpu(ctx context.Context, command string) (least time.Duration, err error) {
	for range 3 {
		cmd := exec.CommandContext(ctx, c.plugin, command, "--data-dir", c.dir)
		if err := cmd.Run(); err != nil {
			return 0, fmt.Errorf("%s: %w", command, err)
		}
		if took := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(); least == 0 || took < least {
			least = took
		}
	}
	return least, nil
}
