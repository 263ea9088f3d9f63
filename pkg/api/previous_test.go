package api_test

import (
	"flag"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// previousFields has a line for each field of the CRDs of the previous version, with its bounds.
const previousFields = "testdata/previous.txt"

var freeze = flag.Bool("freeze", false, "write the fields of today's CRDs as those of the previous version, at a release")

// contract is what a version of the CRDs accepts: bounds by field, such as type, maxLength and required.
type contract map[string]map[string]string

// TestThePreviousVersionIsServed compares the CRDs with those of the previous version. Agents and controllers of that
// version write to these CRDs during an upgrade, and objects of that version stay. So each of its fields is served with
// the same type, and no bound is narrower.
func TestThePreviousVersionIsServed(t *testing.T) {
	today := contract{}
	files, err := filepath.Glob("../../deploy/crds/*.*_*.yaml")
	if err != nil || len(files) < 6 {
		t.Fatalf("find CRDs: %v, %v", files, err)
	}
	for _, f := range files {
		today.add(t, f)
	}
	if *freeze {
		if err := os.WriteFile(previousFields, []byte(today.String()), 0o644); err != nil { //nolint:gosec // it is no secret
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(previousFields)
	if err != nil {
		t.Fatal(err)
	}
	previous := parseContract(string(text))
	if len(previous) < 300 {
		t.Fatalf("%s has %d fields only", previousFields, len(previous))
	}
	for _, broken := range breaks(previous, today) {
		t.Error(broken)
	}
}

// TestBreaksAreFound checks that the comparison finds each way to break the previous version, and no other change.
func TestBreaksAreFound(t *testing.T) {
	const a, b, c = "k v .a\ttype=string maxLength=8 minLength=1 enum=A|B\n", "k v .b\ttype=integer\n", "k v .c\ttype=string pattern=1 rule=2\n"
	const root = "k v \ttype=object\n"
	all := root + a + b + c
	changed := func(before, now string) string { return strings.Replace(all, before, now, 1) }
	for name, tc := range map[string]struct {
		today string
		want  int
	}{
		"nothing":                 {all, 0},
		"wider bounds":            {root + "k v .a\ttype=string maxLength=9 minLength=0 enum=A|B|C\nk v .b\ttype=integer\nk v .c\ttype=string\n", 0},
		"a new field":             {all + "k v .new\ttype=string maxLength=1\n", 0},
		"a new required field":    {all + "k v .new\ttype=string required=true\n", 1},
		"a field of a new object": {all + "k v .new\ttype=object\nk v .new.x\ttype=string required=true\n", 0},
		"a field is required now": {changed("type=integer", "type=integer required=true"), 1},
		"a field is gone":         {root + a + b, 1},
		"another type":            {changed("type=integer", "type=string"), 1},
		"a lower maximum":         {changed("maxLength=8", "maxLength=7"), 1},
		"a higher minimum":        {changed("minLength=1", "minLength=2"), 1},
		"a new maximum":           {changed("type=integer", "type=integer maximum=3"), 1},
		"a value is gone":         {changed("A|B", "A|C"), 1},
		"a list of values is new": {changed("type=integer", "type=integer enum=1|2"), 1},
		"another pattern":         {changed("pattern=1", "pattern=2"), 1},
		"a further rule":          {changed("rule=2", "rule=2|3"), 1},
		"a version is not served": {"", 4},
	} {
		t.Run(name, func(t *testing.T) {
			if got := breaks(parseContract(all), parseContract(tc.today)); len(got) != tc.want {
				t.Errorf("found %q, want %d", got, tc.want)
			}
		})
	}
}

// breaks returns what was accepted and no longer is.
func breaks(previous, today contract) []string {
	var found []string
	for _, field := range slices.Sorted(maps.Keys(previous)) {
		if _, served := today[field]; !served {
			found = append(found, field+": it is not served any more")
			continue
		}
		for bound, now := range today[field] {
			if before, had := previous[field][bound]; narrower(bound, before, now, had) {
				found = append(found, fmt.Sprintf("%s: %s is %s, was %q", field, bound, now, before))
			}
		}
	}
	for _, field := range slices.Sorted(maps.Keys(today)) {
		_, known := previous[field]
		if _, parent := previous[field[:max(0, strings.LastIndex(field, "."))]]; !known && parent && today[field]["required"] != "" {
			found = append(found, field+": a new field is required")
		}
	}
	return found
}

// narrower reports whether a bound of today refuses what was accepted.
func narrower(bound, before, now string, had bool) bool {
	switch {
	case bound == "required":
		return !had
	case bound == "type" || bound == "pattern" || bound == "format":
		return before != now
	case bound == "enum":
		return !had || !containsAll(strings.Split(now, "|"), strings.Split(before, "|"))
	case bound == "rule":
		return !containsAll(strings.Split(before, "|"), strings.Split(now, "|"))
	case !had:
		return true
	}
	b, _ := strconv.ParseFloat(before, 64)
	n, _ := strconv.ParseFloat(now, 64)
	return strings.HasPrefix(bound, "max") && n < b || strings.HasPrefix(bound, "min") && n > b
}

func containsAll(all, some []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

// add reads one CRD.
func (c contract) add(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	for _, v := range crd.Spec.Versions {
		if v.Served {
			c.walk(crd.Name+" "+v.Name+" ", v.Schema.OpenAPIV3Schema, false)
		}
	}
}

func (c contract) walk(path string, s *apiextensionsv1.JSONSchemaProps, required bool) {
	c[path] = boundsOf(s, required)
	for name, p := range s.Properties {
		c.walk(strings.TrimPrefix(path+"."+name, "."), &p, slices.Contains(s.Required, name))
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		c.walk(path+".*", s.AdditionalProperties.Schema, false)
	}
	if s.Items != nil && s.Items.Schema != nil {
		c.walk(path+"[]", s.Items.Schema, false)
	}
}

func boundsOf(s *apiextensionsv1.JSONSchemaProps, required bool) map[string]string {
	bounds := map[string]string{"type": s.Type}
	if s.XIntOrString {
		bounds["type"] = "int-or-string"
	}
	if required {
		bounds["required"] = "true"
	}
	for name, n := range map[string]*int64{
		"maxLength": s.MaxLength, "minLength": s.MinLength, "maxItems": s.MaxItems, "minItems": s.MinItems, "maxProperties": s.MaxProperties, "minProperties": s.MinProperties,
	} {
		if n != nil {
			bounds[name] = strconv.FormatInt(*n, 10)
		}
	}
	for name, f := range map[string]*float64{"maximum": s.Maximum, "minimum": s.Minimum} {
		if f != nil {
			bounds[name] = strconv.FormatFloat(*f, 'f', -1, 64)
		}
	}
	var enum, rules []string
	for _, e := range s.Enum {
		enum = append(enum, strings.Trim(string(e.Raw), `"`))
	}
	for _, v := range s.XValidations {
		rules = append(rules, sum(v.Rule))
	}
	for name, value := range map[string]string{"enum": strings.Join(enum, "|"), "rule": strings.Join(rules, "|"), "format": s.Format} {
		if value != "" {
			bounds[name] = value
		}
	}
	if s.Pattern != "" {
		bounds["pattern"] = sum(s.Pattern)
	}
	return bounds
}

// sum stands for a text with spaces.
func sum(text string) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(text))) }

func (c contract) String() string {
	var lines strings.Builder
	for _, field := range slices.Sorted(maps.Keys(c)) {
		var bounds []string
		for _, name := range slices.Sorted(maps.Keys(c[field])) {
			bounds = append(bounds, name+"="+c[field][name])
		}
		lines.WriteString(field + "\t" + strings.Join(bounds, " ") + "\n")
	}
	return lines.String()
}

func parseContract(text string) contract {
	c := contract{}
	for line := range strings.Lines(text) {
		field, bounds, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		c[field] = map[string]string{}
		for bound := range strings.FieldsSeq(bounds) {
			name, value, _ := strings.Cut(bound, "=")
			c[field][name] = value
		}
	}
	return c
}
