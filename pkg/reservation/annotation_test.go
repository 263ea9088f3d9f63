package reservation_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/pkg/reservation"
)

func TestParseRetentionRequest(t *testing.T) {
	const day = 24 * time.Hour
	for name, tc := range map[string]struct {
		retain, mode string
		want         reservation.RetentionRequest
		warns        []string // what each warning must say
	}{
		"whole minutes":                {retain: "10", want: reservation.RetentionRequest{Retain: 10 * time.Minute}},
		"blanks around it":             {retain: " 10 ", want: reservation.RetentionRequest{Retain: 10 * time.Minute}},
		"zero asks for nothing":        {retain: "0"},
		"exactly the maximum":          {retain: "1440", want: reservation.RetentionRequest{Retain: day}},
		"more than the maximum":        {retain: "1441", want: reservation.RetentionRequest{Retain: day}, warns: []string{"maximum of 1440 minutes"}},
		"more than a number can hold":  {retain: "99999999999999999999", want: reservation.RetentionRequest{Retain: day}, warns: []string{"maximum"}},
		"less than a number can hold":  {retain: "-99999999999999999999", warns: []string{"negative"}},
		"a negative number":            {retain: "-1", warns: []string{"negative"}},
		"a Go duration":                {retain: "10m", warns: []string{"not a whole number of minutes"}},
		"a fraction":                   {retain: "1.5", warns: []string{"not a whole number of minutes"}},
		"required":                     {retain: "5", mode: "required", want: reservation.RetentionRequest{Retain: 5 * time.Minute, Mode: reservation.Required}},
		"an unknown mode is preferred": {retain: "5", mode: "Required", want: reservation.RetentionRequest{Retain: 5 * time.Minute}, warns: []string{`neither "required" nor "preferred"`}},
		"both wrong":                   {retain: "x", mode: "y", warns: []string{reservation.RetainAnnotation, reservation.ModeAnnotation}},
	} {
		t.Run(name, func(t *testing.T) {
			annotations := map[string]string{"other": "x", reservation.RetainAnnotation: tc.retain}
			if tc.mode != "" {
				annotations[reservation.ModeAnnotation] = tc.mode
			}
			got, warnings := reservation.ParseRetentionRequest(annotations, day)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(warnings) != len(tc.warns) {
				t.Fatalf("warnings %q, want %d", warnings, len(tc.warns))
			}
			for i, w := range tc.warns {
				if !strings.Contains(warnings[i], w) {
					t.Errorf("warning %q does not say %q", warnings[i], w)
				}
			}
		})
	}
	if got, warnings := reservation.ParseRetentionRequest(nil, day); got != (reservation.RetentionRequest{}) || warnings != nil {
		t.Errorf("no annotations: %v, %q", got, warnings)
	}
}
