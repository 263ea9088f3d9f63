package machine_test

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/internal/machine"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestInterfacesOfNamespaces lists the interfaces of one namespace, beside files that are
// no namespaces.
func TestInterfacesOfNamespaces(t *testing.T) {
	if os.Getuid() != 0 {
		t.Fatal("root is needed to make a network namespace")
	}
	dir := t.TempDir()
	bound := filepath.Join(dir, "pod")
	for _, name := range []string{bound, filepath.Join(dir, "plain")} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		made <- makeNamespace(bound)
	}()
	if err := <-made; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(bound, unix.MNT_DETACH) })

	all, err := machine.Interfaces(dir)
	if err != nil || len(all) != 1 || all[0].Name != "eth0" || all[0].NetNS.Path != bound || !slices.Equal(all[0].Addresses, []netip.Addr{netip.MustParseAddr("10.1.2.3")}) {
		t.Errorf("got %+v", all)
	}
	if now, found := machine.StatNetNS(bound); !found || now != all[0].NetNS {
		t.Errorf("namespace %+v, want %+v", all[0].NetNS, now)
	}
	has := []netip.Addr{netip.MustParseAddr("10.9.9.9"), netip.MustParseAddr("10.1.2.3")}
	other := all[0].NetNS
	other.Inode++
	plain, _ := machine.StatNetNS(filepath.Join(dir, "plain"))
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{loop: true, filepath.Join(dir, "plain", "pod"): false, filepath.Join(dir, "nowhere"): false} {
		if ns, found := machine.StatNetNS(path); found != want || ns.Inode != 0 {
			t.Errorf("a look at %s: %+v, %t", path, ns, found)
		}
	}
	for name, tc := range map[string]struct {
		in   reservation.NetNS
		has  []netip.Addr
		want bool
	}{
		"one of the addresses":           {all[0].NetNS, has, true},
		"other addresses":                {all[0].NetNS, has[:1], false},
		"another namespace at the path":  {other, has, false},
		"a file that is no namespace":    {plain, has, false},
		"a path that leads to nothing":   {reservation.NetNS{Path: filepath.Join(dir, "nowhere"), Inode: 1}, has, false},
		"a path through a file":          {reservation.NetNS{Path: filepath.Join(dir, "plain", "pod"), Inode: 1}, has, false},
		"a path that cannot be followed": {reservation.NetNS{Path: loop, Inode: 1}, has, true},
	} {
		if got := machine.HasAddress(tc.in, tc.has); got != tc.want {
			t.Errorf("HasAddress with %s: %t", name, got)
		}
	}
	if none, err := machine.Interfaces(filepath.Join(dir, "nowhere")); err != nil || len(none) != 0 {
		t.Errorf("got %+v, %v from a directory that is not there", none, err)
	}
	if found, err := machine.Interfaces(dir); !errors.Is(err, unix.ELOOP) || len(found) != 1 { // the link is there by now
		t.Errorf("got %+v, %v beside an entry that cannot be followed", found, err)
	}
	if found, err := machine.Inside(dir); !errors.Is(err, unix.ELOOP) || len(found) != 1 {
		t.Errorf("got %v, %v beside an entry that cannot be followed", found, err)
	}
}

// TestAKernelThatDoesNotAnswer bounds a look into namespaces: verbs wait for the one that looks.
func TestAKernelThatDoesNotAnswer(t *testing.T) {
	answer := make(chan bool)
	defer close(answer)
	if found, inTime := machine.Within(time.Millisecond, func() bool { return <-answer }); found || inTime {
		t.Errorf("found %t, in time %t", found, inTime)
	}
	if found, inTime := machine.Within(time.Hour, func() bool { return true }); !found || !inTime {
		t.Errorf("found %t, in time %t", found, inTime)
	}
}

// makeNamespace makes a network namespace with one interface and binds it.
func makeNamespace(path string) error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "peer"}
	if err := netlink.LinkAdd(link); err != nil {
		return err
	}
	for _, text := range []string{"10.1.2.3/24", "10.1.2.3/32"} { // one address twice
		addr, err := netlink.ParseAddr(text)
		if err != nil {
			return err
		}
		if err := netlink.AddrAdd(link, addr); err != nil {
			return err
		}
	}
	return unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
}
