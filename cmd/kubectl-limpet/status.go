package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/console/text"
)

// pollPeriod is the time between two looks of status --wait.
const pollPeriod = 2 * time.Second

func (c *commands) status() *cobra.Command {
	var waits bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the whole cluster: programs, pools, and what needs attention",
		Long: `Show the whole cluster at a glance: the programs of Limpet, the pool of each node, and what
needs attention. With --namespace, only the objects of that namespace are read, beside nodes and programs.
Exit status 1 tells that a part of Limpet does not do its work.`,
		Example: "  kubectl limpet status\n  kubectl limpet status --wait --timeout 5m\n  kubectl limpet status -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			reader, _, err := c.reader()
			if err != nil {
				return err
			}
			report, err := c.look(cmd.Context(), reader)
			if err == nil && waits {
				report, err = c.wait(cmd.Context(), reader, report, timeout)
			}
			if err != nil {
				return err
			}
			return c.verdict(report.Well(), report.Unread, report, func(w io.Writer, s text.Style) { text.Status(w, s, report) })
		},
	}
	cmd.Flags().BoolVar(&waits, "wait", false, "wait until all parts of Limpet do their work")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "with --wait: how long")
	return cmd
}

// look reads the cluster once.
func (c *commands) look(ctx context.Context, reader facts.Reader) (console.StatusReport, error) {
	all, err := reader.Read(ctx, *c.config.Namespace, console.StatusParts...)
	if err != nil {
		return console.StatusReport{}, err
	}
	return console.Status(all), nil
}

// wait looks until all is well or the time is over, and says what it waits for.
func (c *commands) wait(ctx context.Context, reader facts.Reader, report console.StatusReport, timeout time.Duration) (console.StatusReport, error) {
	said := ""
	err := wait.PollUntilContextTimeout(ctx, pollPeriod, timeout, true, func(ctx context.Context) (bool, error) {
		next, err := c.look(ctx, reader)
		if err != nil { // the API server may start again, or the time is nearly over: the last report counts
			fmt.Fprintf(c.err, "waiting: %v\n", err)
			return false, nil
		}
		if report = next; report.Well() {
			return true, nil
		}
		if p := report.Problems[0]; said != p.Object+p.Message {
			said = p.Object + p.Message
			fmt.Fprintf(c.err, "waiting: %s: %s\n", p.Object, p.Message)
		}
		return false, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return report, nil // the report says what is still broken
	}
	return report, err
}

// verdict prints a report; the exit status reports whether the answer is yes, or not known for want of what is unread.
func (c *commands) verdict(yes bool, unread []facts.Unread, report any, asText func(io.Writer, text.Style)) error {
	if err := c.print(report, asText); err != nil {
		return err
	}
	switch {
	case len(unread) > 0: // the report names them
		return errors.New("what was not read is unknown, and so is what depends on it")
	case yes:
		return nil
	}
	return errNo
}

// unknown fails if kinds could not be read, whatever the rest says.
func unknown(unread []facts.Unread) error {
	if len(unread) == 0 {
		return nil
	}
	kinds := make([]string, len(unread))
	for i, u := range unread {
		kinds[i] = u.Kind + " (" + u.Reason + ")"
	}
	return fmt.Errorf("what could not be read is unknown: %s", strings.Join(kinds, ", "))
}
