package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/console/text"
)

func (c *commands) explain() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain POD",
		Short: "Explain whether a pod may go, where it would go, why it is Pending, and its addresses",
		Long: `Explain a pod: whether it may be evicted now, where it would start, why it has no node or does not run,
and what became of its addresses. Each subcommand answers one of these questions. Exit status 1 tells
that budgets refuse an eviction.`,
		Example: "  kubectl limpet explain shop/web-0\n  kubectl limpet explain eviction web-0 -n shop\n  kubectl limpet explain pending web-0",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("%q is not a question: eviction, placement, pending and address are", args[0])
			}
			return nil
		},
		ValidArgsFunction: c.completePod,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return c.everything(cmd.Context(), args[0])
		},
	}
	ask := func(use, short string, answer func(*facts.Facts, string, string) (console.Explanation, error)) *cobra.Command {
		return question(c, use, short, answer, func(e console.Explanation) []facts.Unread { return e.Unread },
			func(w io.Writer, _ text.Style, e console.Explanation) { text.Explain(w, e) })
	}
	cmd.AddCommand(c.eviction(),
		ask("placement POD", "Say where a pod would start if it were rebuilt now, and why", ofPod(console.Placement)),
		ask("pending POD", "Say why a pod has no node, or does not run on it", ofPod(console.Pending)),
		ask("address POD", "Say what became of the addresses of a pod", console.Address))
	return cmd
}

// everything answers all questions about a pod.
func (c *commands) everything(ctx context.Context, argument string) error {
	f, namespace, name, err := c.ofPod(ctx, argument)
	if err != nil {
		return err
	}
	report, err := console.Explain(f, namespace, name)
	if err != nil {
		return err
	}
	if f.Pod(namespace, name) != nil {
		answer, err := c.mayGo(ctx, namespace, name)
		switch {
		case err == nil:
			report.Eviction = &answer
		case !apierrors.IsNotFound(err): // else it has gone meanwhile
			report.Unread = append(report.Unread, facts.Unread{Kind: "evictions", Reason: err.Error()})
		}
	}
	return c.verdict(report.Eviction == nil || report.Eviction.Allowed, report.Unread, report, func(w io.Writer, _ text.Style) { text.Explained(w, report) })
}

// mayGo asks whether a pod may be evicted.
func (c *commands) mayGo(ctx context.Context, namespace, name string) (console.EvictionReport, error) {
	made, _, err := c.client(func(next http.RoundTripper) http.RoundTripper { return atOnce{next} })
	if err != nil {
		return console.EvictionReport{}, err
	}
	f, err := c.read(ctx, namespace, console.BudgetParts...)
	if err != nil {
		return console.EvictionReport{}, err
	}
	report, err := console.Eviction(ctx, made, namespace, name)
	report.Draw(f)
	return report, err
}

// help is what a command does that only has subcommands. Without it, a subcommand that does not exist is no error.
func help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

func (c *commands) eviction() *cobra.Command {
	return &cobra.Command{
		Use:   "eviction POD",
		Short: "Ask whether a pod may be evicted now, and which budgets refuse; nothing is evicted",
		Long: `Ask the API server whether a pod may be evicted now, as a dry run, and draw the pods of a budget
with groups. You need the right to create evictions. Exit status 1 tells that budgets refuse.`,
		Example:           "  kubectl limpet explain eviction web-0 -n shop",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: c.completePod,
		RunE: func(cmd *cobra.Command, args []string) error {
			_, namespace, name, err := c.podOf(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			report, err := c.mayGo(cmd.Context(), namespace, name)
			if err != nil {
				return err
			}
			return c.verdict(report.Allowed, nil, report, func(w io.Writer, _ text.Style) { text.Eviction(w, report) })
		},
	}
}

// question returns a command that answers a question about one pod from facts of its namespace.
func question[R any](c *commands, use, short string, answer func(*facts.Facts, string, string) (R, error), unread func(R) []facts.Unread,
	asText func(io.Writer, text.Style, R),
) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1), ValidArgsFunction: c.completePod,
		RunE: func(cmd *cobra.Command, args []string) error {
			f, namespace, name, err := c.ofPod(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			report, err := answer(f, namespace, name)
			if err != nil {
				return err
			}
			return c.verdict(true, unread(report), report, func(w io.Writer, s text.Style) { asText(w, s, report) })
		},
	}
}

// ofPod reads what is to know of the pods of the namespace of one.
func (c *commands) ofPod(ctx context.Context, argument string) (f *facts.Facts, namespace, name string, err error) {
	reader, namespace, name, err := c.podOf(ctx, argument)
	if err == nil {
		f, err = reader.Read(ctx, namespace, console.HistoryParts...)
	}
	return f, namespace, name, err
}

// ofPod turns an answer about a pod into one about its name. A name without a pod is an error.
func ofPod(answer func(*facts.Facts, *corev1.Pod) console.Explanation) func(*facts.Facts, string, string) (console.Explanation, error) {
	return func(f *facts.Facts, namespace, name string) (console.Explanation, error) {
		pod := f.Pod(namespace, name)
		if why := f.Unknown(facts.Pods); why != "" {
			return console.Explanation{}, errors.New(why)
		}
		if pod == nil {
			return console.Explanation{}, fmt.Errorf("pod %s/%s does not exist: check the name and --namespace", namespace, name)
		}
		return answer(f, pod), nil
	}
}
