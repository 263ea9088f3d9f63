package serving_test

import (
	"strings"
	"testing"

	"github.com/limpet-io/limpet/internal/webhook/serving"
)

func TestArrayElements(t *testing.T) {
	cases := map[string]struct {
		text string
		want int
	}{
		"nothing":                        {"", 0},
		"an object":                      {`{"a":1,"b":{"c":2,"d":3}}`, 0},
		"an array":                       {`[1,2,3]`, 3},
		"an empty array":                 {`{"a":[]}`, 1},
		"objects in an array":            {`{"a":[{"b":1,"c":2},{},null]}`, 3},
		"arrays in an array":             {`[[1,2],[3]]`, 5},
		"an array in an object in one":   {`[{"a":[1,2],"b":3},4]`, 4},
		"text that looks like an array":  {`{"a":"[1,2,3]","b":"\"[,,"}`, 0},
		"a backslash before the end":     {`{"a":"\\","b":[1,2]}`, 2},
		"what is not JSON":               {`]]}}[1,`, 2},
		"a text that ends in the middle": {`["a,b\`, 1},
		"a million of them":              {"[" + strings.Repeat("{},", 1e6) + "{}]", 1e6 + 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := serving.ArrayElements([]byte(tc.text)); got != tc.want {
				t.Errorf("%d elements, want %d", got, tc.want)
			}
		})
	}
}
