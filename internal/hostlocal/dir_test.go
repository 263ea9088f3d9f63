package hostlocal_test

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/internal/hostlocal"
)

func TestHolder(t *testing.T) {
	addr := netip.MustParseAddr("10.1.2.3")
	for name, tc := range map[string]struct {
		file string
		want hostlocal.Holder
	}{
		"as host-local writes it":      {file: "c1\r\neth0", want: hostlocal.Holder{ContainerID: "c1", IfName: "eth0"}},
		"as it did before 2018":        {file: "c1", want: hostlocal.Holder{ContainerID: "c1"}},
		"with space around":            {file: " c1 \r\neth0 ", want: hostlocal.Holder{ContainerID: "c1", IfName: "eth0"}},
		"mirrored":                     {file: "c1\r\neth0\n", want: hostlocal.Holder{ContainerID: "c1", IfName: "eth0", Mirrored: true}},
		"written by hand, with echo":   {file: "mine\n", want: hostlocal.Holder{ContainerID: "mine"}},
		"empty":                        {file: ""},
		"a line feed and nothing else": {file: "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, os.WriteFile(filepath.Join(dir, addr.String()), []byte(tc.file), 0o600))
			got, found, err := hostlocal.New(dir).Holder(addr)
			if diff := cmp.Diff(tc.want, got); diff != "" || !found || err != nil {
				t.Errorf("found %t, %v (-want +got):\n%s", found, err, diff)
			}
			if is := got.Is("", ""); is {
				t.Error("it names no container")
			}
		})
	}
}

// TestEntriesAreAddressesOnly has everything else in the directory that may be there.
func TestEntriesAreAddressesOnly(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"10.1.2.3", "fd00::2", "lock", "last_reserved_ip.0", ".limpet-10.1.2.9", "10.1.2", "fe80::1%eth0"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("c1\r\neth0"), 0o600))
	}
	must(t, os.MkdirAll(filepath.Join(dir, "10.1.2.4"), 0o700))
	all, err := hostlocal.New(dir).Entries()
	must(t, err)
	var names []string
	for _, e := range all {
		names = append(names, e.Addr.String())
	}
	if diff := cmp.Diff([]string{"10.1.2.3", "fd00::2"}, names); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if none, err := hostlocal.New(filepath.Join(dir, "nowhere")).Entries(); err != nil || len(none) != 0 {
		t.Errorf("a directory that is not there: %v, %v", none, err)
	}
}

// TestMirrorNeverReplacesHostLocalFiles replaces mirrored files and never host-local's own.
func TestMirrorNeverReplacesHostLocalFiles(t *testing.T) {
	dir := hostlocal.New(filepath.Join(t.TempDir(), "net"))
	addr := netip.MustParseAddr("10.1.2.3")
	must(t, dir.Mirror(addr, "c1", "eth0"))
	must(t, dir.Mirror(addr, "c2", "eth0"))
	c2 := hostlocal.Holder{ContainerID: "c2", IfName: "eth0", Mirrored: true}
	if h, _, err := dir.Holder(addr); h != c2 || err != nil {
		t.Errorf("holder %+v, %v", h, err)
	}
	must(t, dir.Remove(addr, hostlocal.Holder{ContainerID: "c1", IfName: "eth0", Mirrored: true})) // not its any more
	must(t, dir.Remove(addr, c2))
	if _, found, _ := dir.Holder(addr); found {
		t.Error("the file is still there")
	}

	path := t.TempDir()
	must(t, os.WriteFile(filepath.Join(path, addr.String()), []byte("c3\r\neth0"), 0o600))
	if err := hostlocal.New(path).Mirror(addr, "c1", "eth0"); !errors.Is(err, hostlocal.ErrTaken) {
		t.Errorf("got %v, want %v", err, hostlocal.ErrTaken)
	}
	if left, _ := filepath.Glob(filepath.Join(path, ".limpet*")); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

// FuzzDir has a file of any name and content. A file that host-local takes for a container's
// is that container's here too, and a mirrored file is of no other container.
func FuzzDir(f *testing.F) {
	for _, content := range []string{"c1\r\neth0", "c1", " c1 \r\neth0\n", "", "\r\n", "c1\r\neth0\r\nmore", "c1\neth0\n", "\u0085c1\u00a0"} {
		for _, name := range []string{"10.1.2.3", "fd00::2", "010.1.2.3", "::ffff:10.1.2.3", "FD00::2", "fe80::1%eth0", "last_reserved_ip.0"} {
			f.Add(name, []byte(content), "c1", "eth0")
		}
	}
	f.Fuzz(func(t *testing.T, name string, content []byte, id, ifName string) {
		path := t.TempDir()
		if !filepath.IsLocal(name) || strings.ContainsAny(name, "/\x00") || os.WriteFile(filepath.Join(path, name), content, 0o600) != nil {
			t.Skip("no file of this name can be in the directory, so neither plugin can meet it")
		}
		dir := hostlocal.New(path)
		all, err := dir.Entries()
		must(t, err)
		addr, err := netip.ParseAddr(name)
		if is := err == nil && addr.Zone() == "" && addr.String() == name; len(all) != 0 != is {
			t.Fatalf("%q: %+v", name, all)
		}
		if cursor := dir.Cursor(0); cursor.Zone() != "" {
			t.Errorf("cursor %s", cursor)
		}
		if len(all) == 0 {
			return
		}
		h := all[0].Holder
		text := strings.TrimSpace(string(content)) // as host-local compares
		theirs := id != "" && (text == strings.TrimSpace(id+"\r\n"+ifName) || text == strings.TrimSpace(id))
		if plain := strings.TrimSpace(id) == id && strings.TrimSpace(ifName) == ifName && !strings.Contains(id, "\r\n"); plain && theirs && !h.Is(id, ifName) {
			t.Errorf("%q is of %q %q, and was taken for %+v", content, id, ifName, h)
		}
		if h.Mirrored && (h.ContainerID == "" || !strings.HasSuffix(string(content), "\n")) {
			t.Errorf("%q was taken for %+v", content, h)
		}
		must(t, dir.Remove(addr, h))
		if _, found, err := dir.Holder(addr); found || err != nil {
			t.Errorf("%q was not removed: %v", content, err)
		}
	})
}

// FuzzForkRecord reads records as a killed writer could leave them.
func FuzzForkRecord(f *testing.F) {
	f.Add([]byte(`{"containerId":"c","ifName":"eth0","IPConf":{"address":"10.1.0.4/29","gateway":"10.1.0.1"},"duration":10,"releaseTime":"2025-12-31T23:55:00Z"}`))
	f.Add([]byte(`{"containerId":"c","IPConf":{"address":"fd00::4/64"},"duration":9999999999999999}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		must(t, os.MkdirAll(filepath.Join(dir, "ns"), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, "ns", "pod"), data, 0o600))
		r, found, err := hostlocal.NewForkRecords(dir).Of("ns", "pod")
		if err != nil || found && (!r.Addr.IsValid() || r.For < 0 || r.For%time.Minute != 0) {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

func TestForkRecordsStayInTheirDirectory(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "pod"), []byte(`{"IPConf":{"address":"10.1.0.4/29"}}`), 0o600))
	must(t, os.MkdirAll(filepath.Join(dir, "reserved", "ns"), 0o700))
	a := hostlocal.NewForkRecords(filepath.Join(dir, "reserved"))
	if r, found, err := a.Of("..", "pod"); found || err != nil {
		t.Errorf("found %+v, %v", r, err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
