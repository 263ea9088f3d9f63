package words

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"testing"
)

// rooms are the directories with Go code.
var rooms = []string{"cmd", "internal", "pkg", "test"}

// TestIdentifiersArePlain checks the identifiers that this repository declares.
func TestIdentifiersArePlain(t *testing.T) {
	for _, room := range rooms {
		bad, err := badNames(filepath.Join(root, room))
		if err != nil {
			t.Fatal(err)
		}
		for _, complaint := range bad {
			t.Error(complaint)
		}
	}
}

// TestTextsArePlain checks the errors, log messages, events and help texts.
func TestTextsArePlain(t *testing.T) {
	for _, room := range rooms {
		bad, err := badTexts(filepath.Join(root, room))
		if err != nil {
			t.Fatal(err)
		}
		for _, complaint := range bad {
			t.Error(complaint)
		}
	}
}

// TestCommentsArePlain checks the comments of the code and of its tests.
func TestCommentsArePlain(t *testing.T) {
	for _, room := range rooms {
		bad, err := badComments(filepath.Join(root, room))
		if err != nil {
			t.Fatal(err)
		}
		for _, complaint := range bad {
			t.Error(complaint)
		}
	}
}

func TestBetterName(t *testing.T) {
	tests := map[string]struct{ id, want string }{
		"a banned identifier":           {"nudger", "Resyncer"},
		"an exported one":               {"Nudger", "Resyncer"},
		"a banned word inside":          {"oldestHeirOf", "legacyReservation"},
		"an identifier as a part":       {"newsletter", ""},
		"a banned word inside a word":   {"theirs", ""},
		"an identifier inside a longer": {"AnnotationNudged", ""},
		"a plain one":                   {"Resyncer", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := betterName(test.id); got != test.want {
				t.Errorf("betterName(%s) = %q, want %q", test.id, got, test.want)
			}
		})
	}
}

func TestDeclared(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "a.go", `package a
import f "fmt"
type T[P any] struct { field int }
const c = 1
func (r T[P]) method(param int) (result int) {
	local := f.Sprint(param)
	for key, value := range local { _, _ = key, value }
	result = len(local)
label:
	return
}`, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, id := range declared(file) {
		got = append(got, id.Name)
	}
	slices.Sort(got)
	want := []string{"P", "T", "c", "field", "key", "label", "local", "method", "param", "r", "result", "value"}
	if !slices.Equal(got, want) {
		t.Errorf("declared() = %v, want %v", got, want)
	}
}
