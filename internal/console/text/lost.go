package text

import (
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/limpet-io/limpet/internal/console"
)

// Lost prints pods that did not return, and below them one remedy for each cause.
func Lost(w io.Writer, s Style, r console.LostReport) {
	rows, told := make([]string, 0, len(r.Pods)), map[string]bool{}
	for _, p := range r.Pods {
		rows = append(rows, fmt.Sprintf("%s/%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", p.Namespace, p.Pod, p.Outcome, duration.HumanDuration(s.Now.Sub(p.Time)),
			or(p.From.NodeName), or(p.From.IPs), or(p.To.NodeName), or(p.To.IPs), or(p.Cause)))
	}
	table(w, "POD\tOUTCOME\tAGO\tFROM\tIPS\tTO\tIPS\tCAUSE", rows)
	if len(rows) == 0 && len(r.Unread) == 0 {
		fmt.Fprintln(w, "No recorded pod has lost its place.")
	}
	for _, p := range r.Pods {
		if p.Remedy != "" && !told[p.Cause] {
			if len(told) == 0 {
				fmt.Fprintln(w)
			}
			told[p.Cause] = true
			fmt.Fprintf(w, "%s: %s\n", p.Cause, p.Remedy)
		}
	}
	unread(w, r.Unread)
}
