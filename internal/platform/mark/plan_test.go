package mark

import (
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func TestPlan(t *testing.T) {
	now := noon.Format(time.RFC3339)
	ago := func(d time.Duration) string { return noon.Add(-d).Format(time.RFC3339) }
	type state struct {
		label, idle string
		change      bool
		again       time.Duration
	}
	const wait = idleTime + time.Second
	cases := map[string]struct {
		label, idle, wanted string
		want                state
	}{
		"nothing is there, nothing is wanted":     {"", "", "", state{}},
		"a label is missing":                      {"", "", "open", state{"open", "", true, 0}},
		"the label is right":                      {"open", "", "open", state{"open", "", false, 0}},
		"a stronger label is wanted":              {"open", "", "closed", state{"closed", "", true, 0}},
		"another word is no label":                {"maybe", "", "open", state{"open", "", true, 0}},
		"a weaker label is wanted from now on":    {"closed", "", "open", state{"closed", now, true, wait}},
		"… and was a moment ago":                  {"closed", ago(10 * time.Second), "open", state{"closed", ago(10 * time.Second), false, wait - 10*time.Second}},
		"… and was for long enough":               {"closed", ago(time.Minute), "open", state{"open", "", true, 0}},
		"no label is wanted from now on":          {"open", "", "", state{"open", now, true, wait}},
		"… and was not for long enough":           {"open", ago(59 * time.Second), "", state{"open", ago(59 * time.Second), false, 2 * time.Second}},
		"… and was for long enough, so remove it": {"open", ago(time.Hour), "", state{"", "", true, 0}},
		"the label is wanted again":               {"open", ago(59 * time.Second), "open", state{"open", "", true, 0}},
		"a time that is none begins the wait":     {"open", "long ago", "", state{"open", now, true, wait}},
		"a time to come begins the wait":          {"open", ago(-time.Hour), "", state{"open", now, true, wait}},
		"an annotation without a label":           {"", ago(time.Hour), "", state{"", "", true, 0}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := input{now: noon, label: tc.label, idle: tc.idle, wanted: tc.wanted}.plan()
			if got := (state{d.label, d.idle, d.change, d.again}); got != tc.want {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
		})
	}
}
