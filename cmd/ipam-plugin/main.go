// Command ipam-plugin is limpet-ipam, the CNI IPAM plugin that a container runtime
// executes for each pod. It hands out addresses as host-local does, and can reserve them.
// With a command, such as list, it shows or repairs the state of the node
// (docs/operate/operations.md).
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"time"

	"github.com/limpet-io/limpet/internal/cni"
	"github.com/limpet-io/limpet/internal/cni/coexist"
	"github.com/limpet-io/limpet/internal/cni/node"
	"github.com/limpet-io/limpet/internal/cni/recovery"
	"github.com/limpet-io/limpet/internal/cni/skel"
	"github.com/limpet-io/limpet/internal/ipamtool"
	"github.com/limpet-io/limpet/internal/machine"
	limpetversion "github.com/limpet-io/limpet/internal/version"
)

// about is told to a person who starts the plugin by hand.
const about = "limpet-ipam: IPAM plugin that keeps a pod's addresses reserved while it is rebuilt; limpet-ipam --help shows what it does by hand"

func main() {
	growStack(len(os.Args))
	os.Exit(run())
}

func run() int {
	now, clockErr := machine.ReadClocks(machine.BootIDPath, time.Now)
	parent := os.Getppid()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	host := node.Node{
		Now: now, NetNS: machine.StatNetNS, Has: machine.HasAddress, Inside: func() ([]netip.Addr, error) { return machine.Inside(machine.NetNSDir) },
		ResultsDir: cni.DefaultResultsDir, OtherResultsDirs: cni.OtherResultsDirs(),
	}
	hostLocal := &coexist.Neighbour{Node: host}
	rebuilder := &recovery.Recovery{
		Node: host, Others: hostLocal, Log: log,
		Interfaces: func() ([]machine.Interface, error) {
			found, err := machine.Interfaces(machine.NetNSDir)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return nil, err
			}
			return found, nil // a state is made of what can be seen: a node without one stands still
		},
	}
	plugin := &cni.Plugin{
		Node: host, Rebuilt: rebuilder.Open, HostLocal: hostLocal.Open, Rebuild: rebuilder.Rebuild,
		Forget: machine.ForgetNeighbours, ForgetOwner: machine.ForgetOwner, UseOf: machine.UseOf, Ask: machine.Ask,
		Orphaned: machine.Orphaned(parent, os.Stdout), Caller: parent, ClockErr: clockErr, Stdout: os.Stdout, Log: log, LogFile: cni.DefaultLogFile,
		Await: func(w cni.Wait) {
			machine.AwaitRemoval(w.Path, w.Markers, w.AtMost, w.Over)
		},
	}
	if len(os.Args) > 1 && os.Getenv("CNI_COMMAND") == "" {
		if clockErr != nil {
			fmt.Fprintln(os.Stderr, "limpet-ipam:", clockErr)
			return ipamtool.ExitFailed
		}
		tool := &ipamtool.Tool{
			Now: now, NetNS: machine.StatNetNS, Running: rebuilder.Running, Rebuild: rebuilder.RebuildIn, Log: plugin.LogByHand,
			Version: limpetversion.String(), Stdout: os.Stdout, Stderr: os.Stderr,
		}
		return tool.Run(context.Background(), os.Args[1:])
	}
	process := skel.Process{Getenv: os.Getenv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	if err := process.Run(plugin.Funcs(), about); err != nil {
		if printErr := err.Print(); printErr != nil {
			fmt.Fprintln(os.Stderr, "limpet-ipam: write error:", printErr)
		}
		return 1
	}
	return 0
}
