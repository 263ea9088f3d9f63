package v1beta1_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

func TestMatchesAreWrittenAsOpenKruiseDoes(t *testing.T) {
	for want, m := range map[string]v1beta1.Match{
		`{"name":"web","subset":"zone-a"}`:               {Name: "web", Subset: "zone-a"},
		`{"name":"web","subset":"zone-a","uid":"1-2-3"}`: {Name: "web", Subset: "zone-a", UID: "1-2-3"},
	} {
		if got := m.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		again, err := v1beta1.ParseMatch(want)
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(m, again); diff != "" {
			t.Errorf("read again (-want +got):\n%s", diff)
		}
	}
}

// The longest names that the API accepts can be read, and longer texts are no match.
func TestMatchesOfUsersAreRead(t *testing.T) {
	longest := v1beta1.Match{Name: strings.Repeat("a", 253), Subset: strings.Repeat("<", 253), UID: strings.Repeat("u", 36)}
	if again, err := v1beta1.ParseMatch(longest.String()); err != nil || again != longest {
		t.Errorf("longest match: %v, %v", again, err)
	}
	for name, text := range map[string]string{
		"no JSON": "zone-a", "no text": "", "no name": `{"subset":"a"}`, "no subset": `{"name":"a"}`, "a list": `[]`, "null": `null`,
		"too long": `{"name":"a","subset":"b","more":"` + strings.Repeat("x", 5000) + `"}`,
	} {
		if m, err := v1beta1.ParseMatch(text); err == nil || m != (v1beta1.Match{}) {
			t.Errorf("%s: %v, %v, want an error", name, m, err)
		}
	}
}

// What is read without a JSON parser is what the parser would read.
func FuzzParseMatch(f *testing.F) {
	for _, seed := range []string{
		`{"name":"web","subset":"zone-a"}`, `{"name":"web","subset":"zone-a","uid":"1"}`, `{"name":"web","subset":"a","uid":""}`,
		`{"name":"a\"b","subset":"a"}`, `{"name":"a","subset":"b","name":"c"}`, `{"name":"a","x":"","subset":"b"}`, `{"name":"\u00e4","subset":"b"}`,
		`{"name":"a","subset":"b","uid":"c","uid":"d"}`, `{"name":"a","subset":"}`, `{"name":"a","subset":"b"}"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := v1beta1.ParseMatch(text)
		var want v1beta1.Match
		if wrong := json.Unmarshal([]byte(text), &want); err == nil && (wrong != nil || got != want) {
			t.Errorf("%q: %v, want %v (%v)", text, got, want, wrong)
		} else if err != nil && wrong == nil && want.Name != "" && want.Subset != "" && len(text) <= 4096 {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	})
}

func BenchmarkParseMatch(b *testing.B) {
	for b.Loop() {
		if _, err := v1beta1.ParseMatch(`{"name":"web","subset":"zone-a","uid":"0b8f0d7c-6f4c-4a52-9f43-4f64d5ba4a1e"}`); err != nil {
			b.Fatal(err)
		}
	}
}
