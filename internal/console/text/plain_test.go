package text_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/text"
)

// A terminal obeys nothing that a tenant wrote: no escape in either form, no carriage return, no change of direction.
func TestATerminalObeysNoTenant(t *testing.T) {
	for _, hostile := range []string{
		"\x1b[2J\x1b[H", "\x1b]0;title\x07", "\x1b]52;c;Y2xpcA==\x1b\\", "\u009b31m", "\u009d0;title\u009c", "all is well\rbroken", "\b\b\b", "\x7f", "\u202egnp.exe", "\x1b[31\x1bm", "\x9b31m", // the last is no UTF-8: one byte that a terminal of the last century obeys
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
