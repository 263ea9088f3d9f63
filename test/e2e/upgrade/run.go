package upgrade

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/limpet-io/limpet/test/e2e/bed"
	"github.com/limpet-io/limpet/test/e2e/churn"
)

// loop is how often one error may be in the logs of one step.
const loop = 5

// Report is what the steps of one order cost.
type Report struct {
	Order Order
	Up    bool
	// Pods were created and deleted; ADDs succeeded or failed.
	Pods, ADDs, Failed int
	// Rebuilt pods asked to return, and Kept ones did.
	Rebuilt, Kept int
	// Longest is the longest time from an eviction to the successor's record.
	Longest time.Duration
	// Errors are lines of errors in the logs, and Settled is the longest time until nothing was written any more.
	Errors  int
	Settled time.Duration
	// Violations are the broken promises.
	Violations []string
}

// Runner changes versions on a cluster that has the older one.
type Runner struct {
	Bed        *bed.Bed
	Older, New Version
	Progress   func(string, ...any)
	begun      int
	seen       []string // events
}

// Run takes all parts up or down in an order. The cluster's audit log must be of AuditPolicy.
func (r *Runner) Run(ctx context.Context, o Order, up bool) (Report, error) {
	report := Report{Order: o, Up: up}
	for _, s := range Steps(o, up) {
		if err := r.step(ctx, s, &report); err != nil {
			return report, fmt.Errorf("%s, %s: %w", o, s, err)
		}
	}
	return report, nil
}

// step changes one part while pods are created, deleted and rebuilt, and until each pod has been rebuilt in the new state.
func (r *Runner) step(ctx context.Context, s Step, report *Report) error {
	start, version := time.Now(), r.Older
	if s.Up {
		version = r.New
	}
	r.begun++
	pods := churn.Start(ctx, r.Bed, namespace, fmt.Sprintf("churn-%d", r.begun))
	during := startRebuilds(ctx, r.Bed)
	err := version.Apply(ctx, r.Bed, s.Part)
	during.stop()
	after := startRebuilds(ctx, r.Bed)
	if err == nil {
		err = bed.Await(ctx, 5*time.Minute, "each pod to be rebuilt", func(context.Context) (bool, string) { return after.whole(), "" })
	}
	after.stop()
	created, errs := pods.Stop()
	if err != nil {
		return err
	}
	for _, x := range []*rebuilds{during, after} {
		report.Rebuilt, report.Kept, report.Longest = report.Rebuilt+x.all, report.Kept+x.kept, max(report.Longest, x.longest)
		report.violate(s, x.lost...)
	}
	report.Pods += created
	for _, err := range errs {
		report.violate(s, err.Error())
	}
	if err := r.look(ctx, s, start, report); err != nil {
		return err
	}
	r.Progress("  %-15s new: %-24v %3.0f s, %d pods, rebuilt %d, kept %d, longest %.1f s", s, s.New, time.Since(start).Seconds(), created,
		during.all+after.all, during.kept+after.kept, max(during.longest, after.longest).Seconds())
	return nil
}

// look collects what the step left in events, logs and states.
func (r *Runner) look(ctx context.Context, s Step, start time.Time, report *Report) error {
	settled, err := settle(ctx, r.Bed)
	if err != nil {
		report.violate(s, err.Error())
	}
	report.Settled = max(report.Settled, settled)
	adds, failed, err := verbs(ctx, r.Bed, start)
	if err != nil {
		return err
	}
	report.ADDs, report.Failed = report.ADDs+adds, report.Failed+len(failed)
	report.violate(s, failed...)
	report.violate(s, disagreements(ctx, r.Bed)...)
	messages, err := errorsIn(ctx, r.Bed, start)
	if err != nil {
		return err
	}
	for _, message := range slices.Sorted(maps.Keys(messages)) {
		n := messages[message]
		report.Errors += n
		r.Progress("    %d times: %s", n, message)
		if n > loop {
			report.violate(s, fmt.Sprintf("%d times in the log: %s", n, message))
		}
	}
	sandboxes, slow, err := churn.FailedSandboxes(ctx, r.Bed, namespace, "")
	if err != nil {
		return err
	}
	for _, event := range r.unseen(slow) {
		r.Progress("    slow kernel: %s", event)
	}
	report.violate(s, r.unseen(sandboxes)...)
	return nil
}

// unseen returns the events that no step before has seen.
func (r *Runner) unseen(events []string) []string {
	found := slices.DeleteFunc(slices.Clone(events), func(e string) bool { return slices.Contains(r.seen, e) })
	r.seen = append(r.seen, found...)
	return found
}

func (r *Report) violate(s Step, found ...string) {
	for _, f := range found {
		r.Violations = append(r.Violations, fmt.Sprintf("%s: %s", s, f))
	}
}

// The tags of the images of both versions.
const (
	OlderTag = "older"
	NewTag   = "new"
)

// Install renders both versions, installs the older one and makes the workloads.
func (r *Runner) Install(ctx context.Context, older, repo string) error {
	var err error
	if r.Older, err = Render(ctx, r.Bed, OlderTag, older); err != nil {
		return err
	}
	if r.New, err = Render(ctx, r.Bed, NewTag, repo); err != nil {
		return err
	}
	r.Progress("installing the older version")
	if err := r.Older.Apply(ctx, r.Bed, CRDs, Controller, Agent); err != nil {
		return err
	}
	return setUp(ctx, r.Bed)
}
