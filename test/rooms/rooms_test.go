// Package rooms_test holds the packages of the module to the rooms that docs/design/0001-architecture.md lists:
// each package has a room and a rule of depguard, and imports point down only.
package rooms_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const (
	root   = "../.."
	module = "github.com/limpet-io/limpet"
)

// goPackage is the part of the output of go list that the tests need. Test files are left out: tests may import
// anything.
type goPackage struct {
	ImportPath string
	GoFiles    []string
	Imports    []string
}

// packages returns the packages in cmd, internal and pkg by their directories.
func packages(t *testing.T) map[string]goPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,GoFiles,Imports", "./cmd/...", "./internal/...", "./pkg/...")
	cmd.Dir = root
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	found := map[string]goPackage{}
	for decoder := json.NewDecoder(out); ; {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		if len(p.GoFiles) > 0 {
			found[strings.TrimPrefix(p.ImportPath, module+"/")] = p
		}
	}
	must(t, cmd.Wait())
	return found
}

// TestEveryRoomHasARule fails for a package that no rule of depguard names. A rule for all packages, such as the
// rule for tests, does not count.
func TestEveryRoomHasARule(t *testing.T) {
	rules := depguardRules(t)
	for dir := range packages(t) {
		covers := func(files []string) bool {
			top, _, _ := strings.Cut(dir, "/")
			return matches(files, dir+"/file.go") && !matches(files, top+"/no-such-room/file.go")
		}
		if !slices.ContainsFunc(rules, func(r rule) bool { return covers(r.Files) }) {
			t.Errorf("no depguard rule of .golangci.yml names %s", dir)
		}
	}
}

// TestEveryRuleHasARoom fails for a rule whose rooms were all moved or removed.
func TestEveryRuleHasARoom(t *testing.T) {
	all := packages(t)
	for _, r := range depguardRules(t) {
		covered := slices.Contains(r.Files, "$test") || slices.Contains(r.Files, "$all")
		for dir := range all {
			covered = covered || matches(r.Files, dir+"/file.go")
		}
		if !covered {
			t.Errorf("depguard rule %s covers no package: %v", r.name, r.Files)
		}
	}
}

// TestPkgIsAPromise fails for a package in pkg that importers cannot use without the rest of the module.
func TestPkgIsAPromise(t *testing.T) {
	for dir, p := range packages(t) {
		for _, imported := range p.Imports {
			inner, own := strings.CutPrefix(imported, module+"/")
			if own && strings.HasPrefix(dir, "pkg/") && !strings.HasPrefix(inner, "pkg/") {
				t.Errorf("%s imports %s", dir, inner)
			}
		}
	}
}

// TestArrowsPointDown fails for a package that the document does not list, and for an import of a higher layer.
func TestArrowsPointDown(t *testing.T) {
	order := []string{"words", "core", "shell", "wire", "beside"}
	rooms := layers(t)
	layerOf := func(dir string) int {
		longest, layer := "", -1
		for room, name := range rooms {
			if within := dir == room || strings.HasPrefix(dir, room+"/"); within && len(room) > len(longest) {
				longest, layer = room, slices.Index(order, name)
			}
		}
		return layer
	}
	for dir, p := range packages(t) {
		layer := layerOf(dir)
		if layer < 0 {
			t.Errorf("docs/design/0001-architecture.md lists no room and layer for %s", dir)
			continue
		}
		for _, imported := range p.Imports {
			inner, own := strings.CutPrefix(imported, module+"/")
			if own && layerOf(inner) > layer {
				t.Errorf("%s (%s) imports %s (%s)", dir, order[layer], inner, order[layerOf(inner)])
			}
		}
	}
}

// layers returns the layer of each room in the table of the document.
func layers(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs/design/0001-architecture.md"))
	must(t, err)
	row := regexp.MustCompile(`(?m)^\| (words|core|shell|wire|beside) \| ([^|]+) \|`)
	room := regexp.MustCompile("`([^`]+)`")
	found := map[string]string{}
	for _, r := range row.FindAllStringSubmatch(string(page), -1) {
		for _, name := range room.FindAllStringSubmatch(r[2], -1) {
			for _, dir := range expand(name[1]) {
				found[strings.TrimRight(dir, "/*…")] = r[1]
			}
		}
	}
	return found
}

// expand returns the names that a{b,c} stands for.
func expand(name string) []string {
	before, rest, braces := strings.Cut(name, "{")
	list, after, _ := strings.Cut(rest, "}")
	if !braces {
		return []string{name}
	}
	var all []string
	for part := range strings.SplitSeq(list, ",") {
		all = append(all, before+strings.TrimSpace(part)+after)
	}
	return all
}

type rule struct {
	name  string
	Files []string `json:"files"`
}

// depguardRules returns the rules in the order of their names.
func depguardRules(t *testing.T) []rule {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, ".golangci.yml"))
	must(t, err)
	var config struct {
		Linters struct {
			Settings struct {
				Depguard struct {
					Rules map[string]rule `json:"rules"`
				} `json:"depguard"`
			} `json:"settings"`
		} `json:"linters"`
	}
	must(t, yaml.Unmarshal(data, &config))
	var all []rule
	for name, r := range config.Linters.Settings.Depguard.Rules {
		r.name = name
		all = append(all, r)
	}
	if len(all) == 0 {
		t.Fatal("no depguard rules in .golangci.yml")
	}
	return all
}

// matches reports whether the patterns of a rule choose a file, as depguard reads them: one pattern chooses it, and
// none with an exclamation mark excludes it. The variables $test and $all choose by other means than the path.
func matches(patterns []string, path string) bool {
	chosen := false
	for _, p := range patterns {
		glob, excludes := strings.CutPrefix(p, "!")
		if strings.HasPrefix(glob, "$") || !asRegexp(glob).MatchString("/module/"+path) {
			continue
		}
		if excludes {
			return false
		}
		chosen = true
	}
	return chosen
}

// asRegexp turns a glob into a regular expression: ** is any text, * is any text without a slash.
func asRegexp(glob string) *regexp.Regexp {
	quoted := regexp.QuoteMeta(glob)
	quoted = strings.ReplaceAll(quoted, `\*\*`, ".*")
	quoted = strings.ReplaceAll(quoted, `\*`, "[^/]*")
	return regexp.MustCompile("^" + quoted + "$")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
