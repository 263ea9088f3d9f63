package text

import (
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/limpet-io/limpet/internal/console"
)

// Release prints what became of reservations.
func Release(w io.Writer, s Style, r console.ReleaseReport) {
	rows := make([]string, 0, len(r.Reservations))
	for _, one := range r.Reservations {
		left := "-"
		if one.Until != nil {
			left = duration.HumanDuration(one.Until.Sub(s.Now))
		}
		rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s", one.Pod, one.Node, one.Network, one.IPs, left, one.Outcome, or(one.Message)))
	}
	table(w, "POD\tNODE\tNETWORK\tIPS\tLEFT\tOUTCOME\tMESSAGE", rows)
	if len(r.Places) > 0 && len(rows) > 0 {
		fmt.Fprintln(w)
	}
	places := make([]string, 0, len(r.Places))
	for _, p := range r.Places {
		places = append(places, fmt.Sprintf("%s\t%s\t%s\t%s\t%s", p.Pod, p.State, or(p.Node), p.Outcome, or(p.Message)))
	}
	table(w, "POD\tRECORDED BY\tNODE\tOUTCOME\tMESSAGE", places)
	if len(rows)+len(places) == 0 {
		of := ""
		if r.Selector != "" {
			of = " for pods of StatefulSets with the labels " + r.Selector
		}
		fmt.Fprintf(w, "nothing is reserved in namespace %s%s\n", r.Namespace, of)
	}
	if r.DryRun {
		fmt.Fprintln(w, "dry run: nothing was released")
	}
}

// ReleaseNames prints the names of the reservations that were released, as kubectl does.
func ReleaseNames(w io.Writer, r console.ReleaseReport) {
	for _, one := range r.Reservations {
		if one.Outcome != console.InUse && one.Outcome != console.Replaced {
			fmt.Fprintf(w, "ipreservation.limpet.dev/%s\n", one.Name)
		}
	}
}
