package ipamtool

import (
	"bytes"
	"io"
	"slices"

	"github.com/limpet-io/limpet/internal/audit"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// listWriter writes holders as the rows of a table or as the elements of a JSON list.
type listWriter struct {
	tool  *Tool
	now   reservation.Moment
	json  bool
	w     io.Writer
	table table
	n     int // holders that were written
}

func newListWriter(t *Tool, json bool, w io.Writer) *listWriter {
	l := &listWriter{tool: t, now: t.Now(), json: json, w: w, table: table{gap: 3}}
	l.table.fit(slices.Clone(columns)) // fit writes to its argument
	return l
}

// columns are the heads of the table.
var columns = []string{"NETWORK", "NAMESPACE", "POD", "IPS", "STATE", "CONTAINER", "LEFT", "AGE"}

func (h *Holder) row() []string {
	return []string{
		h.Network, dash(h.Namespace), dash(h.Pod), h.addresses(), string(h.State), dash(audit.ShortID(h.ContainerID)), h.left(), human(h.AgeSeconds),
	}
}

// measure makes the columns wide enough for a record.
func (l *listWriter) measure(r persistence.Record) error {
	if !l.json {
		l.table.fit(l.tool.holder(r, l.now).row())
	}
	return nil
}

// write writes a record.
func (l *listWriter) write(r persistence.Record) error {
	h := l.tool.holder(r, l.now)
	l.n++
	if l.json {
		return l.writeElement(h)
	}
	if l.n == 1 {
		if err := l.table.writeRow(l.w, columns); err != nil {
			return err
		}
	}
	return l.table.writeRow(l.w, h.row())
}

// writeElement writes an element as writeJSON writes it inside of a list.
func (l *listWriter) writeElement(h *Holder) error {
	var text bytes.Buffer
	text.WriteString(",\n  ")
	if l.n == 1 {
		text.Reset()
		text.WriteString("[\n  ")
	}
	e := encoder(&text)
	e.SetIndent("  ", "  ")
	if err := e.Encode(h); err != nil {
		return err
	}
	_, err := l.w.Write(text.Bytes()[:text.Len()-1]) // without the end of the line
	return err
}

// end writes the end of the list, or the head of a table without rows.
func (l *listWriter) end() (err error) {
	switch {
	case l.json && l.n == 0:
		_, err = io.WriteString(l.w, "[]\n")
	case l.json:
		_, err = io.WriteString(l.w, "\n]\n")
	case l.n == 0:
		err = l.table.writeRow(l.w, columns)
	}
	return err
}
