package main

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/test/bench/bed"
	"github.com/limpet-io/limpet/test/bench/measure"
)

// start is what a controller took to be ready beside all objects, and what it had then.
type start struct {
	Ready                time.Duration
	Processor, Server    time.Duration // of the controller and of the API server, until ready
	AtReady, Later, Most int64         // resident bytes: when ready, after the wait, and the highest
	Writes, Lists        int
}

// memory is what the scenes about one controller measure.
type memory struct {
	Fleet struct{ Nodes, Pods, Sets, Records, Workloads int }
	Etcd  int64 // bytes
	// First is the first start, which generates and records.
	First, Again start
	Recorded     time.Duration // from the first readiness to the last record
	Limit        string        // of the heap
	FirstWrites  int
	// Rest is the requests in a minute with nothing to do.
	RestRequests, RestWrites int
	RestProcessor            time.Duration
}

// measureMemory measures a usual mix: one pod of five belongs to a StatefulSet and is recorded.
func measureMemory(ctx context.Context, b *bench, r *results) (err error) {
	r.Memory, err = b.controllerBeside(ctx, fleet{nodes: b.size.Nodes, pods: b.size.Pods, recorded: 20, made: time.Now()})
	return err
}

// measureRecorded measures the worst case: each pod is recorded.
func measureRecorded(ctx context.Context, b *bench, r *results) error {
	m, err := b.controllerBeside(ctx, fleet{nodes: b.size.RecordedNodes, pods: b.size.RecordedPods, recorded: 100, made: time.Now()})
	if err == nil {
		r.AllRecorded[b.size.RecordedPods] = m
	}
	return err
}

// controllerBeside starts a controller beside all objects, twice.
func (b *bench) controllerBeside(ctx context.Context, f fleet) (*memory, error) {
	m := &memory{Limit: b.limitHeap(f.records())}
	m.Fleet.Nodes, m.Fleet.Pods, m.Fleet.Sets, m.Fleet.Records, m.Fleet.Workloads = f.nodes, f.pods, f.sets(), f.records(), f.workloads()
	err := b.fill(ctx, f)
	if err != nil {
		return nil, err
	}
	if m.First, err = b.measureStart(ctx, 0); err != nil {
		return nil, err
	}
	begin := time.Now()
	if err := b.recorded(ctx, f); err != nil {
		return nil, err
	}
	m.Recorded = time.Since(begin)
	first := b.controllers[0]
	if m.First.Later, m.First.Most, err = first.Memory(); err != nil {
		return nil, err
	}
	if err := first.Stop(); err != nil {
		return nil, err
	}
	counts, err := b.Audit.Next()
	if err != nil {
		return nil, err
	}
	m.FirstWrites = counts.Writes()
	if m.Etcd, err = b.etcdBytes(); err != nil {
		return nil, err
	}
	if m.Again, err = b.measureStart(ctx, min(b.size.Rest, 20*time.Second)); err != nil {
		return nil, err
	}
	return m, b.rest(ctx, m)
}

// fill writes a fleet.
func (b *bench) fill(ctx context.Context, f fleet) error {
	w := b.writer()
	for i := range f.namespaces() {
		if err := b.Client.Create(ctx, f.namespace(i)); err != nil {
			return fmt.Errorf("make namespace: %w", err)
		}
	}
	if err := w.write(ctx, "nodes", f.nodes, f.node); err != nil {
		return err
	}
	if err := w.write(ctx, "pools", f.nodes, f.pool); err != nil {
		return err
	}
	if err := w.write(ctx, "workloads", f.workloads(), f.workload); err != nil {
		return err
	}
	if f.recorded < 100 {
		if err := w.write(ctx, "ReplicaSets", f.workloads(), f.replicaSet); err != nil {
			return err
		}
	}
	if err := w.write(ctx, "pods", f.pods, f.pod); err != nil {
		return err
	}
	kept := f.recordedPods()
	err := w.write(ctx, "reservations", len(kept), func(i int) client.Object { return f.reservation(kept[i]) })
	if err != nil {
		return err
	}
	if err := b.visible(ctx, f.pods); err != nil {
		return err
	}
	if err := b.settle(ctx); err != nil {
		return err
	}
	if err := poll(ctx, longestWait, b.watchAsOthers); err != nil {
		return err
	}
	return b.settle(ctx)
}

// measureStart starts a controller, and looks again after a while.
func (b *bench) measureStart(ctx context.Context, later time.Duration) (s start, err error) {
	b.progress("start the controller")
	if _, err = b.Audit.Next(); err != nil {
		return s, err
	}
	before, err := b.serverProcessor()
	if err != nil {
		return s, err
	}
	p, err := b.startController(ctx)
	if err != nil {
		return s, err
	}
	s.Ready = p.Ready
	after, err := b.serverProcessor()
	if err != nil {
		return s, err
	}
	s.Server = after - before
	if s.AtReady, _, err = p.Memory(); err != nil {
		return s, err
	}
	if s.Processor, err = p.Processor(); err != nil {
		return s, err
	}
	b.progress("ready after %.1f s with %d MB; processor time: controller %.1f s, API server %.1f s", s.Ready.Seconds(), s.AtReady/1e6,
		s.Processor.Seconds(), s.Server.Seconds())
	if err := measure.Wait(ctx, later); err != nil {
		return s, err
	}
	if s.Later, s.Most, err = p.Memory(); err != nil {
		return s, err
	}
	counts, err := b.Audit.Next()
	s.Writes, s.Lists = counts.Writes(), counts.Lists()
	b.progress("%d MB, at most %d MB; %d writes", s.Later/1e6, s.Most/1e6, s.Writes)
	return s, err
}

// recorded waits until each pod of a StatefulSet has its record.
func (b *bench) recorded(ctx context.Context, f fleet) error {
	b.progress("wait for %d records", f.records())
	told := time.Now()
	return poll(ctx, longestWait, func(ctx context.Context) error {
		if err := measure.Wait(ctx, time.Second); err != nil {
			return err
		}
		var list v1beta1.PersistentPodStateList
		if err := b.Client.List(ctx, &list); err != nil {
			return err
		}
		n := 0
		for i := range list.Items {
			n += len(list.Items[i].Status.PodStates)
		}
		if time.Since(told) > 10*time.Second {
			told = time.Now()
			b.progress("%d of %d records in %d objects", n, f.records(), len(list.Items))
		}
		if n < f.records() {
			return fmt.Errorf("%d of %d pods are recorded: %w", n, f.records(), bed.ErrNotReady)
		}
		return nil
	})
}

// rest counts what a controller does in a minute with nothing to do.
func (b *bench) rest(ctx context.Context, m *memory) error {
	p := b.controllers[len(b.controllers)-1]
	before, err := p.Processor()
	if err != nil {
		return err
	}
	if err := measure.Wait(ctx, b.size.Rest); err != nil {
		return err
	}
	after, err := p.Processor()
	if err != nil {
		return err
	}
	counts, err := b.Audit.Next()
	if err != nil {
		return err
	}
	m.RestRequests, m.RestWrites, m.RestProcessor = counts.Requests(), counts.Writes(), after-before
	b.progress("at rest: %d requests, %d writes, %s of a processor in a minute", m.RestRequests, m.RestWrites, m.RestProcessor)
	return nil
}
