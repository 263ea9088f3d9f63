package ipamtool

import (
	"context"
	"fmt"
)

var compactCommand = command{
	name:    "compact",
	summary: "Shrink the state file",
	example: "limpet-ipam compact",
	run: func(t *Tool, ctx context.Context, o options) error {
		before, after, err := o.store(nil).Compact(ctx)
		switch {
		case err != nil:
			return explain(err, o.dataDir)
		case o.output == "json":
			return writeJSON(t.Stdout, compacted{o.dataDir, before, after})
		case after == before:
			_, err = fmt.Fprintf(t.Stdout, "%s: %s, nothing to shrink\n", o.dataDir, size(before))
		default:
			_, err = fmt.Fprintf(t.Stdout, "%s: from %s to %s\n", o.dataDir, size(before), size(after))
		}
		return err
	},
}

// compacted is the JSON form of the answer.
type compacted struct {
	DataDir     string `json:"dataDir"`
	BytesBefore int64  `json:"bytesBefore"`
	BytesAfter  int64  `json:"bytesAfter"`
}
