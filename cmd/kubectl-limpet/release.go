package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/console/text"
)

// releasePeriod is the time between the first two looks at reservations that agents are asked to end. It grows to
// releasePeriodMost.
const (
	releasePeriod     = time.Second
	releasePeriodMost = 10 * time.Second
)

// release is what the flags of the command say.
type release struct {
	console.ReleaseQuery
	selector   string
	yes, waits bool
	timeout    time.Duration
	dryRun     string
}

func (c *commands) release() *cobra.Command {
	var r release
	cmd := &cobra.Command{
		Use:   "release POD|ADDRESS…",
		Short: "Free addresses that are reserved for pods that will not return",
		Long: `Free addresses that are reserved for pods that are away. The node's agent ends the reservations,
and the command waits for that. Addresses that a pod has are never released: delete the pod first.
A pod that returns later gets other addresses. Several reservations are listed, and released with
--yes or when you agree.

A selector matches the labels of pods. Those of a pod that is away are taken from the pod template of
its StatefulSet.

You need the right to patch ipreservations.limpet.dev, which editors of a namespace have. Exit
status 1 tells that some addresses are not free.`,
		Example: `  kubectl limpet release web-0 -n shop
  kubectl limpet release 10.244.1.7 --dry-run=server
  kubectl limpet release web-0 --forget-place
  kubectl limpet release -l app=web --dry-run=client
  kubectl limpet release --all --node n1 --yes --timeout 5m`,
		Annotations:       map[string]string{namesToo: ""},
		ValidArgsFunction: c.completion(facts.Kept, reservedPods),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if c.everywhere {
				return errOneNamespace
			}
			if r.Names, err = c.namespaced(args); err != nil {
				return err
			}
			return c.runRelease(cmd.Context(), r)
		},
	}
	cmd.Flags().BoolVar(&r.All, "all", false, "all reservations of the namespace, in place of names")
	cmd.Flags().StringVarP(&r.selector, "selector", "l", "", "reservations of the pods with these labels, such as app=web,tier!=test, in place of names")
	cmd.Flags().StringVar(&r.Node, "node", "", "reservations of this node only")
	cmd.Flags().BoolVar(&r.Forget, "forget-place", false, "also forget where the pods ran, so that the next ones may start on any node")
	cmd.Flags().BoolVarP(&r.yes, "yes", "y", false, "do not ask before several reservations are released")
	cmd.Flags().BoolVar(&r.waits, "wait", true, "wait until the agents have ended the reservations")
	cmd.Flags().DurationVar(&r.timeout, "timeout", time.Minute, "with --wait: how long")
	cmd.Flags().StringVar(&r.dryRun, "dry-run", "none", "none, client (ask nothing) or server (the API server checks your right)")
	complete(cmd, "dry-run", dryRuns)
	return cmd
}

var dryRuns = []string{"none", "client", "server"}

func (r release) check() error {
	ways := slices.DeleteFunc([]bool{len(r.Names) > 0, r.All, r.selector != ""}, func(used bool) bool { return !used })
	switch {
	case !slices.Contains(dryRuns, r.dryRun):
		return fmt.Errorf("flag --dry-run: %q is not one of none, client and server", r.dryRun)
	case len(ways) != 1:
		return errors.New("name pods or addresses, or give --selector, or --all: one of these")
	case slices.Contains(r.Names, ""):
		return errors.New("a name is empty")
	}
	return nil
}

func (c *commands) runRelease(ctx context.Context, r release) error {
	if err := r.check(); err != nil {
		return err
	}
	parts, err := r.needs()
	if err != nil {
		return err
	}
	made, namespace, err := c.client()
	if err != nil {
		return err
	}
	reader := facts.Reader{Client: made, Now: c.now}
	f, err := reader.Read(ctx, namespace, parts...)
	if err == nil {
		err = readable(f, r.Forget || r.Selector != nil)
	}
	if err != nil {
		return err
	}
	report, err := console.PlanRelease(f, namespace, r.ReleaseQuery)
	if err != nil {
		return err
	}
	if report.DryRun = r.dryRun != "none"; !report.DryRun {
		if err := c.agree(report, r.yes); err != nil {
			return err
		}
	}
	if err := c.ask(ctx, made, &report, r); err != nil {
		if !report.DryRun && report.Count(console.Asked)+report.CountPlaces(console.Asked) > 0 {
			text.Release(c.err, text.Style{Now: c.now()}, report) // what was asked for before the error is released
		}
		return err
	}
	if r.waits && !report.DryRun {
		if err := c.follow(ctx, reader, &report, r.timeout); err != nil {
			return err
		}
	}
	bad := []console.ReleaseOutcome{console.InUse, console.Replaced}
	if r.waits && !report.DryRun {
		bad = append(bad, console.Asked)
	}
	return c.releaseVerdict(report, report.Count(bad...)+report.CountPlaces(bad...) == 0)
}

// needs returns what has to be read, and parses the selector.
func (r *release) needs() (parts []facts.Part, err error) {
	parts = slices.Clone(console.ReleaseParts)
	if r.Forget {
		parts = append(parts, facts.States)
	}
	if r.selector != "" {
		if r.Selector, err = labels.Parse(r.selector); err != nil {
			return nil, fmt.Errorf("flag --selector: %w", err)
		}
		if r.Selector.Empty() { // as of a blank
			return nil, errors.New("flag --selector: it names no label, and would mean all pods; use --all for that")
		}
		parts = append(parts, facts.StatefulSets)
	}
	return parts, nil
}

// readable fails if the reservations could not be read, or the pods where these decide.
func readable(f *facts.Facts, pods bool) error {
	for _, u := range f.Unread {
		switch {
		case u.Kind == facts.Kept.Kind:
			return fmt.Errorf("read %s: %s; remedy: ClusterRole limpet-release, a part of edit and admin, allows to list and to release them", u.Kind, u.Reason)
		case pods && u.Kind == facts.Pods.Kind:
			return fmt.Errorf("read pods: %s; remedy: name pods and leave --forget-place out, since labels and places depend on which pods exist", u.Reason)
		case u.Kind == facts.StatefulSets.Kind:
			return fmt.Errorf("read %s: %s; remedy: name the pods, since a selector needs the labels of StatefulSets", u.Kind, u.Reason)
		case u.Kind == facts.States.Kind:
			return fmt.Errorf("read %s: %s; remedy: --forget-place needs the rights to list and to patch them", u.Kind, u.Reason)
		}
	}
	return nil
}

// agree asks before several reservations are released. Without a terminal, the flag has to say it.
func (c *commands) agree(report console.ReleaseReport, yes bool) error {
	n := report.Pods()
	if yes || max(n, report.Count(console.Releasable)) <= 1 {
		return nil
	}
	text.Release(c.err, text.Style{Now: c.now()}, report)
	if c.in == nil {
		return fmt.Errorf("give --yes to release what is kept for %s", pods(n))
	}
	fmt.Fprintf(c.err, "Release what is kept for %s? [y/N] ", pods(n))
	answer, err := bufio.NewReader(c.in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return errors.New("nothing was released")
	}
	return nil
}

func pods(n int) string {
	if n == 1 {
		return "1 pod" // with several networks
	}
	return fmt.Sprintf("%d pods", n)
}

// ask marks the reservations, or does so as a dry run.
func (c *commands) ask(ctx context.Context, made client.Client, report *console.ReleaseReport, r release) error {
	switch r.dryRun {
	case "client":
		return nil
	case "server":
		tried := *report
		tried.Reservations, tried.Places = slices.Clone(report.Reservations), slices.Clone(report.Places)
		err := tried.Ask(ctx, made, client.DryRunAll)
		report.Refused(tried)
		return err
	}
	return report.Ask(ctx, made)
}

// follow looks until the agents have answered or the time is over, and says what it waits for.
func (c *commands) follow(ctx context.Context, reader facts.Reader, report *console.ReleaseReport, timeout time.Duration) error {
	said, parts := 0, []facts.Part{facts.Kept}
	if len(report.Places) > 0 {
		parts = append(parts, facts.States)
	}
	bounded, end := context.WithTimeout(ctx, timeout)
	defer end()
	// Each look lists all reservations of the namespace, so that later looks are further apart.
	looks := wait.Backoff{Duration: releasePeriod, Factor: 1.5, Steps: 16, Cap: releasePeriodMost}.DelayFunc()
	err := looks.Until(bounded, true, true, func(context.Context) (bool, error) {
		f, err := reader.Read(ctx, report.Namespace, parts...) // a look that has begun is not cut off by the timeout
		if err != nil && ctx.Err() == nil {
			fmt.Fprintf(c.err, "looking again soon: %v\n", err)
			return false, nil
		}
		if err == nil {
			err = readable(f, false)
		}
		if err != nil {
			return false, err
		}
		report.Follow(f)
		left := report.Count(console.Asked) + report.CountPlaces(console.Asked)
		if left > 0 && left != said {
			said = left
			fmt.Fprintf(c.err, "waiting for limpet-agent and limpet-controller: %d of %d are not released yet\n", left, len(report.Reservations)+len(report.Places))
		}
		return left == 0, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		report.GiveUp()
		return nil // the report says which
	}
	if err != nil {
		return fmt.Errorf("wait for the agents: %w", err)
	}
	return nil
}

func (c *commands) releaseVerdict(report console.ReleaseReport, yes bool) error {
	if c.format == formatName {
		text.ReleaseNames(c.out, report)
		if !yes {
			return errNo
		}
		return nil
	}
	return c.verdict(yes, nil, report, func(w io.Writer, s text.Style) { text.Release(w, s, report) })
}
