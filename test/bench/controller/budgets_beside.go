package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/ledger"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/test/bench/measure"
)

// floor is what requests without any guard took while a step ran: no admission that waits for such
// a request can be faster.
type floor struct {
	reads  measure.Sample // of a pod
	writes measure.Sample // of a book as large as the one of the large budget
	lists  measure.Sample // of the PodDisruptionBudgets of a namespace
	late   measure.Sample // how late a timer of this program fired
}

// besideEach is the time between two measurements of a floor. One of four has a list.
const besideEach = 125 * time.Millisecond

// beside measures the floor while a step runs, by pods of a service that the step leaves alone.
func (g *guarding) beside(ctx context.Context, of *service, run func(context.Context) error) (floor, error) {
	var f floor
	done, failed := make(chan struct{}), make(chan error, 1)
	go func() { failed <- g.measureFloor(ctx, of, &f, done) }()
	err := run(ctx)
	close(done)
	return f, errors.Join(err, <-failed)
}

func (g *guarding) measureFloor(ctx context.Context, of *service, f *floor, done <-chan struct{}) error {
	tick := time.NewTicker(besideEach)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-done:
			return nil
		case due := <-tick.C:
			f.late = append(f.late, time.Since(due))
		}
		timer := time.Now()
		time.Sleep(time.Millisecond)
		f.late = append(f.late, time.Since(timer)-time.Millisecond)
		pod := of.pod(i)
		begin := time.Now()
		if err := g.Client.Get(ctx, client.ObjectKeyFromObject(pod), &corev1.Pod{}); err != nil {
			return fmt.Errorf("read pod: %w", err)
		}
		f.reads = append(f.reads, time.Since(begin))
		took, err := g.writeBook(ctx)
		if err != nil {
			return err
		}
		f.writes = append(f.writes, took)
		if i%4 > 0 {
			continue
		}
		begin = time.Now()
		if err := g.Client.List(ctx, &policyv1.PodDisruptionBudgetList{}, client.InNamespace(pod.Namespace)); err != nil {
			return fmt.Errorf("list PodDisruptionBudgets: %w", err)
		}
		f.lists = append(f.lists, time.Since(begin))
	}
}

// makeBook makes a book as large as the one of the large budget, which no budget uses.
func (g *guarding) makeBook(ctx context.Context) error {
	book := &limpetv1alpha1.DisruptionBook{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "copy"}}
	at := metav1.NewMicroTime(time.Now())
	uid := func(i int) types.UID { return types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i)) }
	for i := range g.size.units { // what is on its way at a time
		book.Entries = append(book.Entries, limpetv1alpha1.DisruptionEntry{
			UID: uid(i), Pod: fmt.Sprintf("web-5d4f8c7b6-%d", i), Use: string(ledger.Gone), Vector: "evict", By: "system:admin", Since: at, Expires: at, Version: "123456",
		})
	}
	for i := range ledger.MostWaiting {
		book.Waiting = append(book.Waiting, limpetv1alpha1.WaitingRequest{
			UID: uid(i), Pod: fmt.Sprintf("web-5d4f8c7b6-%d", i), By: "system:admin", Since: at, Last: at,
		})
	}
	for i := range ledger.MostDecisions {
		book.Decisions = append(book.Decisions, limpetv1alpha1.BookedDecision{
			Time: at, Pod: fmt.Sprintf("web-5d4f8c7b6-%d", i), Budgets: []string{"web"}, Vector: "evict", Verdict: "Refused", Reason: "BudgetExhausted", By: "system:admin",
		})
	}
	if err := g.Client.Create(ctx, book); err != nil {
		return fmt.Errorf("make book: %w", err)
	}
	g.book = book
	return nil
}

// writeBook writes that book once, and returns how long that took.
func (g *guarding) writeBook(ctx context.Context) (time.Duration, error) {
	g.book.Seen = strings.Repeat("1", 1+len(g.book.Seen)%9)
	begin := time.Now()
	if err := g.Client.Update(ctx, g.book); err != nil {
		return 0, fmt.Errorf("write book: %w", err)
	}
	return time.Since(begin), nil
}

// bareWrites writes the book at the same rate, and nothing else.
func (g *guarding) bareWrites(ctx context.Context, r *budgetReport) error {
	tick := time.NewTicker(time.Second / time.Duration(g.size.rate))
	defer tick.Stop()
	for range g.size.few() { // one after the other, as each needs the version of the one before
		<-tick.C
		took, err := g.writeBook(ctx)
		if err != nil {
			return err
		}
		r.bare = append(r.bare, took)
	}
	return nil
}
