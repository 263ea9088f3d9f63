package serving_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/limpet-io/limpet/internal/platform/serving"
)

func TestSizeOfCountsValues(t *testing.T) {
	cases := map[string]struct {
		text string
		want int
	}{
		"nothing":                         {"", 0},
		"an object":                       {`{"a":1,"b":{"c":2,"d":3}}`, 4},
		"an array":                        {`[1,2,3]`, 18},
		"an empty array":                  {`{"a":[]}`, 7},
		"objects in an array":             {`{"a":[{"b":1,"c":2},{},null]}`, 21},
		"arrays in an array":              {`[[1,2],[3]]`, 30},
		"an array in an object in one":    {`[{"a":[1,2],"b":3},4]`, 26},
		"a text that looks like an array": {`{"a":"[1,2,3]","b":"\"[,,:"}`, 2},
		"a backslash before the end":      {`{"a":"\\","b":[1,2]}`, 14},
		"what is not JSON":                {`]]}}[1,`, 12},
		"a text that ends in the middle":  {`["a,b\`, 6},
		"long texts":                      {`["a/b","c/d"]`, 12},
		"a million elements":              {"[" + strings.Repeat("{},", 1e6) + "{}]", 6e6 + 6},
		"a million members":               {"{" + strings.Repeat(`"":{},`, 1e6) + "}", 1e6},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := serving.SizeOf([]byte(tc.text), false).Values; got != tc.want {
				t.Errorf("%d values, want %d", got, tc.want)
			}
		})
	}
}

// An array of texts, such as finalizers, is cheap. Short texts may stand in an array of
// structures.
func TestSizeOfCountsLightTexts(t *testing.T) {
	for text, want := range map[string]int{
		`["a/b","c/d"]`:             2,
		`["","ab",1,null]`:          24,
		`{"a":"b/c","d":["e/f",1]}`: 9,
		`[["a/b"],{"a":["c/d"]}]`:   15,
	} {
		if got := serving.SizeOf([]byte(text), true).Values; got != want {
			t.Errorf("%s has %d values, want %d", text, got, want)
		}
	}
}

// The length is at least the one that Go writes.
func TestSizeOfCountsBytes(t *testing.T) {
	for name, text := range map[string]string{
		"plain":      "abc",
		"escaped":    "<>&",
		"separators": "\u2028x\u2029",
		"other":      "äöü€𝄞",
		"invalid":    "\xff\xfe\xe2\x80",
		"all":        "a<\u2028\xff>é",
	} {
		quoted := []byte(`{"a":"` + text + `"}`)
		var value any
		if err := json.Unmarshal(quoted, &value); err != nil {
			t.Fatal(err)
		}
		again, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if got := serving.SizeOf(quoted, false).Bytes; got != int64(len(again)) {
			t.Errorf("%s: %d bytes, but Go writes %d: %s", name, got, len(again), bytes.ToValidUTF8(again, nil))
		}
	}
}
