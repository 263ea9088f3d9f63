package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/test/bench/measure"
)

// work is what the scene with two controllers measures.
type work struct {
	Fleet    struct{ Nodes, Pods, Records int }
	Etcd     int64
	Seconds  float64 // of rest
	Rest     counts
	Rebuilds int
	Rebuild  counts
	Written  map[string]int // the writes of the rebuilds, by what they are
	// Alone is the requests of rebuilds of which each is the only one of its workload.
	Alones       int
	Alone        counts
	AloneWritten map[string]int
	// Calm is the times of rebuilds with two controllers, Failed those while the leader is killed.
	CalmOpened, CalmRecorded, FailedOpened, FailedRecorded quantiles
	// After is the requests after the API server was ready again.
	After          counts
	AfterSeconds   float64
	Restarts       int           // of controllers, because of the API server
	FirstAfter     time.Duration // from the readiness of the API server to the record of a pod
	Resident, Most int64         // bytes of the larger controller
}

// counts are requests of both controllers.
type counts struct{ Requests, Writes int }

var errNoLeader = errors.New("no controller leads")

// measureWork takes a cluster with two controllers through rest, rebuilds, a fail-over
// and a restart of the API server.
func measureWork(ctx context.Context, b *bench, r *results) error {
	f := fleet{nodes: b.size.WorkNodes, pods: b.size.WorkPods, recorded: 20, made: time.Now()}
	b.limitHeap(f.records())
	w := &work{}
	w.Fleet.Nodes, w.Fleet.Pods, w.Fleet.Records = f.nodes, f.pods, f.records()
	p := &player{b: b, f: f, pods: f.recordedPods()}
	for _, step := range []struct {
		name string
		run  func(context.Context, *player, *work) error
	}{
		{"begin", b.beginWork}, {"rest", b.restAll}, {"rebuild", b.rebuildAll}, {"rebuild alone", b.rebuildAlone}, {"fail over", b.failOver}, {"restart the API server", b.outlive},
	} {
		b.progress("%s", step.name)
		if err := step.run(ctx, p, w); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	r.Work = w
	return nil
}

func (b *bench) beginWork(ctx context.Context, p *player, w *work) error {
	if err := b.fill(ctx, p.f); err != nil {
		return err
	}
	for range 2 {
		if _, err := b.startController(ctx); err != nil {
			return err
		}
	}
	if err := b.recorded(ctx, p.f); err != nil {
		return err
	}
	if err := measure.Wait(ctx, min(b.size.Rest, 20*time.Second)); err != nil { // what a start leaves to do
		return err
	}
	_, err := b.Audit.Next()
	if err != nil {
		return err
	}
	w.Etcd, err = b.etcdBytes()
	return err
}

// countAll counts the requests since the last call.
func (b *bench) countAll() (counts, error) {
	t, err := b.Audit.Next()
	return counts{t.Requests(), t.Writes()}, err
}

func (b *bench) restAll(ctx context.Context, _ *player, w *work) (err error) {
	begin := time.Now()
	if err := measure.Wait(ctx, b.size.Rest); err != nil {
		return err
	}
	w.Seconds = time.Since(begin).Seconds()
	w.Rest, err = b.countAll()
	return err
}

// rebuildRate is how many pods are rebuilt in a second.
const rebuildRate = 10

func (b *bench) rebuildAll(ctx context.Context, p *player, w *work) (err error) {
	opened, recorded, err := p.rebuilds(ctx, b.size.Rebuilds, rebuildRate)
	if err != nil {
		return err
	}
	w.Rebuilds, w.CalmOpened, w.CalmRecorded = len(opened), quantilesOf(opened), quantilesOf(recorded)
	w.Rebuild, w.Written, err = b.countAfter(ctx, min(b.size.Rest*4/3, pin.UsualPace.Between+4*pin.UsualPace.Returned))
	return err
}

// countAfter counts the requests when the last events are there.
func (b *bench) countAfter(ctx context.Context, late time.Duration) (counts, map[string]int, error) {
	if err := measure.Wait(ctx, late); err != nil {
		return counts{}, nil, err
	}
	t, err := b.Audit.Next()
	return counts{t.Requests(), t.Writes()}, t.Written(), err
}

// mostAlone is how many pods are rebuilt alone.
const mostAlone = 20

// rebuildAlone rebuilds one pod of each of some workloads.
func (b *bench) rebuildAlone(ctx context.Context, p *player, w *work) (err error) {
	alone := p.takeOneOfEach(mostAlone)
	w.Alones = len(alone.pods)
	if _, _, err = alone.rebuilds(ctx, w.Alones, rebuildRate); err != nil {
		return err
	}
	w.Alone, w.AloneWritten, err = b.countAfter(ctx, min(b.size.Rest, 4*pin.UsualPace.Returned)) // these workloads had no event before
	return err
}

// failOver kills the leader in the middle of rebuilds.
func (b *bench) failOver(ctx context.Context, p *player, w *work) error {
	at, err := b.leader(ctx)
	if err != nil {
		return err
	}
	killed := make(chan error, 1)
	go func() {
		err := measure.Wait(ctx, min(3*time.Second, b.size.Rest/4))
		if err == nil {
			err = b.controllers[at].End(syscall.SIGKILL)
		}
		killed <- err
	}()
	opened, recorded, err := p.rebuilds(ctx, b.size.Rebuilds, rebuildRate)
	w.FailedOpened, w.FailedRecorded = quantilesOf(opened), quantilesOf(recorded)
	if err = errors.Join(err, <-killed); err != nil {
		return err
	}
	b.controllers = append(b.controllers[:at], b.controllers[at+1:]...)
	_, err = b.startController(ctx)
	return err
}

// leader finds the controller that leads.
func (b *bench) leader(ctx context.Context) (at int, err error) {
	err = poll(ctx, time.Minute, func(ctx context.Context) error {
		for i, p := range b.controllers {
			text, err := p.Scrape(ctx)
			if err != nil {
				return err
			}
			if bytes.Contains(text, []byte("\nlimpet_leader 1\n")) {
				at = i
				return nil
			}
		}
		return errNoLeader
	})
	return at, err
}

// outlive restarts the API server and counts what comes in the first minute.
func (b *bench) outlive(ctx context.Context, p *player, w *work) error {
	if _, err := b.countAll(); err != nil {
		return err
	}
	if err := b.restartServer(ctx, min(10*time.Second, b.size.Rest)); err != nil {
		return err
	}
	begin := time.Now()
	_, _, err := p.rebuilds(ctx, 1, 1)
	w.FirstAfter = time.Since(begin)
	if err != nil {
		return err
	}
	if err := measure.Wait(ctx, b.size.Rest-time.Since(begin)); err != nil {
		return err
	}
	w.AfterSeconds = time.Since(begin).Seconds()
	if w.After, err = b.countAll(); err != nil {
		return err
	}
	for _, c := range b.controllers {
		if c.Ended() {
			w.Restarts++
			continue
		}
		now, highest, err := c.Memory()
		if err != nil {
			return err
		}
		w.Resident, w.Most = max(w.Resident, now), max(w.Most, highest)
	}
	return nil
}
