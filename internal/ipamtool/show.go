package ipamtool

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/limpet-io/limpet/pkg/reservation"
)

var showCommand = command{
	name:    "show",
	operand: "ADDRESS|NAMESPACE/POD|CONTAINER",
	summary: "Show everything about an address, a pod or a container (the first characters of the ID are enough)",
	example: "limpet-ipam show 10.244.0.5\nlimpet-ipam show default/web-0\nlimpet-ipam show 3f2a9c",
	flags:   networkFlag,
	run: func(t *Tool, ctx context.Context, o options) error {
		found, err := t.find(ctx, o)
		if err != nil {
			return err
		}
		if o.output == "json" {
			return writeJSON(t.Stdout, found)
		}
		for i, h := range found {
			if i > 0 {
				_, _ = fmt.Fprintln(t.Stdout) // the next write reports the error
			}
			if err := h.describe(t.Stdout); err != nil {
				return err
			}
		}
		return nil
	},
}

// describe writes a line for each fact about a holder.
func (h *Holder) describe(w io.Writer) error {
	t := table{gap: 2}
	line := func(name, value string) {
		if value != "" {
			t.row(name, value)
		}
	}
	line("addresses", h.addresses())
	line("network", h.Network)
	line("pod", dash(h.owner()))
	line("pod UID", h.PodUID)
	line("interface", h.Interface)
	line("state", h.state())
	line("since", fmt.Sprintf("%s (%s ago)", stamp(h.Since), human(h.AgeSeconds)))
	line("container", dash(h.ContainerID))
	line("netns", h.netns())
	line("asked for", h.request())
	if h.RefusedSince != nil {
		line("successor", "has waited since "+stamp(*h.RefusedSince)+" for the end of this network namespace")
	}
	line("sequence", fmt.Sprint(h.Sequence))
	return t.write(w)
}

func (h *Holder) state() string {
	switch {
	case h.LeftSeconds == nil:
		return h.held()
	case *h.LeftSeconds == 0:
		return "reserved, lapsed at " + stamp(*h.Deadline) + ": any pod can have them"
	}
	return fmt.Sprintf("reserved, %s left (until %s)", h.left(), stamp(*h.Deadline))
}

func (h *Holder) netns() string {
	if h.State == Reserved {
		return ""
	}
	return fmt.Sprintf("%s (%s)", dash(h.NetNS), h.NetNSState)
}

// request says what the pod asked for with its annotations.
func (h *Holder) request() string {
	text := "no reservation"
	switch {
	case h.RetainSeconds >= seconds(reservation.Forever):
		text = "a reservation without an end, " + h.Retention
	case h.RetainSeconds > 0:
		text = fmt.Sprintf("%s after its end, %s", human(h.RetainSeconds), h.Retention)
	}
	if h.AnnotationsSeen != nil && !*h.AnnotationsSeen {
		text += " (assumed: the runtime passed no annotations)"
	}
	return text
}

func stamp(t time.Time) string { return t.Format(time.RFC3339) }
