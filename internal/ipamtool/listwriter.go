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
	part  []*Holder
	n     int // holders that were written
}

// sortedAtOnce is the number of holders that are sorted by address. No node has as many: a state of more is listed in parts,
// so that it takes little memory.
const sortedAtOnce = 4_000

func newListWriter(t *Tool, json bool, w io.Writer) *listWriter {
	return &listWriter{tool: t, now: t.Now(), json: json, w: w, table: table{gap: 3}}
}

// columns are the heads of the table.
var columns = []string{"NETWORK", "NAMESPACE", "POD", "IPS", "STATE", "CONTAINER", "LEFT", "AGE"}

func (h *Holder) row() []string {
	return []string{
		h.Network, dash(h.Namespace), dash(h.Pod), h.addresses(), h.held(), dash(audit.ShortID(h.ContainerID)), h.left(), human(h.AgeSeconds),
	}
}

// held says in one word how addresses are held.
func (h *Holder) held() string {
	switch h.Loan {
	case Lent:
		return string(Lent)
	case Guest:
		return string(h.State) + "," + string(Guest)
	}
	return string(h.State)
}

// add adds a record. The holders of the part before are used again.
func (l *listWriter) add(r persistence.Record) error {
	n := len(l.part)
	if l.part = slices.Grow(l.part, 1)[:n+1]; l.part[n] == nil {
		l.part[n] = new(Holder)
	}
	*l.part[n] = holder(r, l.now)
	if len(l.part) < sortedAtOnce {
		return nil
	}
	return l.flush()
}

// flush writes the holders that were added.
func (l *listWriter) flush() error {
	sortHolders(l.part)
	write := l.writeRows
	if l.json {
		write = l.writeElements
	}
	err := write()
	l.part = l.part[:0]
	return err
}

// writeRows writes rows in columns that are wide enough for them, below the head of the first ones.
func (l *listWriter) writeRows() error {
	if l.n == 0 {
		l.table.row(slices.Clone(columns)...) // row writes to its argument
	}
	for _, h := range l.part {
		l.table.row(h.row()...)
	}
	for _, row := range l.table.rows {
		if err := l.table.writeRow(l.w, row); err != nil {
			return err
		}
	}
	l.n, l.table.rows = l.n+len(l.part), l.table.rows[:0]
	return nil
}

// writeElements writes elements as writeJSON writes them inside of a list.
func (l *listWriter) writeElements() error {
	var text bytes.Buffer
	e := encoder(&text)
	e.SetIndent("  ", "  ")
	for _, h := range l.part {
		h.look(l.tool)
		text.Reset()
		if l.n++; l.n == 1 {
			text.WriteString("[\n  ")
		} else {
			text.WriteString(",\n  ")
		}
		if err := e.Encode(h); err != nil {
			return err
		}
		if _, err := l.w.Write(text.Bytes()[:text.Len()-1]); err != nil { // without the end of the line
			return err
		}
	}
	return nil
}

// end writes the holders that are left, and the end of the list.
func (l *listWriter) end() error {
	err := l.flush()
	switch {
	case err != nil || !l.json:
	case l.n == 0:
		_, err = io.WriteString(l.w, "[]\n")
	default:
		_, err = io.WriteString(l.w, "\n]\n")
	}
	return err
}
