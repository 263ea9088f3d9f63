package ipamtool

import (
	"io"
	"strings"
	"text/tabwriter"
)

// table collects rows of cells and writes them as columns of text.
type table struct {
	indent string
	gap    int // blanks between columns
	rows   [][]string
}

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) write(w io.Writer) error {
	columns := tabwriter.NewWriter(w, 0, 0, t.gap, ' ', 0)
	for _, row := range t.rows {
		if _, err := io.WriteString(columns, t.indent+strings.Join(row, "\t")+"\n"); err != nil {
			return err
		}
	}
	return columns.Flush()
}
