package workloads_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/internal/platform/workloads"
)

// TestUnsoundListsChangeNothing tells of one ConfigMap after the other which kinds count.
func TestUnsoundListsChangeNothing(t *testing.T) {
	const (
		one   = `{"workloads":[{"Group":"example.com","Version":"v1","Kind":"A"}]}`
		both  = `{"workloads":[{"Group":"example.com","Version":"v1","Kind":"A"},{"Group":"example.com","Version":"v1","Kind":"B"}]}`
		half  = `{"workloads":[{"Group":"example.com","Version":"v1","Kind":"A"},{"Group":"example.com","Kind":"B"}]}`
		other = `{"workloads":[{"Group":"example.com","Kind":"B"},{"Group":"example.com","Version":"v1","Kind":"C"}]}`
		gone  = "gone"
	)
	cases := map[string]struct {
		texts []string
		want  []string
	}{
		"both are sound":                        {[]string{both}, []string{"A", "B"}},
		"one lost its version":                  {[]string{both, half}, []string{"A", "B"}},
		"one lost its version, another came":    {[]string{both, other}, []string{"A", "B"}},
		"again and again":                       {[]string{both, half, "{", half}, []string{"A", "B"}},
		"no JSON any more":                      {[]string{both, "{"}, []string{"A", "B"}},
		"mended with fewer":                     {[]string{both, "{", one}, []string{"A"}},
		"never sound, so what can be read":      {[]string{half}, []string{"A"}},
		"never sound, so what can be read last": {[]string{half, other}, []string{"C"}},
		"deleted in between":                    {[]string{both, gone, "{"}, nil},
		"emptied in between":                    {[]string{both, "", "{"}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, workloads.CountKinds(gone, tc.texts...)); diff != "" {
				t.Errorf("kinds (-want +got):\n%s", diff)
			}
		})
	}
}
