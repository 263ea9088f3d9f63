package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/test/bench/measure"
)

// floorNamespace has a spread, so that its pods are sent to the webhook. The relay answers for
// them without a look at them.
const floorNamespace = "floor"

// floorRate is how often a second the floors are measured beside a step: seldom, so that they cost
// little.
const floorRate = 10

// floors are what no program can go below: the times of the least requests beside a step.
type floors struct {
	write, read measure.Sample // of a book as large as that of the step
	ask         measure.Sample // exchanges with a webhook that only answers
}

// standOn prepares the floors: a namespace whose pods are sent, and a webhook that only answers.
func (g *spreading) standOn(ctx context.Context) (err error) {
	if g.floor, err = g.gather(ctx, floorNamespace, 1, true); err != nil {
		return err
	}
	return g.relay.standOn(ctx, g.bench)
}

// copyBook makes a book with as many entries as the one of the large spread has at the rate.
func (g *spreading) copyBook(ctx context.Context) error {
	var list limpetv1alpha1.DisruptionBookList
	if err := g.Client.List(ctx, &list, client.InNamespace(g.large.set.Namespace)); err != nil {
		return fmt.Errorf("list books: %w", err)
	}
	if len(list.Items) != 1 {
		return fmt.Errorf("%d books of one spread", len(list.Items)) //nolint:err113 // for a person
	}
	g.copied = &list.Items[0]
	g.copied.ObjectMeta = metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "copy"}
	g.copied.Entries = g.copied.Entries[:min(len(g.copied.Entries), lingering*g.size.rate)]
	if err := g.Client.Create(ctx, g.copied); err != nil {
		return fmt.Errorf("copy book: %w", err)
	}
	return nil
}

// lingering is for how many seconds an entry stays in a book after its pod was seen.
const lingering = 2

// writeBook writes the copied book, and returns how long that took.
func (g *spreading) writeBook(ctx context.Context) (time.Duration, error) {
	g.written++
	g.copied.Seen = fmt.Sprint(g.written)
	begin := time.Now()
	if err := g.Client.Update(ctx, g.copied); err != nil {
		return 0, fmt.Errorf("write book: %w", err)
	}
	return time.Since(begin), nil
}

// beside runs a step, and measures the floors meanwhile.
func (g *spreading) beside(ctx context.Context, step func(context.Context) error) (f floors, err error) {
	until, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var failed error
	g.relay.takeFloor()
	wg.Go(func() { f, failed = g.measureFloors(ctx, until.Done()) })
	err = step(ctx)
	end()
	wg.Wait()
	f.ask = g.relay.takeFloor()
	return f, errors.Join(err, failed)
}

func (g *spreading) measureFloors(ctx context.Context, done <-chan struct{}) (f floors, err error) {
	tick := time.NewTicker(time.Second / floorRate)
	defer tick.Stop()
	for {
		took, err := g.writeBook(ctx)
		if err != nil {
			return f, err
		}
		f.write = append(f.write, took)
		begin := time.Now()
		if err := g.Client.Get(ctx, client.ObjectKeyFromObject(g.copied), &limpetv1alpha1.DisruptionBook{}); err != nil {
			return f, fmt.Errorf("read book: %w", err)
		}
		f.read = append(f.read, time.Since(begin))
		if err := g.Client.Create(ctx, g.floor.pod(), client.DryRunAll); err != nil {
			return f, fmt.Errorf("ask a webhook that only answers: %w", err)
		}
		select {
		case <-tick.C:
		case <-done:
			return f, nil
		}
	}
}

// standOn makes the relay ask a webhook that only answers about the pods of one namespace.
func (r *relay) standOn(ctx context.Context, b *bench) error {
	port, server, err := b.serve(ctx, http.HandlerFunc(onlyAnswer), r.roots)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.floor, r.floorServer = fmt.Sprintf("https://localhost:%d", port), server
	return nil
}

// ofFloor reports whether a question is about a pod of that namespace.
func ofFloor(question []byte) bool {
	return bytes.Contains(question, []byte(`"namespace":"`+floorNamespace+`"`))
}

// takeFloor returns the times of that webhook since the last call.
func (r *relay) takeFloor() measure.Sample {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.floors
	r.floors = nil
	return taken
}

// onlyAnswer permits everything. It reads the question, as any webhook must.
func onlyAnswer(w http.ResponseWriter, req *http.Request) {
	var review admissionv1.AdmissionReview
	question, err := io.ReadAll(req.Body)
	if err == nil {
		err = json.Unmarshal(question, &review)
	}
	if err != nil || review.Request == nil {
		http.Error(w, "no review", http.StatusBadRequest)
		return
	}
	review.Response, review.Request = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}, nil
	answer, err := json.Marshal(review)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // the API server fails the pod when it does not get it
}
