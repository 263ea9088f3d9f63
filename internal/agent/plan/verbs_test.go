package plan_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// A line of the log makes no value of a label that is not listed, whatever it holds.
func TestLinesOfTheLog(t *testing.T) {
	for name, tc := range map[string]struct {
		line    string
		want    plan.PluginVerb
		counted bool
		ok      bool
	}{
		"a pod":           {`{"verb":"ADD","outcome":"claimed","pod":"a/b","code":0,"ms":4.5}`, plan.PluginVerb{Name: "ADD", Outcome: "claimed", Took: 4500 * time.Microsecond}, true, true},
		"refused":         {`{"verb":"ADD","outcome":"refused","code":11,"ms":20000}`, plan.PluginVerb{Name: "ADD", Outcome: "refused", Code: "11", Took: 20 * time.Second}, true, true},
		"unknown outcome": {`{"verb":"DEL","outcome":"a0b1c2","code":0,"ms":1}`, plan.PluginVerb{Name: "DEL", Outcome: "other", Took: time.Millisecond}, true, true},
		"unknown code":    {`{"verb":"DEL","outcome":"failed","code":4711,"ms":1}`, plan.PluginVerb{Name: "DEL", Outcome: "failed", Code: "other", Took: time.Millisecond}, true, true},
		"by hand":         {`{"verb":"RELEASE","outcome":"freed","code":0,"ms":0}`, plan.PluginVerb{}, false, true},
		"unknown verb":    {`{"verb":"x","outcome":"ok","code":0,"ms":1}`, plan.PluginVerb{}, false, false},
		"no duration":     {`{"verb":"ADD","outcome":"new","code":0}`, plan.PluginVerb{}, false, false},
		"negative":        {`{"verb":"ADD","outcome":"new","code":0,"ms":-1}`, plan.PluginVerb{}, false, false},
		"huge":            {`{"verb":"ADD","outcome":"new","code":0,"ms":1e300}`, plan.PluginVerb{}, false, false},
		"torn":            {`{"verb":"ADD","outcome":"new","co`, plan.PluginVerb{}, false, false},
		"two in one":      {`{"verb":"ADD","outcome":"new","code":0,"ms":1}{"verb":"ADD","outcome":"new","code":0,"ms":1}`, plan.PluginVerb{}, false, false},
		"deep":            {strings.Repeat("[", 60_000), plan.PluginVerb{}, false, false},
		"empty":           {``, plan.PluginVerb{}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, counted, ok := plan.ReadVerb([]byte(tc.line))
			if diff := cmp.Diff(tc.want, got); diff != "" || counted != tc.counted || ok != tc.ok {
				t.Errorf("counted %v, ok %v, want %v, %v (-want +got):\n%s", counted, ok, tc.counted, tc.ok, diff)
			}
		})
	}
}

// Each outcome and each own code of the plugin has its value of the label.
func TestEachOutcomeOfThePluginIsCounted(t *testing.T) {
	outcomes, codes := constants(t, "../../cni/log.go", "outcome"), constants(t, "../../cni/errors.go", "Code")
	if len(outcomes) < 10 || len(codes) < 5 {
		t.Errorf("found %v and %v: the test tests little", outcomes, codes)
	}
	for _, outcome := range outcomes {
		if v, _, _ := plan.ReadVerb(fmt.Appendf(nil, `{"verb":"ADD","outcome":%s,"ms":1}`, outcome)); strconv.Quote(v.Outcome) != outcome {
			t.Errorf("outcome %s counts as %s", outcome, v.Outcome)
		}
	}
	for _, code := range codes {
		if v, _, _ := plan.ReadVerb(fmt.Appendf(nil, `{"verb":"ADD","outcome":"failed","code":%s,"ms":1}`, code)); v.Code != code {
			t.Errorf("code %s counts as %s", code, v.Code)
		}
	}
}

// constants returns the values of a file's constants whose names begin with a prefix.
func constants(t *testing.T, path, prefix string) (values []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is || !strings.HasPrefix(spec.Names[0].Name, prefix) || len(spec.Values) != 1 {
			return true
		}
		if value, is := spec.Values[0].(*ast.BasicLit); is {
			values = append(values, value.Value)
		}
		return true
	})
	return values
}

func TestAges(t *testing.T) {
	boot := func(up time.Duration) reservation.Moment { return reservation.Moment{BootID: "b", Up: up} }
	var all []reservation.Reservation
	for _, age := range []time.Duration{0, 59 * time.Second, time.Minute, 5 * time.Hour, 6 * time.Hour, 24 * time.Hour, 900 * time.Hour} {
		all = append(all, reservation.Reservation{Deadline: reservation.Deadline{From: boot(1000*time.Hour - age), For: 1000 * time.Hour}})
	}
	want := map[string]int{"1m": 2, "10m": 1, "1h": 0, "6h": 1, "1d": 1, "longer": 2}
	if diff := cmp.Diff(want, plan.Ages(all, boot(1000*time.Hour))); diff != "" {
		t.Errorf("ages (-want +got):\n%s", diff)
	}
}

// BenchmarkReadVerb measures one line of the log, which the agent pays for each verb.
func BenchmarkReadVerb(b *testing.B) {
	line := []byte(`{"time":"2026-01-01T00:10:00.25Z","verb":"ADD","outcome":"claimed","network":"limpet","pod":"shop/web-3","container":"0a1b2c3d4e5f",` +
		`"ifname":"eth0","addresses":["10.1.0.6","fd00::6"],"reason":"reserved for 4m31s","code":0,"ms":4.31}`)
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		if _, _, ok := plan.ReadVerb(line); !ok {
			b.Fatal("not read")
		}
	}
}
