// Package simulation runs schedules of disruptions against the decisions of budgets.
//
// A schedule has an API server, two replicas of the webhook with caches that are behind, a
// leader, kubelets, a workload's controller, and people who drain, delete and change pods.
// Time is simulated, and all that happens follows from one seed. The answers come from
// internal/budget and internal/platform/ledger. The package test/disruptions checks what the API server writes.
package simulation

import (
	"container/heap"
	"iter"
	"math/rand/v2"
	"time"
)

// simulated is a clock with processes that wait for it. One process runs at a time.
type simulated struct {
	now     time.Time
	random  *rand.Rand
	waiting queue
	started int
}

// process is a function that waits. Each wait lets other processes run.
type process struct {
	*simulated
	yield func(time.Time) bool
}

// ended unwinds a process when the schedule ends.
type ended struct{}

// start runs a function beside all others, after a delay.
func (s *simulated) start(delay time.Duration, run func(p *process)) {
	next, stop := iter.Pull(func(yield func(time.Time) bool) {
		defer func() {
			if r := recover(); r != nil {
				if _, ok := r.(ended); !ok {
					panic(r)
				}
			}
		}()
		run(&process{s, yield})
	})
	s.push(s.now.Add(delay), next, stop)
}

func (s *simulated) push(at time.Time, next func() (time.Time, bool), stop func()) {
	s.started++
	heap.Push(&s.waiting, &timer{at: at, order: s.started, next: next, stop: stop})
}

// run runs all processes until the end, and then unwinds those that still wait.
func (s *simulated) run(end time.Time) {
	for s.waiting.Len() > 0 {
		t := heap.Pop(&s.waiting).(*timer)
		if t.at.After(end) {
			t.stop()
			continue
		}
		s.now = t.at
		if at, ok := t.next(); ok {
			s.push(at, t.next, t.stop)
		}
	}
}

// sleep waits for a time.
func (p *process) sleep(d time.Duration) {
	if !p.yield(p.now.Add(d)) {
		panic(ended{})
	}
}

// between returns a random time in a range.
func (s *simulated) between(low, high time.Duration) time.Duration {
	return low + time.Duration(s.random.Int64N(int64(high-low)+1))
}

// sometimes is true with a probability.
func (s *simulated) sometimes(probability float64) bool { return s.random.Float64() < probability }

// timer is a process that waits until a time. Of two that wait until the same time, the one
// that began to wait first is first.
type timer struct {
	at    time.Time
	order int
	next  func() (time.Time, bool)
	stop  func()
}

type queue []*timer

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool {
	if !q[i].at.Equal(q[j].at) {
		return q[i].at.Before(q[j].at)
	}
	return q[i].order < q[j].order
}

func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push is of heap.Interface.
func (q *queue) Push(t any) { *q = append(*q, t.(*timer)) }

// Pop is of heap.Interface.
func (q *queue) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}
