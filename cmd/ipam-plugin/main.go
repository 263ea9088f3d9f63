// Command ipam-plugin is limpet-ipam, the CNI IPAM plugin that a container runtime
// executes for each pod: host-local's job, with reservations. Given a command, it shows
// and mends the node's state instead (docs/operate/operations.md).
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/containernetworking/cni/pkg/version"

	"github.com/limpet-io/limpet/internal/cniplugin"
	"github.com/limpet-io/limpet/internal/ipamtool"
	"github.com/limpet-io/limpet/internal/machine"
	"github.com/limpet-io/limpet/internal/skel"
	limpetversion "github.com/limpet-io/limpet/internal/version"
)

func main() {
	os.Exit(run())
}

func run() int {
	now, err := machine.ReadClocks(machine.BootIDPath, time.Now)
	if err != nil {
		fmt.Fprintln(os.Stderr, "limpet-ipam:", err)
		return 1
	}
	parent := os.Getppid()
	plugin := &cniplugin.Plugin{
		Now:        now,
		NetNS:      machine.StatNetNS,
		Interfaces: func() []machine.Interface { return machine.Interfaces(machine.NetNSDir) },
		Forget:     machine.ForgetNeighbours,
		Orphaned:   func() bool { return os.Getppid() != parent },
		ResultsDir: cniplugin.DefaultResultsDir,
		Stdout:     os.Stdout,
		Log:        slog.New(slog.NewTextHandler(os.Stderr, nil)),
		LogFile:    cniplugin.DefaultLogFile,
	}
	if len(os.Args) > 1 && os.Getenv("CNI_COMMAND") == "" {
		tool := &ipamtool.Tool{
			Now: now, NetNS: machine.StatNetNS, Running: plugin.Running, Rebuild: plugin.RebuildIn, Log: plugin.LogByHand,
			Version: limpetversion.String(), Stdout: os.Stdout, Stderr: os.Stderr,
		}
		return tool.Run(context.Background(), os.Args[1:])
	}
	process := &skel.Plugin{
		Funcs: plugin.Funcs(), Versions: version.All,
		About:  "limpet-ipam: IPAM plugin that keeps a pod's addresses reserved while it is rebuilt; limpet-ipam --help shows what it does by hand",
		Getenv: os.Getenv, OwnNetNS: machine.OwnNetNS, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
	}
	return process.Run()
}
