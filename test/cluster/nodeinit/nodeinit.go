// Package nodeinit is the first process of a node: it assembles the node's file
// system inside the namespaces it was started in, and then keeps containerd, the
// kubelet and kube-proxy running. Killing it is the node's power loss.
//
// Every component finds its default paths (/var/lib/kubelet, /run/containerd,
// /opt/cni/bin, …), because each node has a root of its own:
//
//	/            tmpfs, gone with the power
//	/usr         the machine's, read only
//	/etc /var /opt   a directory each, which stay like a disk
//	/run /tmp    tmpfs
//	/proc /sys /dev  fresh ones, /dev the machine's
//	/limpet      the binaries of this cluster, read only
package nodeinit

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Config is all that a node's first process is told.
type Config struct {
	// Name is the node's host name.
	Name string
	// Disk holds the directories etc, var and opt.
	Disk string
	// Binaries are directories put into PATH, by name below /limpet.
	Binaries map[string]string
	// Runtime is what runs the containers: Containerd or CRIO.
	Runtime string
	// Images are archives whose images the runtime gets, below /limpet/images.
	Images string
	// BootID is what this boot of the node calls itself.
	BootID string
	// CgroupsV1 lists the v1 hierarchies to mount; empty on a machine with the
	// unified hierarchy only.
	CgroupsV1 []string
	// KubeletArgs follow the kubelet's fixed arguments.
	KubeletArgs []string
}

// Load reads the configuration that the harness wrote.
func Load(path string) (Config, error) {
	var c Config
	data, err := os.ReadFile(path)
	if err != nil {
		return c, fmt.Errorf("read node configuration: %w", err)
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("decode node configuration: %w", err)
	}
	return c, nil
}

// Run becomes the node. It returns only when the node cannot start.
func Run(c Config) error {
	if err := unix.Sethostname([]byte(c.Name)); err != nil {
		return fmt.Errorf("set host name: %w", err)
	}
	if err := assemble(c); err != nil {
		return err
	}
	if err := enterLeafCgroup(c); err != nil {
		return err
	}
	return newSupervisor(c).run()
}

// step is one mount or directory on the way to a root file system.
type step struct {
	what string
	do   func() error
}

// assemble builds the node's root on a tmpfs and moves into it.
func assemble(c Config) error {
	root := filepath.Join(c.Disk, "root")
	at := func(p string) string { return filepath.Join(root, p) }
	bind := func(from, to string, flags uintptr) func() error {
		return func() error { return bindMount(from, at(to), flags) }
	}
	steps := []step{
		{"keep mounts to the node", func() error { return unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, "") }},
		{"make root", func() error { return os.MkdirAll(root, 0o755) }},
		{"mount root", func() error { return unix.Mount("node", root, "tmpfs", 0, "mode=755") }},
		{"make directories", func() error { return makeDirs(root) }},
		{"bind /usr", bind("/usr", "usr", unix.MS_RDONLY)},
		{"link /bin and others", func() error { return linkMerged(root) }},
		{"bind /etc", bind(filepath.Join(c.Disk, "etc"), "etc", 0)},
		{"bind /var", bind(filepath.Join(c.Disk, "var"), "var", unix.MS_REC)},
		{"bind /opt", bind(filepath.Join(c.Disk, "opt"), "opt", 0)},
		{"bind /dev", bind("/dev", "dev", unix.MS_REC)},
		{"mount /proc", func() error { return unix.Mount("proc", at("proc"), "proc", 0, "") }},
		{"mount /sys", func() error { return unix.Mount("sysfs", at("sys"), "sysfs", 0, "") }},
		{"mount cgroups", func() error { return mountCgroups(c, at("sys/fs/cgroup")) }},
		{"mount /run", func() error { return unix.Mount("run", at("run"), "tmpfs", 0, "mode=755") }},
		{"shield the machine's settings", func() error { return shield(c, root) }},
	}
	for name, dir := range c.Binaries {
		steps = append(steps, step{"bind binaries", bind(dir, "limpet/"+name, unix.MS_RDONLY)})
	}
	steps = append(steps,
		step{"bind images", bind(c.Images, "limpet/images", unix.MS_RDONLY)},
		step{"change root", func() error { return pivot(root) }},
		step{"share mounts with containers", func() error { return unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, "") }},
	)
	for _, s := range steps {
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
	}
	return nil
}

func makeDirs(root string) error {
	for _, d := range []string{"usr", "etc", "var", "opt", "root", "tmp", "run", "proc", "sys", "dev", "limpet", "old"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			return err
		}
	}
	return os.Chmod(filepath.Join(root, "tmp"), 0o1777)
}

// linkMerged repeats the machine's links from / into /usr.
func linkMerged(root string) error {
	for _, d := range []string{"bin", "sbin", "lib", "lib64"} {
		to, err := os.Readlink("/" + d)
		if err != nil {
			continue // not a merged-/usr machine, or no such directory
		}
		if err := os.Symlink(to, filepath.Join(root, d)); err != nil {
			return err
		}
	}
	return nil
}

func bindMount(from, to string, flags uintptr) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND|flags&unix.MS_REC, ""); err != nil {
		return err
	}
	if flags&unix.MS_RDONLY == 0 {
		return nil
	}
	return unix.Mount("", to, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
}

// shield shows the kubelet files that hold the values it would write, so that it
// leaves the machine's kernel alone, and gives this boot an ID of its own. Runtimes see
// only the controllers of cgroups that the node has.
func shield(c Config, root string) error {
	values := map[string]string{
		"sys/vm/overcommit_memory":      "1",
		"sys/vm/panic_on_oom":           "0",
		"sys/kernel/panic":              "10",
		"sys/kernel/panic_on_oops":      "1",
		"sys/kernel/keys/root_maxkeys":  "1000000",
		"sys/kernel/keys/root_maxbytes": "25000000",
		"sys/kernel/random/boot_id":     c.BootID,
	}
	machine, err := os.ReadFile("/proc/cgroups")
	if err != nil {
		return err
	}
	values["cgroups"] = ownControllers(string(machine), c.CgroupsV1)
	dir := filepath.Join(root, "run/shield")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, value := range values {
		file := filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if err := unix.Mount(file, filepath.Join(root, "proc", name), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func pivot(root string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "old"); err != nil {
		return err
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	return unix.Unmount("/old", unix.MNT_DETACH)
}
