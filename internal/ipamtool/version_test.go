package ipamtool_test

import (
	"bytes"
	"testing"

	"github.com/limpet-io/limpet/internal/ipamtool"
)

func TestVersion(t *testing.T) {
	for _, word := range []string{"version", "--version"} {
		var out, problem bytes.Buffer
		tool := ipamtool.Tool{Version: "v1.2.3", Stdout: &out, Stderr: &problem}
		exit := tool.Run(t.Context(), []string{word})
		if exit != ipamtool.ExitDone || out.String() != "limpet-ipam v1.2.3\n" || problem.Len() > 0 {
			t.Errorf("limpet-ipam %s = %d %q %q", word, exit, out.String(), problem.String())
		}
	}
}
