// Package license finds the licence of a Go module and says whether Limpet may be
// distributed with it.
package license

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licenseclassifier/v2"
	"github.com/google/licenseclassifier/v2/assets"
)

// Allowed are the licences, by SPDX identifier, that permit a static binary under
// Apache-2.0 and ask for a notice at most.
var Allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"}

// file matches the names of files with the text of a licence.
var file = regexp.MustCompile(`(?i)^(licen[cs]e|copying)([-.](md|txt|code|mit|apache|bsd))?$`)

// ErrNone is returned for a module without a file that names its licence.
var ErrNone = errors.New("no licence found")

// Finder finds licences by the text of their files.
type Finder struct {
	classifier *classifier.Classifier
}

// NewFinder loads the texts of all known licences.
func NewFinder() (*Finder, error) {
	c, err := assets.DefaultClassifier()
	if err != nil {
		return nil, fmt.Errorf("load the texts of licences: %w", err)
	}
	return &Finder{c}, nil
}

// Of returns the SPDX identifiers of the licences in a module's directory, in order.
func (f *Finder) Of(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("look for licences: %w", err)
	}
	var found []string
	for _, e := range entries {
		if e.IsDir() || !file.MatchString(e.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("read licence: %w", err)
		}
		for _, m := range f.classifier.Match(text).Matches {
			if m.MatchType == "License" {
				found = append(found, m.Name)
			}
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w in %s", ErrNone, dir)
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// Check returns an error that names the licences which are not allowed.
func Check(found []string) error {
	var denied []string
	for _, l := range found {
		if !slices.Contains(Allowed, l) {
			denied = append(denied, l)
		}
	}
	if len(denied) > 0 {
		return fmt.Errorf("licence %s is not in the list of allowed ones (%s)", strings.Join(denied, ", "), strings.Join(Allowed, ", "))
	}
	return nil
}
