package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/console/text"
)

func (c *commands) explain() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "explain",
		Short:   "Explain whether a pod may go, where it would go, why it is Pending, and its addresses",
		Example: "  kubectl limpet explain eviction web-0 -n shop\n  kubectl limpet explain pending web-0",
		Args:    cobra.NoArgs,
		RunE:    help,
	}
	cmd.AddCommand(c.eviction(),
		c.question("placement POD", "Say where a pod would start if it were rebuilt now, and why", ofPod(console.Placement)),
		c.question("pending POD", "Say why a pod has no node, or does not run on it", ofPod(console.Pending)),
		c.question("address POD", "Say what became of the addresses of a pod", console.Address))
	return cmd
}

// help is what a command does that only has subcommands. Without it, a subcommand that does not exist is no error.
func help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

func (c *commands) eviction() *cobra.Command {
	return &cobra.Command{
		Use:   "eviction POD",
		Short: "Ask whether a pod may be evicted now, and which budgets refuse; nothing is evicted",
		Long: `Ask the API server whether a pod may be evicted now, as a dry run. You need the right to create
evictions. Exit status 1 tells that budgets refuse.`,
		Example: "  kubectl limpet explain eviction web-0 -n shop",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			made, namespace, err := c.client(func(next http.RoundTripper) http.RoundTripper { return atOnce{next} })
			if err != nil {
				return err
			}
			report, err := console.Eviction(cmd.Context(), made, namespace, args[0])
			if err != nil {
				return err
			}
			return c.verdict(report.Allowed, nil, report, func(w io.Writer, _ text.Style) { text.Eviction(w, report) })
		},
	}
}

// question returns a command that answers a question about one pod from facts of its namespace.
func (c *commands) question(use, short string, answer func(*facts.Facts, string, string) (console.Explanation, error)) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, namespace, err := c.ofPod(cmd.Context())
			if err != nil {
				return err
			}
			report, err := answer(f, namespace, args[0])
			if err != nil {
				return err
			}
			return c.verdict(true, report.Unread, report, func(w io.Writer, _ text.Style) { text.Explain(w, report) })
		},
	}
}

// ofPod reads what is to know of the pods of the command's namespace.
func (c *commands) ofPod(ctx context.Context) (*facts.Facts, string, error) {
	reader, namespace, err := c.reader()
	if err != nil {
		return nil, "", err
	}
	f, err := reader.Read(ctx, namespace, console.HistoryParts...)
	return f, namespace, err
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
