package text_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/text"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// A terminal obeys nothing that a tenant wrote: no escape in either form, no carriage return, no change of direction.
func TestATerminalObeysNoTenant(t *testing.T) {
	for _, hostile := range []string{
		"\x1b[2J\x1b[H", "\x1b]0;title\x07", "\x1b]52;c;Y2xpcA==\x1b\\", "\u009b31m", "\u009d0;title\u009c", "all is well\rbroken", "\b\b\b", "\x7f", "\u202egnp.exe", "\x1b[31\x1bm", "\x1b[31m", "\x9b31m", // the last is no UTF-8: one byte that a terminal of the last century obeys
	} {
		var out bytes.Buffer
		text.Audit(text.Plain{To: &out}, text.Style{Colour: true}, console.AuditReport{Problems: []console.Problem{
			{Severity: console.Broken, Object: hostile, Reason: hostile, Message: hostile, Remedy: hostile},
		}})
		said := out.String()
		if !utf8.ValidString(said) {
			t.Errorf("%q: the output is no UTF-8", hostile)
		}
		if !strings.Contains(said, "\x1b[31mBroken\x1b[0m") || strings.Count(said, "\x1b") != 2 {
			t.Errorf("%q: the output is %q, want the colours of the severity alone", hostile, said)
		}
		if i := strings.IndexFunc(strings.NewReplacer("\x1b[31m", "", "\x1b[0m", "").Replace(said), func(r rune) bool {
			return unicode.IsControl(r) && r != '\n' || unicode.Is(unicode.Bidi_Control, r)
		}); i >= 0 {
			t.Errorf("%q: the output is %q", hostile, said)
		}
	}
	var out bytes.Buffer
	if n, err := fmt.Fprintln(text.Plain{To: &out}, "zażółć → n2\ta"); err != nil || out.Len() != n || out.String() != "zażółć → n2\ta\n" {
		t.Errorf("%d bytes %q, %v", n, out.String(), err)
	}
}

// A tenant chooses names of subsets, and values of annotations: none begins a line that looks like one of a report.
func TestATextOfATenantBeginsNoLine(t *testing.T) {
	const forged = "web\nBroken Node n1: DiskFailed"
	for name, write := range map[string]func(io.Writer){
		"problem": func(w io.Writer) {
			text.Audit(w, text.Style{}, console.AuditReport{Problems: []console.Problem{{Object: forged, Reason: forged, Message: forged, Remedy: forged}}})
		},
		"explanation": func(w io.Writer) { text.Explain(w, console.Explanation{Answer: forged, Because: []string{forged}}) },
		"history": func(w io.Writer) {
			text.History(w, text.Style{}, console.HistoryReport{Subset: forged, Next: forged, Last: &appsv1beta1.Rebuild{Cause: "Moved", Message: forged}})
		},
	} {
		var out bytes.Buffer
		if write(&out); strings.Contains(out.String(), "\nBroken") || !strings.Contains(out.String(), "Broken Node n1") {
			t.Errorf("%s:\n%s", name, out.String())
		}
	}
}
