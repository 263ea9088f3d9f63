package chart

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Release is what a chart says of the release that it installs.
type Release struct {
	// Version is the version of the release. The chart has the same if it is a semantic one.
	Version string
	// Registry and Tag name the images by default.
	Registry, Tag string
}

// Files returns the files of the chart by their path: those that are written by hand, and the templates of
// the manifests.
func Files(deploy string, r Release) (map[string]string, error) {
	m, err := read(deploy)
	if err != nil {
		return nil, err
	}
	if err := m.known(); err != nil {
		return nil, err
	}
	generated, err := templates(m)
	if err != nil {
		return nil, err
	}
	files, err := written(filepath.Join(deploy, "chart"))
	if err != nil {
		return nil, err
	}
	for name, text := range generated {
		files[path.Join("templates", name)] = text
	}
	if files["Chart.yaml"], err = named(files["Chart.yaml"], r); err != nil {
		return nil, err
	}
	before := files["values.yaml"]
	files["values.yaml"] = strings.Replace(before, "registry: limpet-io ", "registry: "+r.Registry+" ", 1)
	if r.Registry != "limpet-io" && files["values.yaml"] == before {
		return nil, errors.New("values.yaml has no line with the registry limpet-io")
	}
	files["README.md"], err = readme(files["values.schema.json"], files["values.yaml"])
	return files, err
}

// known checks that each directory of manifests is one that the chart takes into account.
func (m manifests) known() error {
	known := append([]string{base}, beside...)
	text, err := m.files.ReadFile(path.Join("/deploy", base, "kustomization.yaml"))
	if err != nil {
		return fmt.Errorf("read kustomization of %s: %w", base, err)
	}
	var k struct {
		Resources []string `json:"resources"`
	}
	if err := yaml.Unmarshal(text, &k); err != nil {
		return fmt.Errorf("parse kustomization of %s: %w", base, err)
	}
	for _, r := range k.Resources {
		known = append(known, path.Base(r))
	}
	for _, v := range variants {
		known = append(known, v.dir)
	}
	for _, d := range m.dirs {
		if !slices.Contains(known, d) {
			return fmt.Errorf("the chart does not know deploy/%s: name it in variants of release/chart/variants.go", d)
		}
	}
	return nil
}

// written returns the files of a directory by their path.
func written(dir string) (map[string]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(file)
		files[rel] = string(data)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read chart %s: %w", dir, err)
	}
	return files, nil
}

// semantic is a semantic version, with or without v.
var semantic = regexp.MustCompile(`^v?(\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?)$`)

// ChartVersion returns the version of the chart.
func (r Release) ChartVersion() string {
	if m := semantic.FindStringSubmatch(r.Version); m != nil {
		return m[1]
	}
	// Behind a g, because a part of digits must not begin with 0.
	return "0.0.0-g" + strings.NewReplacer("_", "-", "/", "-").Replace(r.Version)
}

// named writes the version and the tag of the images into Chart.yaml.
func named(text string, r Release) (string, error) {
	for from, to := range map[string]string{"\nversion: 0.0.0\n": "\nversion: " + r.ChartVersion() + "\n", "\nappVersion: dev\n": fmt.Sprintf("\nappVersion: %q\n", r.Tag)} {
		if strings.Count(text, from) != 1 {
			return "", fmt.Errorf("the file Chart.yaml has no line %q", strings.TrimSpace(from))
		}
		text = strings.Replace(text, from, to, 1)
	}
	return text, nil
}
