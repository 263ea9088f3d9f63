package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/limpet-io/limpet/test/bench/bed"
	"github.com/limpet-io/limpet/test/bench/measure"
)

// bench is a running cluster.
type bench struct {
	bed.Bed
	size       scale
	begin      time.Time
	endWatches context.CancelFunc

	controlled *bed.Controller
	first      *bed.Controller // when a second replica runs
	records    *records
	cluster    cluster
}

// start brings up the API server and the controller.
func (b *bench) start(ctx context.Context) error {
	b.progress("start")
	err := b.Start()
	if err == nil {
		err = b.Install(ctx, "controller/rbac.yaml", "controller/kept.yaml")
	}
	if err != nil {
		return err
	}
	if b.records, err = followRecords(ctx, b); err != nil {
		return err
	}
	if err := b.startController(ctx); err != nil {
		return err
	}
	return b.pointWebhooks(ctx, b.controlled.WebhookPort)
}

// startController runs the controller as the Deployment does, and waits until it is ready.
func (b *bench) startController(ctx context.Context) error {
	p, err := b.StartController(ctx, "controller.log", "400MiB", time.Minute)
	if p != nil {
		b.controlled = p
	}
	return err
}

// stop ends the processes, and adds to an error what the controller had to say.
func (b *bench) stop(err error) error {
	if b.controlled != nil {
		err = errors.Join(b.controlled.Told(err), b.controlled.Stop())
	}
	if b.first != nil {
		err = errors.Join(err, b.first.Stop())
	}
	b.endWatches() // the API server would wait for them
	if b.Server != nil {
		err = errors.Join(err, b.Server.Stop())
	}
	return err
}

// progress tells a person that something goes on.
func (b *bench) progress(what string) {
	fmt.Fprintf(os.Stderr, "%5.0fs  %s\n", time.Since(b.begin).Seconds(), what)
}

// longestWait is the bound for each change that the cluster makes.
const longestWait = 3 * time.Minute

// poll asks until there is no error, or returns the last one.
func poll(ctx context.Context, ask func(context.Context) error) error {
	return measure.Poll(ctx, longestWait, 20*time.Millisecond, ask)
}
