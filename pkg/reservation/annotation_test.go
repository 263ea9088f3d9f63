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
		"more than the maximum":        {retain: "1441", want: reservation.RetentionRequest{Retain: day}, warns: []string{"maximum of 24h0m0s"}},
		"more than a number can hold":  {retain: "99999999999999999999", want: reservation.RetentionRequest{Retain: day}, warns: []string{"maximum"}},
		"less than a number can hold":  {retain: "-99999999999999999999", warns: []string{"neither a duration nor"}},
		"a negative number":            {retain: "-1", warns: []string{"neither a duration nor"}},
		"a Go duration":                {retain: "10m", want: reservation.RetentionRequest{Retain: 10 * time.Minute}},
		"a fraction":                   {retain: "1.5", warns: []string{"neither a duration nor a number of minutes"}},
		"required":                     {retain: "5", mode: "required", want: reservation.RetentionRequest{Retain: 5 * time.Minute, Mode: reservation.Required}},
		"follow":                       {retain: "5", mode: "follow", want: reservation.RetentionRequest{Retain: reservation.Forever, Mode: reservation.Follow}},
		"follow without minutes":       {retain: "x", mode: "follow", want: reservation.RetentionRequest{Retain: reservation.Forever, Mode: reservation.Follow}, warns: []string{reservation.RetainAnnotation}},
		"an unknown mode is preferred": {retain: "5", mode: "Required", want: reservation.RetentionRequest{Retain: 5 * time.Minute}, warns: []string{`neither "required" nor "follow" nor "preferred"`}},
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
	follow := map[string]string{reservation.ModeAnnotation: "follow"}
	if got, warnings := reservation.ParseRetentionRequest(follow, day); got != (reservation.RetentionRequest{Retain: reservation.Forever, Mode: reservation.Follow}) || warnings != nil {
		t.Errorf("follow alone: %v, %q", got, warnings)
	}
	if got, warnings := reservation.ParseRetentionRequest(nil, day); got != (reservation.RetentionRequest{}) || warnings != nil {
		t.Errorf("no annotations: %v, %q", got, warnings)
	}
}

// TestFollowOnOtherNetworks asks to follow where nothing follows.
func TestFollowOnOtherNetworks(t *testing.T) {
	follow := reservation.RetentionRequest{Retain: reservation.Forever, Mode: reservation.Follow}
	required := reservation.RetentionRequest{Retain: time.Minute, Mode: reservation.Required}
	for _, tc := range []struct {
		asks    reservation.RetentionRequest
		follows bool
		want    reservation.RetentionRequest
	}{
		{follow, true, follow},
		{follow, false, reservation.RetentionRequest{Retain: time.Hour}},
		{required, false, required},
	} {
		if got := tc.asks.On(tc.follows, time.Hour); got != tc.want {
			t.Errorf("%+v, follows %t: %+v, want %+v", tc.asks, tc.follows, got, tc.want)
		}
	}
}

// One word says the same as minutes do, which go first where both stand.
func TestKeep(t *testing.T) {
	for name, tc := range map[string]struct {
		keep, retain string
		want         time.Duration
		warns        string
	}{
		"a duration":               {keep: "5m", want: 5 * time.Minute},
		"a part of a minute":       {keep: "90s", want: 2 * time.Minute},
		"a moment":                 {keep: "1ns", want: time.Minute},
		"several units":            {keep: "1h30m", want: 90 * time.Minute},
		"zero keeps nothing":       {keep: "0"},
		"the maximum":              {keep: "24h", want: 24 * time.Hour},
		"more than the maximum":    {keep: "24h1s", want: 24 * time.Hour, warns: "exceeds the maximum of 24h0m0s"},
		"minutes without a unit":   {keep: "10", want: 10 * time.Minute},
		"a negative duration":      {keep: "-10m", warns: "neither a duration nor"},
		"more than fits":           {keep: strings.Repeat("9", 30) + "h", warns: "neither a duration nor"},
		"an empty value":           {keep: "", warns: "neither a duration nor"},
		"a long value":             {keep: strings.Repeat(" ", 1<<17) + "10m", warns: "neither a duration nor"},
		"a long value of zeros":    {keep: strings.Repeat("0", 1<<17) + "m", warns: "neither a duration nor"},
		"minutes go first":         {keep: "10m", retain: "5", want: 5 * time.Minute},
		"wrong minutes, too":       {keep: "10m", retain: "5 minutes", warns: reservation.RetainAnnotation},
		"no minutes hide the word": {keep: "10m", retain: "0"},
	} {
		t.Run(name, func(t *testing.T) {
			long := map[string]string{reservation.KeepAnnotation: tc.keep}
			if tc.retain != "" {
				long[reservation.RetainAnnotation] = tc.retain
			}
			for _, annotations := range []map[string]string{long, reservation.ShortRequest(long)} {
				got, warnings := reservation.ParseRetentionRequest(annotations, 24*time.Hour)
				if got.Retain != tc.want || !reservation.Asks(annotations) {
					t.Errorf("kept for %s, want %s", got.Retain, tc.want)
				}
				if told := strings.Join(warnings, "; "); (told == "") != (tc.warns == "") || !strings.Contains(told, tc.warns) || len(told) > 300 {
					t.Errorf("warnings %q, want %q", told, tc.warns)
				}
			}
		})
	}
}

// A cache of many pods keeps short values of the annotations. The request that is read from them is the same.
func TestShortRequest(t *testing.T) {
	const day = 24 * time.Hour
	zeros, nines := strings.Repeat("0", 1<<17), strings.Repeat("9", 1<<17)
	for name, tc := range map[string]struct{ retain, mode string }{
		"short":                    {"10", "required"},
		"a long text":              {strings.Repeat("x", 1<<17), strings.Repeat("x", 1<<17)},
		"a number after zeros":     {zeros + "10", "required"},
		"a number amid blanks":     {strings.Repeat(" ", 1<<17) + "10" + strings.Repeat(" ", 1<<17), "required"},
		"a huge number":            {nines, "required"},
		"a huge negative number":   {"-" + nines, "required"},
		"a text after digits":      {nines + "x", "required"},
		"a mode with what follows": {"10", "required" + strings.Repeat(" ", 1<<17)},
	} {
		t.Run(name, func(t *testing.T) {
			long := map[string]string{"other": "x", reservation.RetainAnnotation: tc.retain, reservation.ModeAnnotation: tc.mode}
			short := reservation.ShortRequest(long)
			want, warns := reservation.ParseRetentionRequest(long, day)
			got, warnings := reservation.ParseRetentionRequest(short, day)
			if got != want || len(warnings) != len(warns) {
				t.Errorf("read %+v with %q, want %+v with %q", got, warnings, want, warns)
			}
			if n := len(short[reservation.RetainAnnotation]) + len(short[reservation.ModeAnnotation]); n > 150 || short["other"] != "x" {
				t.Errorf("%d bytes are left, other %q", n, short["other"])
			}
			if long[reservation.RetainAnnotation] != tc.retain {
				t.Error("the original is changed")
			}
		})
	}
}
