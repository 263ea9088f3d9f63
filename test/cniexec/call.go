// Package cniexec builds CNI plugins and runs them as a container runtime does: as
// a process with an environment and a configuration on its standard input.
package cniexec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
)

// Call is one execution of a plugin.
type Call struct {
	Plugin    string // its path
	Verb      string // CNI_COMMAND
	Container string // CNI_CONTAINERID
	IfName    string // CNI_IFNAME
	NetNS     string // CNI_NETNS
	Args      string // CNI_ARGS
	Path      string // CNI_PATH
	Stdin     []byte // the network configuration

	// Through is a program with its arguments that runs the plugin; none when empty.
	Through []string
}

// Answer is what a plugin said.
type Answer struct {
	Stdout, Stderr []byte
	Exit           int
}

// Command returns the process, not started.
func (c Call) Command(ctx context.Context) *exec.Cmd {
	line := append(slices.Clone(c.Through), c.Plugin)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env = []string{
		"CNI_COMMAND=" + c.Verb, "CNI_CONTAINERID=" + c.Container, "CNI_IFNAME=" + c.IfName,
		"CNI_NETNS=" + c.NetNS, "CNI_ARGS=" + c.Args, "CNI_PATH=" + c.Path,
	}
	cmd.Stdin = bytes.NewReader(c.Stdin)
	return cmd
}

// Run executes the plugin. A plugin that answers with an error is no error.
func (c Call) Run(ctx context.Context) (Answer, error) {
	var stdout, stderr bytes.Buffer
	cmd := c.Command(ctx)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		return Answer{}, fmt.Errorf("run %s %s: %w", c.Plugin, c.Verb, err)
	}
	return Answer{stdout.Bytes(), stderr.Bytes(), cmd.ProcessState.ExitCode()}, nil
}
