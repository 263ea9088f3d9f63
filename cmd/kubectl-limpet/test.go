package main

import (
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/text"
)

func (c *commands) test() *cobra.Command {
	trial := console.Trial{Now: c.now}
	cmd := &cobra.Command{
		Use:   "test",
		Short: "Rebuild a pod in a namespace of its own, and say whether node and address were kept",
		Long: `Make a namespace with a StatefulSet of one pod, delete the pod, and say whether the next one has the same
node and address. Each step is printed with its seconds. The namespace is removed at the end, also on
Ctrl-C. You need the right to create namespaces. Exit status 1 tells that something was not kept.`,
		Example: "  kubectl limpet test\n  kubectl limpet test --image registry.example.com/pause:3.10 --timeout 3m",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if trial.Client, _, err = c.client(); err != nil {
				return err
			}
			trial.Namespace = "limpet-test-" + strings.ToLower(rand.Text()[:6])
			trial.Told = func(s console.TrialStep) { fmt.Fprintf(c.err, "%6.1f s  %s\n", s.Seconds, s.Step) }
			report, err := trial.Run(cmd.Context())
			if err != nil {
				return err
			}
			return c.verdict(report.Kept(), nil, report, func(w io.Writer, _ text.Style) { text.Trial(w, report) })
		},
	}
	cmd.Flags().StringVar(&trial.Image, "image", "", "image that runs until it is ended; by default the pause image that most nodes have, or registry.k8s.io/pause:3.10")
	cmd.Flags().DurationVar(&trial.Timeout, "timeout", time.Minute, "how long all steps together may take")
	cmd.Flags().BoolVar(&trial.Keep, "keep", false, "leave the namespace, to look into it")
	return cmd
}
