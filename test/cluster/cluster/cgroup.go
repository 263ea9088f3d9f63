package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// hierarchy is one mounted cgroup tree of the machine.
type hierarchy struct {
	dir string
	v1  string // controller list or name=… of a v1 hierarchy; "" for the unified one
}

// hierarchies reads what the machine has mounted.
func hierarchies() ([]hierarchy, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	return parseHierarchies(string(data)), nil
}

func parseHierarchies(mountinfo string) []hierarchy {
	var all []hierarchy
	for line := range strings.Lines(mountinfo) {
		before, after, found := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !found || len(left) < 5 || len(right) < 3 || !strings.HasPrefix(left[4], "/sys/fs/cgroup") {
			continue
		}
		switch right[0] {
		case "cgroup2":
			all = append(all, hierarchy{dir: left[4]})
		case "cgroup":
			var names []string
			for o := range strings.SplitSeq(right[2], ",") {
				if o != "rw" && o != "xattr" && o != "clone_children" {
					names = append(names, o)
				}
			}
			all = append(all, hierarchy{dir: left[4], v1: strings.Join(names, ",")})
		}
	}
	return all
}

// v1Names lists the v1 hierarchies that nodes mount; none on a unified machine.
func v1Names(all []hierarchy) []string {
	var names []string
	for _, h := range all {
		if h.v1 != "" {
			names = append(names, h.v1)
		}
	}
	return names
}

// EnterCgroups puts this process into the cgroup of a node, or of the control plane,
// in every hierarchy, making it where it is missing.
func EnterCgroups(name, node string) error {
	name, err := properName(name)
	if err != nil {
		return err
	}
	all, err := hierarchies()
	if err != nil {
		return err
	}
	unified := len(v1Names(all)) == 0 // else the controllers are with v1, and there is nothing to hand down
	for _, h := range all {
		dir, err := makeCgroups(h, name, node, unified)
		if err != nil {
			return fmt.Errorf("make cgroup of %s below %s: %w", node, h.dir, err)
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
			return fmt.Errorf("enter cgroup %s: %w", dir, err)
		}
	}
	return nil
}

// makeCgroups makes the cgroup of a node and the cluster's around it.
func makeCgroups(h hierarchy, name, node string, unified bool) (dir string, err error) {
	around := filepath.Join(h.dir, cgroupName(name))
	dir = filepath.Join(around, node)
	if unified {
		if err := handDown(h.dir, filepath.Join(stateDir(name), lentFile)); err != nil {
			return "", err
		}
	}
	if err := makeCgroup(h, h.dir, around); err != nil {
		return "", err
	}
	if unified {
		if err := handDown(around, os.DevNull); err != nil {
			return "", err
		}
	}
	return dir, makeCgroup(h, around, dir)
}

func makeCgroup(h hierarchy, parent, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if !strings.Contains(h.v1, "cpuset") {
		return nil
	}
	for _, f := range []string{"cpuset.cpus", "cpuset.mems"} { // a new v1 cpuset allows nothing
		data, err := os.ReadFile(filepath.Join(parent, f))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, f), bytes.TrimSpace(data), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// lentFile names the controllers that the machine's root cgroup did not hand down
// before.
const lentFile = "controllers"

// handDown lets the children of a unified cgroup use its controllers, and first adds
// those that they could not use to the file. Machines with a unified hierarchy only
// have not run this yet; see also nodeinit.
func handDown(dir, file string) error {
	has, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	hands, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		return err
	}
	lent, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer lent.Close()
	for c := range strings.FieldsSeq(string(has)) {
		if slices.Contains(strings.Fields(string(hands)), c) {
			continue
		}
		if _, err := lent.WriteString(c + "\n"); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// takeBack undoes handDown of the machine's root cgroup.
func takeBack(file string) error {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read lent controllers: %w", err)
	}
	for c := range strings.FieldsSeq(string(data)) {
		// Refused while others use it by now; then it is theirs to keep.
		_ = os.WriteFile("/sys/fs/cgroup/cgroup.subtree_control", []byte("-"+c), 0o644)
	}
	return nil
}

// killCgroup kills what still runs in a cluster's cgroups or one node's, which is
// only what they started, and removes them.
func killCgroup(name string, node ...string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	var errs []error
	for _, h := range all {
		dir := filepath.Join(append([]string{h.dir, cgroupName(name)}, node...)...)
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		errs = append(errs, retry(func() error { return emptyCgroup(dir) }))
	}
	return errors.Join(errs...)
}

func emptyCgroup(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			dirs = append(dirs, path)
		}
		return nil // a cgroup that vanishes meanwhile is as good as removed
	})
	if err != nil {
		return err
	}
	slices.Reverse(dirs) // children first
	var left error
	for _, d := range dirs {
		data, _ := os.ReadFile(filepath.Join(d, "cgroup.procs")) // gone: nothing to kill
		for pid := range strings.FieldsSeq(string(data)) {
			if n, err := strconv.Atoi(pid); err == nil && n > 1 {
				_ = unix.Kill(n, unix.SIGKILL) // ended meanwhile
			}
		}
		if err := unix.Rmdir(d); err != nil && !errors.Is(err, unix.ENOENT) {
			left = fmt.Errorf("remove cgroup %s: %w", d, err)
		}
	}
	return left
}
