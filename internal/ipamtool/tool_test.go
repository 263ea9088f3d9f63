package ipamtool_test

import (
	"bytes"
	"testing"

	"github.com/limpet-io/limpet/internal/ipamtool"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestAnErrorOfTheProgramIsNoDamage runs list without the function that looks for network namespaces: nothing says that
// the state is damaged.
func TestAnErrorOfTheProgramIsNoDamage(t *testing.T) {
	n := newNode(t)
	n.fill()
	var out bytes.Buffer
	tool := ipamtool.Tool{Now: func() reservation.Moment { return n.now }, Stdout: &out, Stderr: &out}
	defer func() {
		if p := recover(); p == nil || out.Len() > 0 {
			t.Errorf("panic %v, output %q", p, &out)
		}
	}()
	tool.Run(t.Context(), []string{"list", "-o", "json", "--data-dir", n.dir})
}
