package v1alpha1

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The marks of a line. No field contains one of them, because they are escaped as in a URL.
const (
	between = " " // two fields
	within  = "," // two items of a list
	nothing = "-" // a field without a value
	hyphen  = "%2D"
)

// lineWriter writes the fields of items, one item in each line.
type lineWriter struct {
	strings.Builder

	begun bool // the line has a field
}

func (w *lineWriter) field(s string) {
	if w.begun {
		w.WriteString(between)
	}
	w.begun = true
	if s == "" {
		s = nothing
	}
	w.WriteString(s)
}

func (w *lineWriter) end() {
	w.WriteString("\n")
	w.begun = false
}

func (w *lineWriter) text(all ...string) {
	for _, s := range all {
		w.field(escaped(s))
	}
}

func (w *lineWriter) list(all []string) {
	items := make([]string, len(all))
	for i, s := range all {
		items[i] = escaped(s)
	}
	w.field(strings.Join(items, within))
}

func (w *lineWriter) time(all ...time.Time) {
	for _, t := range all {
		w.field(t.UTC().Format(metav1.RFC3339Micro))
	}
}

func (w *lineWriter) number(n int64) { w.field(strconv.FormatInt(n, 10)) }

func escaped(s string) string {
	if s == nothing {
		return hyphen
	}
	return url.PathEscape(s)
}

// lineReader reads the fields of one line.
type lineReader struct {
	rest  string
	wrong bool // a field was missing, or was not what it should be
	done  bool // the last field was read
}

// ended reports whether the line had exactly the fields that were read.
func (r *lineReader) ended() bool { return r.done && !r.wrong }

func (r *lineReader) field() string {
	r.wrong = r.wrong || r.done
	field, rest, more := strings.Cut(r.rest, between)
	r.rest, r.done = rest, !more
	if field == nothing {
		return ""
	}
	r.wrong = r.wrong || field == ""
	return field
}

func (r *lineReader) text() string { return r.unescaped(r.field()) }

func (r *lineReader) list() []string {
	field := r.field()
	if field == "" {
		return nil
	}
	items := strings.Split(field, within)
	for i, s := range items {
		items[i] = r.unescaped(s)
	}
	return items
}

func (r *lineReader) unescaped(s string) string {
	text, err := url.PathUnescape(s)
	r.wrong = r.wrong || err != nil
	return text
}

func (r *lineReader) time() time.Time {
	t, err := time.Parse(time.RFC3339, r.field())
	r.wrong = r.wrong || err != nil
	return t
}

func (r *lineReader) number() int64 {
	n, err := strconv.ParseInt(r.field(), 10, 64)
	r.wrong = r.wrong || err != nil
	return n
}
