// Package preflight finds out before anything is started whether this machine can
// run a local cluster, and installs the Debian packages that are missing.
package preflight

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// programs are what the nodes and the tests run that is not built from Go modules,
// and the Debian package of each.
var programs = map[string]string{
	"runc": "runc", "nft": "nftables", "conntrack": "conntrack", "iptables": "iptables",
	"nsenter": "util-linux", "mount": "mount", "gcc": "gcc",
}

// spaceNeeded is the room for build caches and data of a first run, in bytes.
const spaceNeeded = 8 << 30

// Check returns nil when the machine can run a cluster whose data is below dir.
// Otherwise each missing thing is named on a line of its own.
func Check(ctx context.Context, dir string, progress func(string, ...any)) error {
	if os.Geteuid() != 0 {
		return errors.New("root is needed: nodes are made of namespaces, mounts and cgroups")
	}
	if err := install(ctx, progress); err != nil {
		return err
	}
	return errors.Join(goVersion(), kernel(), space(dir))
}

func goVersion() error {
	if _, err := exec.LookPath("go"); err != nil {
		return errors.New("Go is missing: install it from https://go.dev/dl") //nolint:staticcheck // a name
	}
	return nil
}

// install gets the missing packages where apt is at hand.
func install(ctx context.Context, progress func(string, ...any)) error {
	var packages []string
	for program, pkg := range programs {
		if _, err := exec.LookPath(program); err != nil {
			packages = append(packages, pkg)
		}
	}
	if len(packages) == 0 {
		return nil
	}
	apt, err := exec.LookPath("apt-get")
	if err != nil {
		return fmt.Errorf("programs are missing; install the packages %s", strings.Join(packages, " "))
	}
	progress("installing Debian packages: %s", strings.Join(packages, " "))
	for _, args := range [][]string{{"update", "-q"}, append([]string{"install", "-qy", "--no-install-recommends"}, append(packages, "libc6-dev")...)} {
		cmd := exec.CommandContext(ctx, apt, args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("install the packages %s yourself: apt-get %s: %w\n%s", strings.Join(packages, " "), args[0], err, bytes.TrimSpace(out))
		}
	}
	return nil
}

// kernel checks for what containers on this machine need of it.
func kernel() error {
	var missing []error
	filesystems, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		return fmt.Errorf("read kernel features: %w", err)
	}
	for _, fs := range []string{"overlay", "tmpfs", "proc"} {
		if !strings.Contains(string(filesystems), "\t"+fs+"\n") {
			missing = append(missing, fmt.Errorf("the kernel has no %s file system", fs))
		}
	}
	for _, ns := range []string{"mnt", "pid", "net", "uts", "ipc", "cgroup"} {
		if _, err := os.Stat("/proc/self/ns/" + ns); err != nil {
			missing = append(missing, fmt.Errorf("the kernel has no %s namespaces", ns))
		}
	}
	return errors.Join(missing...)
}

func space(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("look for space in %s: %w", dir, err)
	}
	if free := st.Bavail * uint64(st.Bsize); free < spaceNeeded {
		return fmt.Errorf("%s has %d MB free; %d MB are needed", dir, free>>20, spaceNeeded>>20)
	}
	return nil
}
