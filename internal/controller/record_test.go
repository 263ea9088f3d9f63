package controller_test

import (
	"testing"

	"github.com/limpet-io/limpet/internal/controller"
)

func TestBehindIsACacheThatDoesNotShowTheLastWrite(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		cached, known string
		want          bool
	}{
		"nothing was written yet":                  {"41", "", false},
		"the write is not there yet":               {"41", "42", true},
		"the write is there":                       {"42", "42", false},
		"somebody wrote after it":                  {"43", "42", false},
		"one digit more is no earlier":             {"100", "99", false},
		"a version that cannot be compared is new": {"x", "42", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := controller.Behind(tc.cached, tc.known); got != tc.want {
				t.Errorf("Behind(%q, %q) = %t, want %t", tc.cached, tc.known, got, tc.want)
			}
		})
	}
}
