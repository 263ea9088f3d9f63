package provenance_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/limpet-io/limpet/release/component"
	"github.com/limpet-io/limpet/release/provenance"
)

// TestStatement names files, source and modules with their digests, and is the same each
// time.
func TestStatement(t *testing.T) {
	sum := strings.Repeat("ab", 32)
	in := provenance.Input{
		Files: []provenance.Digested{{Name: "limpet-ipam", SHA256: sum}}, Repository: "https://example.org/limpet", Commit: "0123", Version: "v1",
		GoVersion: "go1.26.8", Builder: "https://example.org/builder", Finished: time.Unix(1e9, 0),
		Modules: []component.Module{{Path: "example.org/m", Version: "v1.0.0", Sum: "h1:x"}},
	}
	first, err := provenance.Statement(in)
	if err != nil {
		t.Fatal(err)
	}
	second, err := provenance.Statement(in)
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("two statements differ, error %v", err)
	}
	var s struct {
		Type    string `json:"_type"`
		Subject []struct {
			Name   string            `json:"name"`
			Digest map[string]string `json:"digest"`
		} `json:"subject"`
		PredicateType string `json:"predicateType"`
		Predicate     struct {
			BuildDefinition struct {
				ResolvedDependencies []struct {
					URI string `json:"uri"`
				} `json:"resolvedDependencies"`
			} `json:"buildDefinition"`
		} `json:"predicate"`
	}
	if err := json.Unmarshal(first, &s); err != nil {
		t.Fatal(err)
	}
	if s.Type != "https://in-toto.io/Statement/v1" || s.PredicateType != "https://slsa.dev/provenance/v1" {
		t.Errorf("types %q and %q", s.Type, s.PredicateType)
	}
	if len(s.Subject) != 1 || s.Subject[0].Name != "limpet-ipam" || s.Subject[0].Digest["sha256"] != sum {
		t.Errorf("subject %+v", s.Subject)
	}
	deps := s.Predicate.BuildDefinition.ResolvedDependencies
	if len(deps) != 2 || deps[0].URI != "git+https://example.org/limpet" || deps[1].URI != "pkg:golang/example.org/m@v1.0.0" {
		t.Errorf("dependencies %+v", deps)
	}
}

// TestStatementWithoutFiles is refused: it would say nothing.
func TestStatementWithoutFiles(t *testing.T) {
	if _, err := provenance.Statement(provenance.Input{}); err == nil {
		t.Error("no error")
	}
}
