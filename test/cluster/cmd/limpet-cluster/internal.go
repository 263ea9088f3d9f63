package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/test/cluster/cluster"
	"github.com/limpet-io/limpet/test/cluster/nodeinit"
)

// forward passes connections of an inherited listener on to an address. It runs in
// the control plane's network namespace; the listener is from the machine's.
func forward(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("forward: want an address")
	}
	listener, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return fmt.Errorf("inherit listener: %w", err)
	}
	go func() {
		<-ctx.Done()
		_ = listener.Close() // ends Accept
	}()
	for {
		in, err := listener.Accept()
		if ctx.Err() != nil {
			return nil //nolint:nilerr // closed on purpose
		}
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		go pass(in, args[0])
	}
}

func pass(in net.Conn, address string) {
	defer in.Close()
	out, err := net.Dial("tcp", address)
	if err != nil {
		return // the caller sees the connection close, as from any server that is down
	}
	defer out.Close()
	done := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
		go func() {
			_, _ = io.Copy(pair[0], pair[1]) // either end may hang up
			done <- struct{}{}
		}()
	}
	<-done
}

// controlExec enters the control plane's cgroup and becomes another program.
func controlExec(_ context.Context, args []string) error {
	if len(args) < 2 {
		return errors.New("control-exec: want cluster and program")
	}
	if err := cluster.EnterCgroups(args[0], "control"); err != nil {
		return err
	}
	return fmt.Errorf("become %s: %w", args[1], unix.Exec(args[1], args[1:], os.Environ()))
}

// nodeSpawn enters a node's cgroups, starts its first process in namespaces of its
// own, prints that PID and ends.
func nodeSpawn(_ context.Context, args []string) error {
	if len(args) != 4 {
		return errors.New("node-spawn: want cluster, node, configuration and log")
	}
	if err := cluster.EnterCgroups(args[0], args[1]); err != nil {
		return err
	}
	log, err := os.OpenFile(args[3], os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	cmd := exec.Command("/proc/self/exe", "node-init", args[2])
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWCGROUP,
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start first process: %w", err)
	}
	_, err = fmt.Println(cmd.Process.Pid)
	return err
}

// nodeInit is a node's first process.
func nodeInit(_ context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("node-init: want a configuration")
	}
	config, err := nodeinit.Load(args[0])
	if err != nil {
		return err
	}
	return nodeinit.Run(config)
}
