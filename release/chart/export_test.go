package chart

import "strings"

// Rendered returns the objects of a directory of manifests by id, as kustomize renders them. With added
// directories, they are rendered on top of the base.
func Rendered(deploy, dir string, added ...string) (map[string]string, error) {
	m, err := read(deploy)
	if err != nil {
		return nil, err
	}
	objects, err := m.overlay(dir, added...)
	if err != nil {
		return nil, err
	}
	byID := map[string]string{}
	for _, o := range objects {
		byID[o.id] = strings.Join(o.lines, "\n")
	}
	return byID, nil
}
