package chaos_test

import (
	"bufio"
	"net/netip"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/test/e2e/chaos"
)

// sandboxes makes a namespace with interfaces to two others: both have 10.9.0.5, and the second has 10.9.0.6, too. The
// script runs until its process group is killed.
const sandboxes = `set -e
for i in 1 2; do
  unshare -n sleep 600 & pid=$!
  until [ "$(readlink /proc/$pid/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do :; done
  ip link add veth$i type veth peer name eth0 netns $pid
  ip link set veth$i up
  nsenter -t $pid -n ip link set eth0 up
  nsenter -t $pid -n ip address add 10.9.0.5/32 dev eth0
done
nsenter -t $pid -n ip address add 10.9.0.6/32 dev eth0
echo ready
wait`

// TestTwoSandboxesAnswer asks by ARP for an address of two sandboxes, for one of one, and for one of none.
func TestTwoSandboxesAnswer(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "unshare", "-n", "sh", "-c", sandboxes)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // the context ends it
	if said, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("%q, %v (root is needed)", said, err)
	}
	two, one, none := netip.MustParseAddr("10.9.0.5"), netip.MustParseAddr("10.9.0.6"), netip.MustParseAddr("10.9.0.7")
	for end := time.Now().Add(time.Minute); ; {
		found, err := chaos.AskByARP(cmd.Process.Pid, []netip.Addr{two, one, none}, 200*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(found[two])
		if slices.Equal(found[two], []string{"veth1", "veth2"}) && slices.Equal(found[one], []string{"veth2"}) && len(found) == 2 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("answers: %v", found)
		}
	}
}
