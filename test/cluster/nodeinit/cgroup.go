package nodeinit

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// mountCgroups mounts the hierarchies inside the node's cgroup namespace, where
// the node's own cgroup is the root: kubelets never see each other's.
func mountCgroups(c Config, dir string) error {
	if len(c.CgroupsV1) == 0 {
		return unix.Mount("cgroup2", dir, "cgroup2", 0, "")
	}
	if err := unix.Mount("cgroup", dir, "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	for _, name := range c.CgroupsV1 {
		at := filepath.Join(dir, strings.TrimPrefix(name, "name="))
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		options := name
		if strings.HasPrefix(name, "name=") {
			options = "none," + name
		}
		if err := unix.Mount("cgroup", at, "cgroup", 0, options); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// enterLeafCgroup moves this process out of the node's root cgroup, which on the
// unified hierarchy may hold no process once its controllers are handed down. Only
// machines with v1 hierarchies have run this so far.
func enterLeafCgroup(c Config) error {
	if len(c.CgroupsV1) > 0 {
		return nil
	}
	const root = "/sys/fs/cgroup"
	if err := os.MkdirAll(root+"/init", 0o755); err != nil {
		return fmt.Errorf("make leaf cgroup: %w", err)
	}
	if err := os.WriteFile(root+"/init/cgroup.procs", []byte("1"), 0o644); err != nil {
		return fmt.Errorf("enter leaf cgroup: %w", err)
	}
	controllers, err := os.ReadFile(root + "/cgroup.controllers")
	if err != nil {
		return fmt.Errorf("read controllers: %w", err)
	}
	for name := range strings.FieldsSeq(string(controllers)) {
		if err := os.WriteFile(root+"/cgroup.subtree_control", []byte("+"+name), 0o644); err != nil {
			return fmt.Errorf("hand down controller %s: %w", name, err)
		}
	}
	return nil
}

// ownControllers leaves those lines of /proc/cgroups that are about v1 hierarchies of the node; all if it has none. The last
// one has no end.
func ownControllers(machine string, v1 []string) string {
	machine = strings.TrimSuffix(machine, "\n")
	if len(v1) == 0 {
		return machine
	}
	own := strings.Split(strings.Join(v1, ","), ",")
	var left strings.Builder
	for line := range strings.Lines(machine) {
		if name, _, _ := strings.Cut(line, "\t"); strings.HasPrefix(name, "#") || slices.Contains(own, name) {
			left.WriteString(line)
		}
	}
	return strings.TrimSuffix(left.String(), "\n")
}
