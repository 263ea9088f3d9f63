package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/limpet-io/limpet/pkg/persistence"
)

// shareLoad is a load whose pods ask for a reservation. Each DEL at the share displaces a reservation of another pod.
// host-local has no reservations, so the same load on a pool that was empty at the start is measured beside it.
var shareLoad = load{used: 10_000, processes: 32, turns: 4, turn: 3 * time.Second}

const shareLoadName = "32 at once at the share of reservations"

// shareResult holds the measurements of shareLoad; the zero value when it was not measured.
type shareResult struct {
	full, empty throughput
}

// measured reports whether the load ran.
func (r shareResult) measured() bool { return r.full.busy > 0 }

// ratio returns how many times as long a pair takes at the share.
func (r shareResult) ratio() float64 { return r.empty.perSecond() / r.full.perSecond() }

func runShare(ctx context.Context, b bench, l load) (shareResult, error) {
	var r shareResult
	dir, err := os.MkdirTemp(b.dir, "load-")
	if err != nil {
		return r, fmt.Errorf("measure: %w", err)
	}
	defer b.remove(dir)
	full, empty := newLimpet(b.binaries, dir), newLimpet(b.binaries, dir+"/empty")
	if err := errors.Join(asking(reserved)(ctx, full, l.used), asking(reserved)(ctx, empty, 0)); err != nil {
		return r, err
	}
	for i := range l.turns {
		b.progress(shareLoadName, i, l.turns)
		// A pod of a former turn would claim its own reservation.
		fresh := func(c *candidate) func(context.Context, string) (time.Duration, error) {
			return func(ctx context.Context, pod string) (time.Duration, error) {
				return c.pair(ctx, fmt.Sprintf("%s-turn-%d", pod, i))
			}
		}
		if err := errors.Join(l.generate(ctx, fresh(full), &r.full), l.generate(ctx, fresh(empty), &r.empty)); err != nil {
			return r, err
		}
	}
	return r, eachDisplaced(ctx, full, len(r.full.Sample))
}

var errNotDisplaced = errors.New("not each DEL displaced a reservation")

// eachDisplaced reports an error unless each DEL ended a reservation for its own.
func eachDisplaced(ctx context.Context, c *candidate, runs int) error {
	return persistence.New(persistence.Options{Dir: c.dir}).View(ctx, func(tx *persistence.Tx) error {
		usage, err := tx.PoolUsage(network)
		if err == nil && usage.Displaced != uint64(runs) { //nolint:gosec // runs are counted from 0
			err = fmt.Errorf("%w: %d of %d", errNotDisplaced, usage.Displaced, runs)
		}
		return err
	})
}

// rows prints the load as a table of its own.
func (r shareResult) rows(w *strings.Builder) {
	if !r.measured() {
		return
	}
	w.WriteString("\nAt the share, each pod asks for a reservation, and each DEL displaces one of another pod. The other row has the same load on a pool that was empty at the start.\n\n| at once | reserved | limpet-ipam | a pair |\n|---|---|---|---|\n")
	fmt.Fprintf(w, "| %d | %d, the share | %.1f/s | %s |\n", shareLoad.processes, shareLoad.used, r.full.perSecond(), r.full.seconds())
	fmt.Fprintf(w, "| %d | 0 at the start | %.1f/s | %s |\n", shareLoad.processes, r.empty.perSecond(), r.empty.seconds())
}
