package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/text"
	"github.com/limpet-io/limpet/internal/version"
)

func (c *commands) version() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Compare the versions of this program, the controller, and the agent and plugin of each node",
		Long: `Compare the versions of this program, the controller, and the agent and plugin of each node. The
leader tells its version in its Lease, and agents tell theirs and that of the plugin in NodeIPPools. Those
that tell none have the tags of their images. Exit status 1 tells that an agent or a plugin differs from the
controller. With -o wide, each node is listed.`,
		Example: "  kubectl limpet version\n  kubectl limpet version -o wide",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := c.read(cmd.Context(), "", console.VersionParts...)
			if err != nil {
				return err
			}
			report := console.Versions(f, version.Release())
			return c.verdict(report.Same(), report.Unread, report, func(w io.Writer, s text.Style) { text.Versions(w, s, report) })
		},
	}
}
