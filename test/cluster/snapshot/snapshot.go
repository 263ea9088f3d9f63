// Package snapshot records what a cluster could leave behind on a machine, so that a
// test can compare before and after.
package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Snapshot is a set of facts, such as "mount /run/netns/x" or
// "sysctl /proc/sys/vm/overcommit_memory 0".
type Snapshot map[string]bool

// counters are settings below /proc/sys that change by themselves, or that the
// kernel takes long to tell.
var counters = []string{
	"fs/aio-nr", "fs/binfmt_misc", "fs/dentry-state", "fs/file-nr", "fs/inode-nr", "fs/inode-state", "fs/quota",
	"kernel/ns_last_pid", "kernel/pty/nr", "kernel/random", "net/netfilter/nf_conntrack_count",
}

// Take records mounts, network namespaces, interfaces, cgroups, settings, and the
// processes that are not in this process's network namespace.
func Take() (Snapshot, error) {
	s := Snapshot{}
	err := errors.Join(
		s.mounts(),
		s.names("netns", "/run/netns"),
		s.names("interface", "/sys/class/net"),
		s.names("state", "/run/limpet-cluster"),
		s.names("state", "/var/lib/limpet-cluster"),
		s.cgroups("/sys/fs/cgroup"),
		s.settings("/proc/sys"),
		s.processes(),
	)
	return s, err
}

// Changes lists what is in one of two snapshots only: what is new with a plus, what
// is gone with a minus.
func Changes(before, after Snapshot) []string {
	var all []string
	for fact := range maps.Keys(after) {
		if !before[fact] {
			all = append(all, "+ "+fact)
		}
	}
	for fact := range maps.Keys(before) {
		if !after[fact] {
			all = append(all, "- "+fact)
		}
	}
	slices.Sort(all)
	return all
}

func (s Snapshot) add(kind string, words ...string) {
	s[kind+" "+strings.Join(words, " ")] = true
}

func (s Snapshot) mounts() error {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("read mounts: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) > 4 {
			s.add("mount", fields[4])
		}
	}
	return nil
}

func (s Snapshot) names(kind, dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", dir, err)
	}
	for _, e := range entries {
		s.add(kind, filepath.Join(dir, e.Name()))
	}
	return nil
}

// cgroups looks at the top of each hierarchy, where a cluster makes its own; further
// down others come and go on every machine.
func (s Snapshot) cgroups(root string) error {
	hierarchies, err := filepath.Glob(root + "/*/")
	if err != nil {
		return fmt.Errorf("list cgroups: %w", err)
	}
	s.file("cgroup", root+"/cgroup.subtree_control")
	for _, h := range append(hierarchies, root) {
		if err := s.names("cgroup", h); err != nil {
			return err
		}
	}
	return nil
}

// file notes what a file says; some can be written only, and some are not there.
func (s Snapshot) file(kind, path string) {
	if data, err := os.ReadFile(path); err == nil {
		s.add(kind, path, strings.TrimSpace(string(data)))
	}
}

func (s Snapshot) settings(root string) error {
	return filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, root+"/")
		if err != nil || slices.Contains(counters, name) {
			if e != nil && e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if e.Type().IsRegular() {
			s.file("sysctl", path)
		}
		return nil
	})
}

func (s Snapshot) processes() error {
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return fmt.Errorf("read own network namespace: %w", err)
	}
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	for _, dir := range all {
		ns, err := os.Readlink(filepath.Join(dir, "ns/net"))
		if err != nil || ns == own { // ended meanwhile, or no process of a cluster
			continue
		}
		name, _ := os.ReadFile(filepath.Join(dir, "comm")) // ended meanwhile
		s.add("process", filepath.Base(dir), strings.TrimSpace(string(name)))
	}
	return nil
}
