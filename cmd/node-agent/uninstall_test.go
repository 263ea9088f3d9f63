package main

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestRoutesStayUntilTheUninstallationIsDone deletes the pod of the DaemonSet limpet-uninstall while a pod of the node is
// attached, and once more when none is. Running pods need the routes.
func TestRoutesStayUntilTheUninstallationIsDone(t *testing.T) {
	const protocol = 0x4c // that of the agent
	inNetNS(t)
	to := &net.IPNet{IP: net.IPv4(10, 9, 2, 0), Mask: net.CIDRMask(24, 32)}
	refuses := &netlink.Route{Dst: to, Protocol: protocol, Type: unix.RTN_UNREACHABLE, Priority: 1<<32 - 2} // as the agent writes it
	if err := netlink.RouteAdd(refuses); err != nil {
		t.Fatal(err)
	}
	routesAre := func(when string, want int) {
		t.Helper()
		all, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Protocol: protocol}, netlink.RT_FILTER_PROTOCOL)
		if err != nil || len(all) != want {
			t.Errorf("%s: routes %v, %v; want %d", when, all, err, want)
		}
	}
	state := t.TempDir()
	attach(t, state, "u0")
	for _, step := range []struct {
		says string
		left int // routes
	}{{"still attached", 1}, {"Uninstalled Limpet", 0}} {
		cmd, log := startUninstall(t, state)
		testenv.Eventually(t, func() error {
			if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), step.says) {
				return errors.New(string(text))
			}
			return nil
		})
		routesAre(step.says, 1)
		if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil {
			t.Error(err)
		}
		routesAre(step.says+", and the pod ends", step.left)
		detach(t, state)
	}
}

// inNetNS runs the rest of the test, and the processes that it starts, in a network namespace of their own.
func inNetNS(t *testing.T) {
	t.Helper()
	runtime.LockOSThread() // and never unlocked: the thread ends with the test
	own, err := netns.New()
	if err != nil {
		t.Fatalf("make a network namespace, which needs root: %v", err)
	}
	t.Cleanup(func() { _ = own.Close() })
}

// startUninstall runs the command of the DaemonSet limpet-uninstall, and returns the file of its log.
func startUninstall(t *testing.T, state string) (cmd *exec.Cmd, log string) {
	t.Helper()
	dir := t.TempDir()
	file, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(os.Args[0], "uninstall", "--wait", "--address=0", "--plugin="+os.Args[0], "--cni-bin-dir="+dir, "--cni-conf-dir="+dir,
		"--state-dir="+state, "--netns-dir="+dir)
	cmd.Env = append(os.Environ(), agentVar+"=1", "NODE_NAME=n1")
	cmd.Stdout, cmd.Stderr = file, file
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill() // the test has failed already
			_ = cmd.Wait()
		}
	})
	return cmd, file.Name()
}

// detach ends the pod of attach.
func detach(t *testing.T, state string) {
	t.Helper()
	err := persistence.New(persistence.Options{Dir: state}).Update(t.Context(), func(tx *persistence.Tx) error {
		return tx.DeleteAttachment(reservation.AttachmentID{Network: "net", ContainerID: "c", IfName: "eth0"})
	})
	if err != nil {
		t.Fatal(err)
	}
}
