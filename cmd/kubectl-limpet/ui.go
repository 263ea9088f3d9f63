package main

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/limpet-io/limpet/internal/console/ui"
	"github.com/limpet-io/limpet/internal/platform/endpoint"
)

// shortestRefresh is the least time between two looks at the cluster.
const shortestRefresh = 2 * time.Second

func (c *commands) ui() *cobra.Command {
	var port uint16
	var refresh time.Duration
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Serve a live page of addresses, workloads and budgets on this machine",
		Long: `Serve one live page on 127.0.0.1, and print its address. The page shows the addresses of each node,
where the pods of each workload stood, which pods hold the units of budgets, and rings. It changes nothing.
The cluster is read with your rights, only while a page is open. With --namespace, only that namespace
is read. The address has a token: other users of the machine see nothing without it. Ctrl-C ends it.`,
		Example: "  kubectl limpet ui\n  kubectl limpet ui -n shop --port 8088",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if refresh < shortestRefresh {
				return fmt.Errorf("flag --refresh: %s is less than %s", refresh, shortestRefresh)
			}
			reader, _, err := c.reader()
			if err != nil {
				return err
			}
			listener, err := endpoint.Listen(cmd.Context(), fmt.Sprintf("127.0.0.1:%d", port), endpoint.Limits{})
			if err != nil {
				return err
			}
			token, source := rand.Text(), ui.Source{Reader: reader, Namespace: *c.config.Namespace}
			fmt.Fprintln(c.out, "open", ui.Address(listener, token))
			return ui.Serve(cmd.Context(), listener, ui.NewHub(source.Look, clock.RealClock{}, refresh), token)
		},
	}
	cmd.Flags().Uint16Var(&port, "port", 0, "the port of the page; 0 for any free one")
	cmd.Flags().DurationVar(&refresh, "refresh", 5*time.Second, "the least time between two looks at the cluster, from 2s")
	return cmd
}
