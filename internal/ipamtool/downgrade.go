package ipamtool

import (
	"context"
	"fmt"
)

var downgradeCommand = command{
	name:    "downgrade",
	summary: "Write the state as the plugin of the former release reads it, before you install that release",
	example: "limpet-ipam downgrade",
	run: func(t *Tool, ctx context.Context, o options) error {
		err := o.store(nil).Downgrade(ctx)
		switch {
		case err != nil:
			return explain(err, o.dataDir)
		case o.output == "json":
			return writeJSON(t.Stdout, downgraded{o.dataDir, 1})
		}
		_, err = fmt.Fprintf(t.Stdout, "%s: limpet.db is now all of the state, as the plugin of the former release reads it.\n"+
			"Install that plugin at once: the next pod that starts or ends with this one makes the state the present form again.\n", o.dataDir)
		return err
	},
}

// downgraded is the JSON form of the answer.
type downgraded struct {
	DataDir string `json:"dataDir"`
	Schema  int    `json:"schema"`
}
