package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/console/text"
)

func (c *commands) pod() *cobra.Command {
	cmd := question(c, "pod NAME", "Show where a pod ran, with which addresses, and why they were kept or lost", console.History,
		func(r console.HistoryReport) []facts.Unread { return r.Unread }, text.History)
	cmd.Example = "  kubectl limpet pod web-0 -n shop\n  kubectl limpet pod shop/web-0"
	return cmd
}

func (c *commands) plan() *cobra.Command {
	cmd := &cobra.Command{Use: "plan", Short: "Say what a change would do; nothing is changed", Args: cobra.NoArgs, RunE: help}
	cmd.AddCommand(&cobra.Command{
		Use:   "drain NODE…",
		Short: "Say which pods come home, which move, and which budgets wait",
		Long: `Say what becomes of the pods of some nodes that are drained: which wait for their node and come
home, which move, and in which waves their budgets let them go, with the number of waves that any
order needs. Exit status 1 tells that a pod cannot go.`,
		Example:           "  kubectl limpet plan drain n1 n2",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: c.completion(facts.Nodes, nodeNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := c.all(cmd.Context(), console.DrainParts)
			if err != nil {
				return err
			}
			report, err := console.PlanDrain(f, args)
			if err != nil {
				return err
			}
			return c.verdict(report.Blocked == 0, nil, report, func(w io.Writer, s text.Style) { text.Drain(w, s, report) })
		},
	})
	return cmd
}

func (c *commands) budgets() *cobra.Command {
	return &cobra.Command{
		Use:   "budgets [NAME]",
		Short: "List budgets, or draw which pods of one may go now",
		Long: `List the budgets: how many further pods may go, groups that let none go, and the share of a budget that
counts over namespaces or clusters. With a name, draw its pods in the order of their ring: which may go
now, which must stay, which are away. That is an estimate, and the numbers are as old as the status of the
budgets; explain asks the API server. With --namespace, only that one is read.`,
		Example: "  kubectl limpet budgets\n  kubectl limpet budgets ring -n shop",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := c.all(cmd.Context(), console.BudgetParts)
			if err != nil {
				return err
			}
			name := strings.Join(args, "")
			report := console.Budgets(f, name)
			if name != "" && len(report.Budgets) == 0 {
				return fmt.Errorf("budget %s does not exist: kubectl limpet budgets lists the budgets", name)
			}
			return c.verdict(true, nil, report, func(w io.Writer, _ text.Style) { text.Budgets(w, report) })
		},
	}
}

func (c *commands) lost() *cobra.Command {
	return &cobra.Command{
		Use:   "lost",
		Short: "List pods that did not return to their places, with the cause and what helps",
		Long: `List the pods that moved or lost their addresses at their last rebuild, the newest first, with the cause
and what helps. A pod that was kept since is not listed. With --namespace, only that one is read.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := c.read(cmd.Context(), *c.config.Namespace, facts.States)
			if err != nil {
				return err
			}
			report := console.Lost(f)
			return c.verdict(true, report.Unread, report, func(w io.Writer, s text.Style) { text.Lost(w, s, report) })
		},
	}
}

func (c *commands) audit() *cobra.Command {
	return &cobra.Command{
		Use:   "audit",
		Short: "Compare the addresses of all pods with reservations and pools",
		Long: `Compare the addresses of all pods with reservations and pools: two pods with one address, an
address that is held for one pod and used by another, pools that do not add up. Exit status 1
tells that something contradicts. limpet-ipam check compares a node's state file with the node.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := c.all(cmd.Context(), console.AuditParts)
			if err != nil {
				return err
			}
			report := console.Audit(f)
			return c.verdict(len(report.Problems) == 0, nil, report, func(w io.Writer, s text.Style) { text.Audit(w, s, report) })
		},
	}
}

// all reads what a command cannot do without, of the namespace of --namespace or of all.
func (c *commands) all(ctx context.Context, parts []facts.Part) (*facts.Facts, error) {
	f, err := c.read(ctx, *c.config.Namespace, parts...)
	if err != nil {
		return nil, err
	}
	return f, unknown(f.Unread)
}

// read reads facts of a namespace, or of all.
func (c *commands) read(ctx context.Context, namespace string, parts ...facts.Part) (*facts.Facts, error) {
	reader, _, err := c.reader()
	if err != nil {
		return nil, err
	}
	return reader.Read(ctx, namespace, parts...)
}
