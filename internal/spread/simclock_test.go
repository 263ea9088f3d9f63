package spread_test

import (
	"container/heap"
	"iter"
	"math/rand/v2"
	"time"
)

// timeline is a simulated clock with processes that wait for it. One process runs at a time, so that all that
// happens follows from one seed.
type timeline struct {
	now     time.Time
	random  *rand.Rand
	waiting timers
	started int
}

// process is a function that waits. Each wait lets other processes run.
type process struct {
	*timeline
	yield func(time.Time) bool
}

// finished unwinds a process when the schedule ends.
type finished struct{}

// start runs a function beside all others, after a delay.
func (l *timeline) start(delay time.Duration, run func(p *process)) {
	next, stop := iter.Pull(func(yield func(time.Time) bool) {
		defer func() {
			if r := recover(); r != nil && r != (finished{}) {
				panic(r)
			}
		}()
		run(&process{l, yield})
	})
	l.push(&timer{at: l.now.Add(delay), next: next, stop: stop})
}

func (l *timeline) push(t *timer) {
	l.started++
	t.order = l.started
	heap.Push(&l.waiting, t)
}

// run runs all processes until the end, and then unwinds those that still wait.
func (l *timeline) run(end time.Time) {
	for l.waiting.Len() > 0 {
		t := heap.Pop(&l.waiting).(*timer)
		if t.at.After(end) {
			t.stop()
			continue
		}
		l.now = t.at
		if at, ok := t.next(); ok {
			l.push(&timer{at: at, next: t.next, stop: t.stop})
		}
	}
}

// sleep waits for a time.
func (p *process) sleep(d time.Duration) {
	if !p.yield(p.now.Add(d)) {
		panic(finished{})
	}
}

// between returns a random time in a range.
func (l *timeline) between(low, high time.Duration) time.Duration {
	return low + time.Duration(l.random.Int64N(int64(high-low)+1))
}

// sometimes is true with a probability.
func (l *timeline) sometimes(probability float64) bool { return l.random.Float64() < probability }

// timer is a process that waits until a time. Of two that wait until the same time, the one that began to wait
// first is first.
type timer struct {
	at    time.Time
	order int
	next  func() (time.Time, bool)
	stop  func()
}

type timers []*timer

func (q timers) Len() int { return len(q) }

func (q timers) Less(i, j int) bool {
	if !q[i].at.Equal(q[j].at) {
		return q[i].at.Before(q[j].at)
	}
	return q[i].order < q[j].order
}

func (q timers) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push is of heap.Interface.
func (q *timers) Push(t any) { *q = append(*q, t.(*timer)) }

// Pop is of heap.Interface.
func (q *timers) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}
