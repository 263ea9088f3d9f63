package cniexec

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// aloneKey is the variable that tells a process that it was started by Alone.
const aloneKey = "LIMPET_TEST_ALONE"

// Alone runs a test binary's tests once more in a mount namespace with a /run and a
// /var/lib of its own: limpet-ipam looks there for the network namespaces and for the
// results of pods that run, and must find neither the machine's nor other tests'. It
// returns what run returns, in the parent as in the child.
func Alone(run func() (int, error)) (int, error) {
	if os.Getenv(aloneKey) == "" {
		return again()
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return 0, fmt.Errorf("keep mounts private: %w", err)
	}
	for _, dir := range []string{"/run", "/var/lib"} {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
			return 0, fmt.Errorf("mount %s: %w", dir, err)
		}
	}
	return run()
}

// again executes this program in a mount namespace; root is needed.
func again() (int, error) {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), aloneKey+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		return 0, fmt.Errorf("run the tests in a mount namespace of their own: %w", err)
	}
	return cmd.ProcessState.ExitCode(), nil
}
