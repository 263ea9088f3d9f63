package ipamtool_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/limpet-io/limpet/internal/audit"
	"github.com/limpet-io/limpet/internal/ipamtool"
)

const docs = "../../docs"

func text(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestDocumentedCommandsExist parses each call of the tool in the documents, without running the command.
func TestDocumentedCommandsExist(t *testing.T) {
	n := newNode(t)
	pages, err := filepath.Glob(docs + "/*/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	pages = slices.DeleteFunc(pages, func(page string) bool { return filepath.Base(page) == "reference.md" }) // the help texts themselves
	call := regexp.MustCompile("(?m)(?:`|^    (?:\\$ )?)(?:/opt/cni/bin/)?limpet-ipam( [^ `|\n][^`|\n]*)")    // columns of output have more spaces
	found := 0
	for _, page := range append(pages, "../../README.md") {
		for _, m := range call.FindAllStringSubmatch(text(t, page), -1) {
			found++
			args := append(strings.Fields(m[1]), "--help")
			if out, exit := n.run(args...); exit != ipamtool.ExitDone {
				t.Errorf("%s: limpet-ipam%s: %s", page, m[1], out)
			}
		}
	}
	if found < 10 {
		t.Errorf("found %d calls: the test tests little", found)
	}
}

// TestOutputIsDocumented looks for each key of the JSON forms and each kind of finding in operations.md.
func TestOutputIsDocumented(t *testing.T) {
	page := text(t, docs+"/operate/operations.md")
	for _, of := range []reflect.Type{reflect.TypeFor[ipamtool.Holder](), reflect.TypeFor[ipamtool.Verdict](), reflect.TypeFor[audit.Finding]()} {
		for f := range of.Fields() {
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if key != "" && !strings.Contains(page, "`"+key+"`") {
				t.Errorf("%s: %s is not documented", of, key)
			}
		}
	}
	kinds := regexp.MustCompile(`Kind = "(\w+)"`).FindAllStringSubmatch(text(t, "../audit/finding.go"), -1)
	for _, k := range kinds {
		if !regexp.MustCompile("(?m)^\\| `" + k[1] + "` \\| (violation|note) \\|").MatchString(page) {
			t.Errorf("findings of kind %s are not documented", k[1])
		}
	}
	if len(kinds) < 9 {
		t.Errorf("found %d kinds: the test tests little", len(kinds))
	}
}
