package main

import (
	"strings"
	"testing"

	"github.com/limpet-io/limpet/release/component"
	"github.com/limpet-io/limpet/release/image"
	"github.com/limpet-io/limpet/release/sbom"
)

// TestContents finds each file of an image among the binaries, and refuses all else.
func TestContents(t *testing.T) {
	agent := sbom.Input{Binary: component.Binary{Name: "limpet-agent"}, SHA256: "a"}
	known := map[string]sbom.Input{"a": agent}
	cases := map[string]struct {
		files []image.File
		want  string
	}{
		"a binary":               {[]image.File{{Path: "/limpet-agent", SHA256: "a"}}, ""},
		"a changed binary":       {[]image.File{{Path: "/limpet-agent", SHA256: "b"}}, "/limpet-agent, which is none of"},
		"a file beside it":       {[]image.File{{Path: "/limpet-agent", SHA256: "a"}, {Path: "/bin/sh", SHA256: "s"}}, "/bin/sh, which is none of"},
		"a binary of other name": {[]image.File{{Path: "/bin/sh", SHA256: "a"}}, "/bin/sh, which is none of"},
		"nothing":                {nil, "has no file"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in, err := contents(image.Image{Name: "agent:dev", Files: tc.files}, known)
			switch {
			case tc.want == "" && (err != nil || len(in.Binaries) != 1):
				t.Errorf("%d binaries, error %v", len(in.Binaries), err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

// TestKrewNamesArchives refuses an archive whose name has no platform.
func TestKrewNamesArchives(t *testing.T) {
	var w strings.Builder
	if err := (environment{stdout: &w}).krew([]string{"--version", "v1", "x.tar.gz"}); err == nil || w.Len() > 0 {
		t.Errorf("error %v, printed %q", err, w.String())
	}
}
