package sbom_test

import (
	"bytes"
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"

	"github.com/limpet-io/limpet/release/component"
	"github.com/limpet-io/limpet/release/sbom"
)

// TestNew describes a binary of this module: the document can be read back, contains each
// module and the standard library, and is the same each time.
func TestNew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limpet-release")
	if out, err := exec.CommandContext(t.Context(), cmp.Or(os.Getenv("GO"), "go"), "build", "-o", path, "../cmd/limpet-release").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b, err := component.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Modules) == 0 {
		t.Fatal("the binary names no modules")
	}
	licences := map[component.Module][]string{b.Modules[0]: {"Apache-2.0", "MIT"}}
	in := sbom.Input{Binary: b, Version: "v1", SHA256: strings.Repeat("0", 64), Created: time.Unix(1e9, 0), Licences: licences}
	var first, second bytes.Buffer
	for _, w := range []*bytes.Buffer{&first, &second} {
		if err := spdxjson.Write(sbom.New(in), w); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two documents of one binary differ")
	}
	doc, err := spdxjson.Read(&first)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(doc.Packages), len(b.Modules)+2; got != want {
		t.Errorf("%d packages, want %d", got, want)
	}
	if got, want := len(doc.Relationships), len(b.Modules)+2; got != want {
		t.Errorf("%d relationships, want %d", got, want)
	}
	if got := doc.Packages[2].PackageLicenseConcluded; got != "Apache-2.0 AND MIT" {
		t.Errorf("licence %q", got)
	}
	if got := doc.CreationInfo.Created; got != "2001-09-09T01:46:40Z" {
		t.Errorf("created %s", got)
	}
}

// TestNewImage describes an image of two binaries: each is in it, with all of its parts, and a
// module that both have is one package.
func TestNewImage(t *testing.T) {
	both := component.Module{Path: "example.org/both", Version: "v1.0.0"}
	own := component.Module{Path: "example.org/own", Version: "v1.0.0"}
	binary := func(name string, modules ...component.Module) sbom.Input {
		return sbom.Input{
			Binary:  component.Binary{Name: name, GoVersion: "go1.26.8", Modules: modules},
			Version: "v1", SHA256: strings.Repeat("0", 64), Created: time.Unix(1e9, 0),
		}
	}
	id := strings.Repeat("a", 64)
	var w bytes.Buffer
	err := spdxjson.Write(sbom.NewImage(sbom.ImageInput{
		Name: "example.org/limpet-agent:dev", ID: id, Binaries: []sbom.Input{binary("limpet-agent", both, own), binary("limpet-ipam", both)},
	}), &w)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := spdxjson.Read(&w)
	if err != nil {
		t.Fatal(err)
	}
	if got := doc.Packages[0]; got.PrimaryPackagePurpose != "CONTAINER" || got.PackageChecksums[0].Value != id {
		t.Errorf("image %+v", got)
	}
	if got, want := len(doc.Packages), 1+2+1+2; got != want { // image, binaries, standard library, modules
		t.Errorf("%d packages, want %d", got, want)
	}
	if got, want := len(doc.Relationships), 1+2+3+2; got != want { // described, binaries, parts of each
		t.Errorf("%d relationships, want %d", got, want)
	}
}
