package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestParseHierarchies(t *testing.T) {
	cases := map[string]struct {
		mountinfo string
		want      []string
		dirs      []string
	}{
		"v1 with a unified one beside it": {
			mountinfo: "31 24 0:26 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n" +
				"32 24 0:27 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n" +
				"33 24 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			want: []string{"cpu,cpuacct", "name=systemd"},
			dirs: []string{"/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified"},
		},
		"unified only": {
			mountinfo: "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n25 1 8:1 / / rw - ext4 /dev/sda1 rw\n",
			dirs:      []string{"/sys/fs/cgroup"},
		},
		"somebody else's mount elsewhere": {mountinfo: "30 23 0:26 / /mnt/cgroup rw - cgroup2 cgroup2 rw\n"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			all := parseHierarchies(c.mountinfo)
			if diff := cmp.Diff(c.want, v1Names(all)); diff != "" {
				t.Errorf("v1Names() (-want +got):\n%s", diff)
			}
			var dirs []string
			for _, h := range all {
				dirs = append(dirs, h.dir)
			}
			if diff := cmp.Diff(c.dirs, dirs); diff != "" {
				t.Errorf("directories (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEndSparesAProcessThatOnlyHasThePID(t *testing.T) {
	p := processes{dir: t.TempDir(), log: t.TempDir()}
	cmd := exec.Command("sleep", "60")
	if err := p.spawn("sleeper", "", cmd); err != nil {
		t.Fatal(err)
	}
	record, err := os.ReadFile(filepath.Join(p.dir, "sleeper"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.dir, "sleeper"), append(record, '0'), 0o644); err != nil { // started at another time
		t.Fatal(err)
	}
	if err := p.end("sleeper", unix.SIGKILL, time.Second); err != nil {
		t.Fatal(err)
	}
	if err := p.remember("sleeper", cmd.Process.Pid); err != nil {
		t.Fatalf("the process was ended although it is not the one: %v", err)
	}
	if err := p.end("sleeper", unix.SIGKILL, time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := startTime(cmd.Process.Pid); err == nil {
		t.Error("the process lives on")
	}
}
