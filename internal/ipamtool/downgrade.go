package ipamtool

import (
	"context"
	"fmt"
)

var downgradeCommand = command{
	name:    "downgrade",
	summary: "Let the plugin of the former release read the state, before you install that release",
	example: "limpet-ipam downgrade",
	run: func(t *Tool, ctx context.Context, o options) error {
		err := o.store(nil).Downgrade(ctx)
		switch {
		case err != nil:
			return explain(err, o.dataDir)
		case o.output == "json":
			return writeJSON(t.Stdout, downgraded{o.dataDir, 2})
		}
		_, err = fmt.Fprintf(t.Stdout, "%s: the former release reads the state, until an address follows its pod.\n", o.dataDir)
		return err
	},
}

// downgraded is the JSON form of the answer.
type downgraded struct {
	DataDir string `json:"dataDir"`
	Schema  int    `json:"schema"`
}
