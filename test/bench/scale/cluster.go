package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/limpet-io/limpet/test/bench/bed"
	"github.com/limpet-io/limpet/test/bench/measure"
)

// place is where things are.
type place struct {
	bed.Place
	data string
}

// bench is a running cluster.
type bench struct {
	bed.Bed
	size       scale
	scene      string
	begin      time.Time
	endWatches context.CancelFunc

	controllers []*bed.Controller
	raw         rest.Interface
	restarted   *exec.Cmd // the API server that was started again
	heapLimit   string    // of the controllers
}

// start brings up etcd and the API server.
func (b *bench) start(ctx context.Context) error {
	b.progress("start")
	if err := b.Start(); err != nil {
		return err
	}
	clients, err := kubernetes.NewForConfig(b.Config)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	b.raw = clients.Discovery().RESTClient()
	return b.Install(ctx, "controller/rbac.yaml", "daemonset/rbac.yaml")
}

// limitHeap sets GOMEMLIMIT of the controllers, by default to what docs/operate/operations.md advises for a large cluster by
// its recorded pods.
func (b *bench) limitHeap(records int) string {
	b.heapLimit = b.size.HeapLimit
	switch {
	case b.heapLimit != "":
	case records > 60_000:
		b.heapLimit = "1800MiB"
	case records > 30_000:
		b.heapLimit = "520MiB"
	default: // as in deploy/controller/deployment.yaml
		b.heapLimit = "400MiB"
	}
	return b.heapLimit
}

// startController runs a further controller, and waits until it is ready.
func (b *bench) startController(ctx context.Context) (*bed.Controller, error) {
	p, err := b.StartController(ctx, fmt.Sprintf("controller-%d.log", len(b.controllers)), b.heapLimit, longestWait)
	if p != nil {
		b.controllers = append(b.controllers, p)
	}
	return p, err
}

// stop ends the processes.
func (b *bench) stop() error {
	var err error
	for _, p := range b.controllers {
		err = errors.Join(err, p.Stop())
	}
	b.endWatches() // the API server would wait for them, and one that was started again ends
	if b.restarted != nil {
		_ = b.restarted.Wait() // a signal ended it
	}
	if b.Server != nil {
		err = errors.Join(err, b.Server.Stop())
	}
	return err
}

// told adds to an error what the controllers had to say.
func (b *bench) told(err error) error {
	for _, p := range b.controllers {
		err = p.Told(err)
	}
	return err
}

// progress tells a person that something goes on.
func (b *bench) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%5.0fs  %s: %s\n", time.Since(b.begin).Seconds(), b.scene, fmt.Sprintf(format, args...))
}

// longestWait is the bound for each change that the cluster makes.
const longestWait = 5 * time.Minute

// poll asks until there is no error, or returns the last one.
func poll(ctx context.Context, bound time.Duration, ask func(context.Context) error) error {
	return measure.Poll(ctx, bound, 50*time.Millisecond, ask)
}
