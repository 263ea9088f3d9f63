// Package preflight finds out before anything is started whether this machine can
// run a local cluster, and installs the Debian packages that are missing.
package preflight

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// programs are what the nodes and the tests run that is not built from Go modules,
// and the Debian package of each. runc is among them because it is C in part and has
// to find a libseccomp that fits; a distribution has done that.
var programs = map[string]string{
	"runc": "runc", "nft": "nftables", "conntrack": "conntrack", "iptables": "iptables",
	"nsenter": "util-linux", "setpriv": "util-linux", "mount": "mount", "gcc": "gcc", "ip": "iproute2",
}

// Room for the caches of a first build and for the data of a cluster, in bytes.
const (
	spaceToBuild = 8 << 30
	spaceToRun   = 1 << 30
)

// Check returns nil when the machine can run a cluster whose data is below dir, made
// when missing. Otherwise each missing thing is named on a line of its own. Programs that
// are named as well have the names of their packages.
func Check(ctx context.Context, dir string, progress func(string, ...any), more ...string) error {
	if os.Geteuid() != 0 {
		return errors.New("root is needed: nodes are made of namespaces, mounts and cgroups")
	}
	if err := errors.Join(goVersion(), kernel(ctx), space(dir, spaceToRun)); err != nil {
		return err
	}
	return install(ctx, progress, more)
}

func goVersion() error {
	if _, err := exec.LookPath("go"); err != nil {
		return errors.New("Go is missing: install it from https://go.dev/dl") //nolint:staticcheck // a name
	}
	return nil
}

// install gets the missing packages where apt is at hand.
func install(ctx context.Context, progress func(string, ...any), more []string) error {
	wanted := maps.Clone(programs)
	for _, program := range more {
		wanted[program] = program
	}
	var packages []string
	for program, pkg := range wanted {
		if _, err := exec.LookPath(program); err != nil {
			packages = append(packages, pkg)
		}
	}
	if len(packages) == 0 {
		return nil
	}
	slices.Sort(packages)
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

// Space returns nil when there is room for a first build, where Go keeps what it
// compiles and downloads.
func Space(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "go", "env", "GOCACHE", "GOMODCACHE").Output()
	if err != nil {
		return fmt.Errorf("ask go for its caches: %w", err)
	}
	var errs []error
	for dir := range strings.FieldsSeq(string(out)) {
		errs = append(errs, space(dir, spaceToBuild))
	}
	return errors.Join(errs...)
}

func space(dir string, need uint64) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("look for space in %s: %w", dir, err)
	}
	if free := st.Bavail * uint64(st.Bsize); free < need {
		return fmt.Errorf("%s has %d MB free; %d MB are needed", dir, free>>20, need>>20)
	}
	return nil
}
