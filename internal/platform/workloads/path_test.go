package workloads

import (
	"errors"
	"testing"
)

func TestSumOf(t *testing.T) {
	object := map[string]any{
		"spec": map[string]any{
			"replicas": int64(3), "text": "3", "huge": int64(1 << 40), "below": int64(-7),
			"groups": []any{map[string]any{"replicas": int64(5)}, map[string]any{"replicas": int64(7)}},
		},
	}
	cases := map[string]struct {
		paths []string
		want  int32
		fails bool
	}{
		"one number":             {[]string{"spec.replicas"}, 3, false},
		"the sum of several":     {[]string{"spec.replicas", "spec.groups.0.replicas", "spec.groups.1.replicas"}, 15, false},
		"a number below 0":       {[]string{"spec.replicas", "spec.below"}, 3, false},
		"a number that is large": {[]string{"spec.huge", "spec.huge"}, 1 << 30, false},
		"a missing field":        {[]string{"spec.replicas", "spec.none.replicas"}, 0, true},
		"beyond the list":        {[]string{"spec.groups.2.replicas"}, 0, true},
		"before the list":        {[]string{"spec.groups.-1.replicas"}, 0, true},
		"a text":                 {[]string{"spec.text"}, 0, true},
		"an object":              {[]string{"spec"}, 0, true},
		"an empty path":          {[]string{""}, 0, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := sumOf(object, tc.paths)
			if got != tc.want || errors.Is(err, errPath) != tc.fails {
				t.Errorf("%d, %v", got, err)
			}
		})
	}
}
