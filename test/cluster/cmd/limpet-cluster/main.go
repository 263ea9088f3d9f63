// Command limpet-cluster builds the parts of real three-node clusters on this machine, switches their nodes, and takes them
// down.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

const usage = `limpet-cluster serves the real three-node clusters of make demo, make cluster-up and the tests, from Go modules.

  limpet-cluster down [--name N]
                              stop the cluster and remove its files; works also after an interrupted start
  limpet-cluster node [--name N] on|off NODE
                              start a node, or switch it off without a shutdown
  limpet-cluster node [--name N] stop|start NODE SERVICE
                              stop or start containerd, kubelet or kube-proxy on it
  limpet-cluster node [--name N] exec NODE -- CMD…
                              run a program on it
  limpet-cluster images --out FILE [--arch ARCHITECTURE] NAME=BINARY[,BINARY…]…
                              make container images of static binaries
  limpet-cluster multiarch --out FILE --name NAME ARCHITECTURE=BINARY[,BINARY…]…
                              make one image of several architectures, as an OCI archive
  limpet-cluster assets --dir DIR PROGRAM…
                              fill DIR with one link for each named program, such as etcd or
                              bridge, and remove other links; assets --help lists the programs
  limpet-cluster build        build the components of a cluster that are not in the cache, and
                              print the directory of each
  limpet-cluster version      print the version of this program and of the components that it builds

The cache is $LIMPET_CACHE, or limpet below the user's cache directory. Kubernetes is the newest version that this program
knows, or that of the minor version in $LIMPET_KUBERNETES; version lists them.
`

// command is one verb of the command line.
type command func(ctx context.Context, args []string) error

var commands = map[string]command{
	"down": down, "node": node, "images": images, "multiarch": multiarch, "assets": assets, "build": buildAll,
	"version": version,
	// for this program's own use
	"forward": forward, "control-exec": controlExec, "node-spawn": nodeSpawn, "node-init": nodeInit,
}

func main() {
	os.Exit(run())
}

func run() int {
	if len(os.Args) > 1 && slices.Contains([]string{"help", "-h", "--help"}, os.Args[1]) {
		fmt.Print(usage)
		return 0
	}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprint(os.Stderr, usage)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := commands[os.Args[1]](ctx, os.Args[2:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(os.Stderr, "limpet-cluster:", err)
		return 1
	}
	return 0
}
