package ipamtool

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/limpet-io/limpet/pkg/persistence"
)

var listCommand = command{
	name:    "list",
	summary: "List the addresses in use or reserved on this node, and their holders",
	example: "limpet-ipam list\nlimpet-ipam list --network limpet -o json | jq '.[] | select(.state == \"reserved\")'",
	flags:   networkFlag,
	run:     (*Tool).list,
}

// list writes holders in the order of their addresses, those of a state of more than sortedAtOnce in groups. Verbs do not
// wait while it writes: the reader of its output may be slow, and the state large.
func (t *Tool) list(ctx context.Context, o options) error {
	out := bufio.NewWriter(t.Stdout)
	rows := newListWriter(t, o.output == "json", out)
	err := o.store(nil).View(ctx, func(tx *persistence.Tx) error {
		if err := tx.EachRecord(o.network, rows.add); err != nil {
			return err
		}
		return rows.end()
	})
	if err := explain(errors.Join(err, out.Flush()), o.dataDir); err != nil {
		return err
	}
	if rows.n == 0 && o.network != "" {
		return t.checkNetwork(ctx, o)
	}
	return nil
}

// checkNetwork fails for a network that the state does not know.
func (t *Tool) checkNetwork(ctx context.Context, o options) error {
	var known map[string][]byte
	err := o.store(nil).View(ctx, func(tx *persistence.Tx) (err error) {
		known, err = tx.Networks()
		return err
	})
	if _, is := known[o.network]; is || err != nil {
		return explain(err, o.dataDir)
	}
	return noError(fmt.Sprintf("no pod has had an address of a network %s here; the networks are: %s",
		o.network, strings.Join(slices.Sorted(maps.Keys(known)), ", ")))
}

// left returns the time until the deadline of a reservation; any pod can have the addresses of a lapsed one.
func (h *Holder) left() string {
	switch {
	case h.LeftSeconds == nil:
		return "-"
	case *h.LeftSeconds == 0:
		return "lapsed"
	}
	return human(*h.LeftSeconds)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func writeJSON(w io.Writer, v any) error {
	return encoder(w).Encode(v)
}

func encoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e
}

// human returns a duration in its two largest units: 9m30s, 2h5m, 3d4h.
func human(seconds int64) string {
	units := []struct {
		name string
		size int64
	}{{"d", 24 * 60 * 60}, {"h", 60 * 60}, {"m", 60}, {"s", 1}}
	for i, u := range units[:len(units)-1] {
		if seconds < u.size {
			continue
		}
		next := units[i+1]
		text := strconv.FormatInt(seconds/u.size, 10) + u.name
		if rest := seconds % u.size / next.size; rest > 0 {
			text += strconv.FormatInt(rest, 10) + next.name
		}
		return text
	}
	return strconv.FormatInt(seconds, 10) + "s"
}
