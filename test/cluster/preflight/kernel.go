package preflight

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// oldest is the first kernel whose nftables can do all that kube-proxy asks for.
var oldest = [2]int{5, 13}

// kernel checks for what nodes and their containers need of it.
func kernel(ctx context.Context) error {
	var errs []error
	filesystems, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		return fmt.Errorf("read kernel features: %w", err)
	}
	// A file system that is a module is listed once it is loaded.
	if !strings.Contains(string(filesystems), "\toverlay\n") && exec.CommandContext(ctx, "modprobe", "overlay").Run() != nil {
		errs = append(errs, errors.New("the kernel has no overlay file system"))
	}
	for _, ns := range []string{"mnt", "pid", "net", "uts", "ipc", "cgroup"} {
		if _, err := os.Stat("/proc/self/ns/" + ns); err != nil {
			errs = append(errs, fmt.Errorf("the kernel has no %s namespaces", ns))
		}
	}
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return fmt.Errorf("ask for the kernel's release: %w", err)
	}
	return errors.Join(append(errs, release(unix.ByteSliceToString(uts.Release[:])))...)
}

// release checks the kernel's age; a release that it cannot read is left to luck.
func release(text string) error {
	parts := strings.SplitN(text, ".", 3)
	if len(parts) < 2 {
		return nil
	}
	digits, _, _ := strings.Cut(parts[1], "-")
	major, badMajor := strconv.Atoi(parts[0])
	minor, badMinor := strconv.Atoi(digits)
	readable := badMajor == nil && badMinor == nil
	if !readable || major > oldest[0] || major == oldest[0] && minor >= oldest[1] {
		return nil
	}
	return fmt.Errorf("the kernel is %s; kube-proxy with nftables needs %d.%d", text, oldest[0], oldest[1])
}
