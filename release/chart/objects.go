package chart

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// object is one object as kustomize renders it.
type object struct {
	// id is the kind, the namespace and the name in lower case. It is also the name of the template.
	id, kind, name string
	lines          []string
}

// manifests is a copy of the deploy directory in memory, in which overlays are made.
type manifests struct {
	files filesys.FileSystem
	dirs  []string
}

// read copies the kustomizations of the deploy directory.
func read(deploy string) (manifests, error) {
	m := manifests{files: filesys.MakeFsInMemory()}
	err := filepath.WalkDir(deploy, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(deploy, file)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if rel != "." && !strings.Contains(rel, "/") {
				m.dirs = append(m.dirs, rel)
			}
			if slices.Contains(beside, rel) {
				return filepath.SkipDir
			}
			return nil
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		return m.files.WriteFile(path.Join("/deploy", rel), data)
	})
	if err != nil {
		return m, fmt.Errorf("read manifests of %s: %w", deploy, err)
	}
	return m, nil
}

// render returns the objects of one directory.
func (m manifests) render(dir string) ([]object, error) {
	found, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(m.files, path.Join("/deploy", dir))
	if err != nil {
		return nil, fmt.Errorf("render kustomization %s: %w", dir, err)
	}
	return objects(found)
}

// overlay returns the objects of one directory with further ones on top: components change objects, other
// directories add objects.
func (m manifests) overlay(under string, dirs ...string) ([]object, error) {
	k := map[string][]string{"resources": {"../" + under}}
	for _, d := range dirs {
		field := "resources"
		if component, err := m.isComponent(d); err != nil {
			return nil, err
		} else if component {
			field = "components"
		}
		k[field] = append(k[field], "../"+d)
	}
	text, err := yaml.Marshal(k)
	if err != nil {
		return nil, fmt.Errorf("encode kustomization: %w", err)
	}
	const own = ".overlay"
	if err := m.files.WriteFile(path.Join("/deploy", own, "kustomization.yaml"), text); err != nil {
		return nil, fmt.Errorf("write kustomization: %w", err)
	}
	return m.render(own)
}

func (m manifests) isComponent(dir string) (bool, error) {
	text, err := m.files.ReadFile(path.Join("/deploy", dir, "kustomization.yaml"))
	if err != nil {
		return false, fmt.Errorf("read kustomization of %s: %w", dir, err)
	}
	var k struct {
		Kind string `json:"kind"`
	}
	if err := yaml.Unmarshal(text, &k); err != nil {
		return false, fmt.Errorf("parse kustomization of %s: %w", dir, err)
	}
	return k.Kind == "Component", nil
}

func objects(m resmap.ResMap) ([]object, error) {
	var all []object
	for _, r := range m.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", r.CurId(), err)
		}
		id := r.CurId()
		o := object{kind: id.Kind, name: id.Name, lines: strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")}
		o.id = strings.ToLower(strings.Join(slices.DeleteFunc([]string{id.Kind, r.GetNamespace(), id.Name}, empty), "_"))
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b object) int { return strings.Compare(a.id, b.id) })
	for i := 1; i < len(all); i++ {
		if all[i].id == all[i-1].id {
			return nil, fmt.Errorf("two objects have the id %s", all[i].id)
		}
	}
	return all, nil
}

func empty(s string) bool { return s == "" }
